"""The small operators against torch in float64, and their bits against the batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from torch.nn.functional import gelu, silu

from agentrt.errors import InvalidRequest

if TYPE_CHECKING:
    from agentrt.runtime.native import Kernels

DIMS = [1, 7, 32, 576, 601]


@pytest.mark.parametrize("dim", DIMS)
def test_rms_norm(kernels: Kernels, portable: Kernels, dim: int) -> None:
    x, weight = torch.randn(9, dim) * 3, torch.randn(dim)
    got = kernels.rms_norm(x, weight, 1e-5)
    scale = (x.double().pow(2).mean(-1, keepdim=True) + 1e-5).rsqrt()
    torch.testing.assert_close(got.double(), x.double() * scale * weight, rtol=1e-5, atol=1e-6)
    assert torch.equal(got[4:5], kernels.rms_norm(x[4:5], weight, 1e-5))
    assert torch.equal(got, portable.rms_norm(x, weight, 1e-5))


def test_rms_norm_of_heads_within_rows(kernels: Kernels, portable: Kernels) -> None:
    rows, weight = torch.randn(5, 7 * 24), torch.rand(24)
    heads = rows.view(1, 5, 7, 24)[:, :, 2:5]
    wanted = kernels.rms_norm(heads.contiguous(), weight, 1e-6)
    assert torch.equal(kernels.rms_norm(heads, weight, 1e-6), wanted)
    assert torch.equal(portable.rms_norm(heads, weight, 1e-6), wanted)
    scattered = rows.view(5, 24, 7).transpose(1, 2)
    wanted = kernels.rms_norm(scattered.contiguous(), weight, 1e-6)
    assert torch.equal(kernels.rms_norm(scattered, weight, 1e-6), wanted)


def test_rms_norm_of_a_sum_leaves_its_parts_alone(kernels: Kernels) -> None:
    x, y, weight = torch.randn(5, 96), torch.randn(5, 96), torch.randn(96)
    parts = x.clone(), y.clone()
    total, got = kernels.add_rms_norm(x, y, weight, 1e-6)
    assert torch.equal(total, x + y)
    assert torch.equal(got, kernels.rms_norm(x + y, weight, 1e-6))
    assert torch.equal(x, parts[0])
    assert torch.equal(y, parts[1])


@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize("name", ["silu", "gelu_tanh"])
def test_gate(kernels: Kernels, portable: Kernels, dim: int, name) -> None:
    gate_up = torch.randn(6, 2 * dim) * 5
    gate_up[0, 0], gate_up[1, 0] = 200.0, -200.0
    gate, up = gate_up.double().chunk(2, -1)
    want = (silu(gate) if name == "silu" else gelu(gate, approximate="tanh")) * up
    got = kernels.gate(gate_up, name)
    torch.testing.assert_close(got.double(), want, rtol=2e-6, atol=2e-5)
    assert torch.equal(got[3:4], kernels.gate(gate_up[3:4], name))
    assert torch.equal(got, portable.gate(gate_up, name))


@pytest.mark.parametrize("rotated", [64, 32])
def test_rotate(kernels: Kernels, portable: Kernels, rotated: int) -> None:
    from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

    fused = torch.randn(5, 4 * 64 + 8)
    angles = torch.rand(5, rotated // 2).repeat(1, 2) * 6
    cos, sin = angles.cos(), angles.sin()
    heads = fused[:, : 4 * 64].view(5, 4, 64)
    want = fused.clone()
    part = heads[..., :rotated].transpose(0, 1)[None]
    turned, _ = apply_rotary_pos_emb(part, part, cos[None], sin[None])
    want[:, : 4 * 64].view(5, 4, 64)[..., :rotated] = turned[0].transpose(0, 1)
    copy = fused.clone()
    kernels.rotate(heads, cos, sin)
    torch.testing.assert_close(fused, want, rtol=0, atol=0)
    portable.rotate(copy[:, : 4 * 64].view(5, 4, 64), cos, sin)
    assert torch.equal(copy, fused)


def test_rotate_refuses_scattered_heads(kernels: Kernels) -> None:
    with pytest.raises(InvalidRequest, match="adjacent"):
        kernels.rotate(torch.randn(2, 64, 3).transpose(1, 2), torch.ones(2, 64), torch.ones(2, 64))
