"""Products against float64, and the bits of a row against everything that may not change them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

from agentrt.errors import InvalidRequest
from agentrt.runtime.native import Q4Weight, Q8Weight, quantise_q8

if TYPE_CHECKING:
    from agentrt.runtime.native import Kernels, PackedLinear
    from agentrt.runtime.native.linear import Kind

KINDS: list[Kind] = ["f32", "q8", "q4", "q4_mixed"]
# Rows of weights that fill their last strip or do not, inputs of one block and of many.
SHAPES = [(16, 32), (40, 64), (1, 96), (200, 576), (72, 1536)]


def random_weight(kind: Kind, shape: tuple[int, int], seed: int = 0):
    """A weight of the kind, with the widest quants it allows."""
    make = torch.Generator().manual_seed(seed)
    rows, inputs = shape
    blocks = (rows, inputs // 32)
    if kind == "f32":
        return torch.randn(shape, generator=make)
    scales = torch.rand(blocks, generator=make).half()
    if kind == "q8":
        quants = torch.randint(-128, 128, shape, generator=make, dtype=torch.int8)
        return Q8Weight(quants, scales / 64)
    quants = torch.randint(0, 16, shape, generator=make, dtype=torch.uint8)
    return Q4Weight(quants, scales / 8, (-torch.rand(blocks, generator=make)).half())


def pack(kernels: Kernels, kind: Kind, weights, bias=None) -> PackedLinear:
    if kind == "f32":
        return kernels.pack_f32(weights, bias)
    if kind == "q8":
        return kernels.pack_q8(weights, bias)
    return kernels.pack_q4(weights, bias, mixed=kind == "q4_mixed")


def plain(weight) -> torch.Tensor:
    return weight.double() if isinstance(weight, torch.Tensor) else weight.dequantise()


def activations(rows: int, inputs: int) -> torch.Tensor:
    """As models have them: in every third row a block stands out, by one large value in it."""
    x = torch.randn(rows, inputs)
    x[::3, inputs // 2] = 40.0
    return x


def rounded_activations(x: torch.Tensor, kind: Kind) -> torch.Tensor:
    """What the quantised kinds make of their input: 16 or 8 bits, a scale per 32 of a row.

    In float32, as they do it: where a value lies between two steps, the last bit decides.
    """
    blocks = x.unflatten(-1, (-1, 32))
    largest = blocks.abs().amax(-1, keepdim=True)
    top = 127 if kind == "q4_mixed" else 32767
    scaled = blocks * torch.div(torch.full_like(largest, top), largest)
    quants = scaled.round()
    fine = torch.zeros(())
    if kind == "q4_mixed":
        size = x.square().mean(-1).sqrt()[..., None, None]
        fine = ((scaled - quants) * 254).round().where(largest > 7 * size, 0)
    return ((quants.double() + fine.double() / 254) * largest.double() / top).flatten(-2)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("rows", [0, 1, 3, 4, 5, 8, 9, 13])
def test_equals_float64(kernels: Kernels, kind: Kind, shape: tuple[int, int], rows: int) -> None:
    weight, bias = random_weight(kind, shape), torch.randn(shape[0])
    x = activations(rows, shape[1])
    got = pack(kernels, kind, [weight], [bias])(x)
    inputs = x.double() if kind == "f32" else rounded_activations(x, kind)
    want = inputs @ plain(weight).T + bias.double()
    # The largest sum that could cancel bounds what rounding each of K terms may add up to.
    size = inputs.abs() @ plain(weight).abs().T
    assert ((got - want).abs() <= 1e-6 * size + 1e-5).all()


@pytest.mark.parametrize(("kind", "limit"), [("q8", 1e-4), ("q4", 1e-4), ("q4_mixed", 2e-2)])
def test_rounding_activations_costs_little(kernels: Kernels, kind: Kind, limit: float) -> None:
    weight, x = random_weight(kind, (64, 576)), torch.randn(8, 576)
    want = x.double() @ plain(weight).T
    error = (pack(kernels, kind, [weight])(x) - want).norm() / want.norm()
    assert error < limit


def test_a_block_that_stands_out_keeps_its_small_values(kernels: Kernels) -> None:
    """Rounded to 8 bits, all of them would be lost beside a value 300 times their size."""
    weight, x = random_weight("q4", (64, 576)), torch.randn(1, 576)
    x[0, 40] = 300.0
    others = x.clone()
    others[0, 40] = 0.0
    column = plain(weight)[:, 40] * 300.0
    got = pack(kernels, "q4_mixed", [weight])(x)[0] - column
    want = (others.double() @ plain(weight).T)[0]
    assert (got - want).norm() < 2e-2 * want.norm()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_row_has_its_bits_in_any_batch(
    kernels: Kernels, one_thread: Kernels, kind: Kind, shape: tuple[int, int]
) -> None:
    weight, x = random_weight(kind, shape), activations(64, shape[1])
    two, one = pack(kernels, kind, [weight]), pack(one_thread, kind, [weight])
    together = two(x)
    assert torch.equal(together, one(x))
    start = 0
    for rows in (0, 1, 2, 3, 4, 5, 6, 7, 8, 11, 17):
        part = x[start : start + rows]
        assert torch.equal(two(part), together[start : start + rows])
        assert torch.equal(one(part), together[start : start + rows])
        start += rows


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows", [1, 4, 13])
def test_plain_c_gives_the_same_bits(
    kernels: Kernels, portable: Kernels, kind: Kind, rows: int
) -> None:
    weight, bias = random_weight(kind, (72, 576)), torch.randn(72)
    x = activations(rows, 576) * torch.logspace(-30, 10, 576)
    fast, slow = (pack(k, kind, [weight], [bias])(x) for k in (kernels, portable))
    assert torch.equal(fast, slow)


@pytest.mark.parametrize("kind", KINDS)
def test_stacked_weights_give_the_columns_of_each(kernels: Kernels, kind: Kind) -> None:
    weights = [random_weight(kind, (rows, 64), seed) for seed, rows in enumerate((48, 24, 24))]
    bias = [torch.randn(48), None, torch.randn(24)]
    x = torch.randn(2, 3, 64)
    stacked = pack(kernels, kind, weights, bias)
    assert (stacked.in_features, stacked.out_features) == (64, 96)
    parts = [pack(kernels, kind, [w], [b])(x) for w, b in zip(weights, bias, strict=True)]
    assert torch.equal(stacked(x), torch.cat(parts, -1))


@pytest.mark.parametrize("kind", KINDS)
def test_state_comes_back_as_the_same_product(kernels: Kernels, kind: Kind, tmp_path) -> None:
    from safetensors.torch import load_file, save_file

    packed = pack(kernels, kind, [random_weight(kind, (40, 64))], [torch.randn(40)])
    save_file(packed.state(), tmp_path / "weight.safetensors")
    restored = kernels.restore(load_file(tmp_path / "weight.safetensors"))
    x = torch.randn(5, 64)
    assert restored.kind == kind
    assert torch.equal(restored(x), packed(x))


@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_the_weights_themselves(kernels: Kernels, kind: Kind) -> None:
    weight = random_weight(kind, (40, 64))
    ids = torch.tensor([[0, 39], [7, 7]])
    assert torch.equal(pack(kernels, kind, [weight]).rows(ids), plain(weight).float()[ids])


@pytest.mark.parametrize("kind", KINDS)
def test_nan_and_infinity_stay_in_their_row(kernels: Kernels, kind: Kind) -> None:
    packed = pack(kernels, kind, [random_weight(kind, (48, 64))])
    x = torch.randn(7, 64)
    clean = packed(x)
    x[2, 5], x[4, 40] = float("nan"), float("inf")
    got = packed(x)
    assert not torch.isfinite(got[2]).any()
    assert not torch.isfinite(got[4]).any()
    rest = [0, 1, 3, 5, 6]
    assert torch.equal(got[rest], clean[rest])


@pytest.mark.parametrize("kind", ["q8", "q4", "q4_mixed"])
def test_zeros_and_tiny_inputs_are_finite(kernels: Kernels, kind: Kind) -> None:
    packed = pack(kernels, kind, [random_weight(kind, (16, 32))])
    assert torch.equal(packed(torch.zeros(3, 32)), torch.zeros(3, 16))
    assert torch.isfinite(packed(torch.full((3, 32), 1e-38))).all()


def test_quantise_q8_is_within_half_a_step() -> None:
    weight = torch.randn(24, 96)
    weight[3, :32] = 0
    quantised = quantise_q8(weight)
    step = quantised.scales.double().repeat_interleave(32, -1)
    # A half float's own rounding moves the largest quant of a block by a little more.
    assert ((quantised.dequantise() - weight.double()).abs() <= 0.6 * step + 1e-9).all()


def test_refuses_what_it_cannot_multiply(kernels: Kernels) -> None:
    with pytest.raises(InvalidRequest, match=r"blocks of 32 and this one has 40.*float32"):
        kernels.pack_q8([torch.randn(8, 40)])
    packed = kernels.pack_f32([torch.randn(8, 40)])
    with pytest.raises(InvalidRequest, match=r"want torch.float32 \[\.\.\., 40\]"):
        packed(torch.randn(2, 41))
    with pytest.raises(InvalidRequest, match="float64"):
        packed(torch.randn(2, 40, dtype=torch.float64))
    with pytest.raises(InvalidRequest, match="rows 0 to 7"):
        packed.rows(torch.tensor([8]))
    state = packed.state()
    with pytest.raises(InvalidRequest, match="pack them again"):
        kernels.restore({**state, "header": state["header"] + 1})


@pytest.mark.parametrize("rows", [1, 4, 6])
@pytest.mark.parametrize("sign", [1, -1])
def test_the_largest_values_do_not_overflow(
    kernels: Kernels, portable: Kernels, rows: int, sign: int
) -> None:
    scales = torch.ones(16, 2, dtype=torch.float16)
    q8 = Q8Weight(torch.full((16, 64), -128, dtype=torch.int8), scales)
    q4 = Q4Weight(torch.full((16, 64), 15, dtype=torch.uint8), scales, torch.zeros_like(scales))
    x = torch.full((rows, 64), 3.0 * sign)
    for k in (kernels, portable):
        for kind, weight in (("q8", q8), ("q4", q4), ("q4_mixed", q4)):
            want = x.double() @ weight.dequantise().T
            torch.testing.assert_close(pack(k, kind, [weight])(x).double(), want)
