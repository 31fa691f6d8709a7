"""Rounding to 8 bits is that of GGUF's Q8_0, as the gguf package has it."""

from __future__ import annotations

import gguf
import numpy as np
import pytest
import torch

from agentrt.errors import InvalidRequest
from agentrt.runtime.native import quantise_q8


def test_eight_bits_are_ggufs() -> None:
    weight = np.random.default_rng(0).normal(size=(24, 96)).astype(np.float32)
    weight[3, 32:64] = 0.0  # a block without a scale
    kind = gguf.GGMLQuantizationType.Q8_0
    raw = gguf.quantize(weight, kind)
    want = gguf.dequantize(raw, kind)
    got = quantise_q8(torch.from_numpy(weight))
    blocks = raw.reshape(24, 3, 34)
    np.testing.assert_array_equal(got.scales.view(torch.uint8).reshape(24, 3, 2), blocks[..., :2])
    # Ours rounds by the scale that is stored, theirs by the one before it became a half float.
    step = np.repeat(got.scales.double().numpy(), 32, axis=-1)
    assert (np.abs(got.dequantise().numpy() - want) <= step * 1.001).all()
    assert (np.abs(got.dequantise().numpy() - weight) <= step * 0.51).all()


def test_inputs_that_make_no_whole_blocks_are_refused() -> None:
    with pytest.raises(InvalidRequest, match="33 inputs"):
        quantise_q8(torch.ones(2, 33))
