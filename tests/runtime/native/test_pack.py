"""GGUF blocks are read as the gguf package reads them."""

from __future__ import annotations

import gguf
import numpy as np
import pytest
import torch

from agentrt.errors import InvalidRequest
from agentrt.runtime.native import read_q4_0, read_q4_1, read_q8_0


@pytest.mark.parametrize(
    ("kind", "read"),
    [
        (gguf.GGMLQuantizationType.Q4_0, read_q4_0),
        (gguf.GGMLQuantizationType.Q4_1, read_q4_1),
        (gguf.GGMLQuantizationType.Q8_0, read_q8_0),
    ],
)
def test_blocks_mean_what_gguf_says(kind: gguf.GGMLQuantizationType, read) -> None:
    raw = gguf.quantize(np.random.default_rng(0).normal(size=(24, 96)).astype(np.float32), kind)
    want = gguf.dequantize(raw, kind)
    # gguf computes in float32; ours is exact.
    np.testing.assert_allclose(read(torch.from_numpy(raw)).dequantise(), want, rtol=1e-6, atol=1e-6)


def test_an_offset_beyond_half_floats_is_refused() -> None:
    block = np.zeros((1, 18), np.uint8)
    block[:, :2] = np.array([9000.0], np.float16).view(np.uint8)
    with pytest.raises(InvalidRequest, match="Q4_0"):
        read_q4_0(torch.from_numpy(block))
