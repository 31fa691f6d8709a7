"""Attention against a float64 softmax, and its bits against everything that may not change them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch

from agentrt.errors import UnsupportedModel
from agentrt.runtime.attention.base import KVCache, LayerAttention
from agentrt.runtime.attention.native import NativeAttention
from agentrt.runtime.batch import Layout, PrefixGroup

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentrt.runtime.native import Kernels

PLAIN = LayerAttention(num_heads=6, num_kv_heads=2, head_dim=64, v_head_dim=64, scale=0.125)
LAYERS = {
    "plain": PLAIN,
    "one head each": replace(PLAIN, num_kv_heads=6),
    "one KV head": replace(PLAIN, num_kv_heads=1),
    "more heads than a tile": replace(PLAIN, num_heads=60, num_kv_heads=1, head_dim=8),
    "wide": replace(PLAIN, head_dim=128, v_head_dim=128),
    "odd dims": replace(PLAIN, head_dim=20, v_head_dim=44, scale=0.3),
    "window": replace(PLAIN, window=40),
    "window of one": replace(PLAIN, window=1),
    "softcap": replace(PLAIN, softcap=5.0, scale=1.0),
    "sinks": replace(PLAIN, has_sinks=True),
    "all": replace(PLAIN, window=33, softcap=20.0, has_sinks=True),
}


@dataclass
class Sequence_:
    """A sequence's whole q, k and v, and the slots that its positions take."""

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    slots: np.ndarray


def make_sequences(
    shape: LayerAttention, lengths: Sequence[int], slots: np.ndarray, shared: int = 0
) -> list[Sequence_]:
    """Sequences of random values; the first `shared` positions of all are the first one's."""
    made: list[Sequence_] = []
    free = iter(np.split(slots, np.cumsum(lengths)))
    for length in lengths:
        one = Sequence_(
            torch.randn(length, shape.num_heads, shape.head_dim),
            torch.randn(length, shape.num_kv_heads, shape.head_dim),
            torch.randn(length, shape.num_kv_heads, shape.v_head_dim),
            next(free).copy(),
        )
        if made:
            for name in ("q", "k", "v", "slots"):
                getattr(one, name)[:shared] = getattr(made[0], name)[:shared]
        made.append(one)
    return made


def layout_of(
    parts: Sequence[tuple[Sequence_, int, int]], groups: tuple[PrefixGroup, ...] = ()
) -> Layout:
    """The batch that computes positions [start, stop) of each sequence."""
    spans = [np.arange(start, stop) for _, start, stop in parts]
    return Layout(
        token_ids=np.zeros(sum(map(len, spans)), np.int64),
        positions=np.concatenate(spans),
        out_slots=np.concatenate([s.slots[a:b] for s, a, b in parts]).astype(np.int64),
        q_indptr=np.cumsum([0, *map(len, spans)]).astype(np.int32),
        kv_indptr=np.cumsum([0, *(stop for _, _, stop in parts)]).astype(np.int32),
        kv_slots=np.concatenate([s.slots[:b] for s, _, b in parts]).astype(np.int32),
        groups=groups,
    )


class Bench:
    """A pool and a backend, and one call to compute part of some sequences."""

    def __init__(self, kernels: Kernels, shape: LayerAttention, num_slots: int) -> None:
        self.cache = KVCache(
            [shape], num_slots=num_slots, dtype=torch.float32, device=torch.device("cpu")
        )
        self.backend = NativeAttention(kernels, self.cache)
        self.sinks = torch.linspace(-2, 3, shape.num_heads) if shape.has_sinks else None

    def compute(
        self, parts: Sequence[tuple[Sequence_, int, int]], groups: tuple[PrefixGroup, ...] = ()
    ) -> list[torch.Tensor]:
        self.backend.plan(layout_of(parts, groups))
        q, k, v = (
            torch.cat([getattr(s, name)[a:b] for s, a, b in parts]) for name in ("q", "k", "v")
        )
        out = self.backend.run(0, q, k, v, self.sinks)
        return list(out.split([b - a for _, a, b in parts]))


def softmax_attention(
    shape: LayerAttention, sequence: Sequence_, sinks: torch.Tensor | None
) -> torch.Tensor:
    """The whole sequence in float64, by the textbook."""
    each = shape.num_heads // shape.num_kv_heads
    q = sequence.q.double().transpose(0, 1)
    k, v = (t.double().transpose(0, 1).repeat_interleave(each, 0) for t in (sequence.k, sequence.v))
    scores = q @ k.transpose(1, 2) * shape.scale
    if shape.softcap is not None:
        scores = shape.softcap * torch.tanh(scores / shape.softcap)
    ahead = torch.arange(len(sequence.q))[:, None] - torch.arange(len(sequence.q))
    hidden = (ahead < 0) | (ahead >= (shape.window or len(sequence.q)))
    scores = scores.masked_fill(hidden, -torch.inf)
    if sinks is not None:
        sink = sinks.double()[:, None, None].expand(-1, len(sequence.q), 1)
        scores = torch.cat([scores, sink], -1)
    weights = scores.softmax(-1)[..., : len(sequence.q)]
    return (weights @ v).transpose(0, 1)


@pytest.mark.parametrize("name", LAYERS)
def test_equals_a_float64_softmax(kernels: Kernels, name: str) -> None:
    shape, lengths = LAYERS[name], [70, 1, 33, 129]
    sequences = make_sequences(shape, lengths, np.random.default_rng(0).permutation(300))
    bench = Bench(kernels, shape, 300)
    # One batch of a whole prompt, a first token, then a chunk and a decode on what is stored.
    bench.compute([(sequences[2], 0, 20), (sequences[3], 0, 128)])
    parts = [
        (sequences[0], 0, 70),
        (sequences[1], 0, 1),
        (sequences[2], 20, 33),
        (sequences[3], 128, 129),
    ]
    for got, (sequence, start, stop) in zip(bench.compute(parts), parts, strict=True):
        want = softmax_attention(shape, sequence, bench.sinks)[start:stop]
        assert (got - want).abs().max() < 5e-6


@pytest.mark.parametrize("name", LAYERS)
def test_a_row_has_its_bits_however_it_is_computed(
    kernels: Kernels, one_thread: Kernels, portable: Kernels, name: str
) -> None:
    """Whole or in chunks, in other slots, beside other sequences, on other threads."""
    shape, generator = LAYERS[name], np.random.default_rng(0)
    first, other = make_sequences(shape, [150, 90], generator.permutation(300))
    (whole,) = Bench(kernels, shape, 300).compute([(first, 0, 150)])

    moved = replace(first, slots=generator.permutation(300)[:150])
    for with_kernels in (one_thread, portable):
        (got,) = Bench(with_kernels, shape, 300).compute([(moved, 0, 150)])
        assert torch.equal(got, whole)

    bench, done = Bench(kernels, shape, 300), 0
    for stop in (1, 2, 31, 32, 33, 100, 149, 150):
        parts = [(other, 0, 90), (first, done, stop)]
        got = bench.compute(parts if stop % 2 else parts[::-1])[1 if stop % 2 else 0]
        assert torch.equal(got, whole[done:stop])
        done = stop


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("length", [31, 32, 70, 96])
def test_groups_change_no_bit(kernels: Kernels, name: str, length: int) -> None:
    shape = LAYERS[name]
    lengths = [100, 97, 130, 98, 40, 3]
    slots = np.random.default_rng(1).permutation(600)
    sequences = make_sequences(shape, lengths[:4], slots[:500], shared=length)
    sequences += make_sequences(shape, lengths[4:], slots[500:])
    starts = [99, 96, 96, 97, 30, 0]
    bench = Bench(kernels, shape, 600)
    for sequence, start in zip(sequences, starts, strict=True):
        if start:
            bench.compute([(sequence, 0, start)])
    parts = list(zip(sequences, starts, lengths, strict=True))
    parts = [parts[4], *parts[:4], parts[5]]
    alone = bench.compute(parts)
    grouped = bench.compute(parts, (PrefixGroup(1, 5, length),))
    two = bench.compute(parts, (PrefixGroup(1, 3, length), PrefixGroup(3, 5, length - 1)))
    for a, b, c in zip(alone, grouped, two, strict=True):
        assert torch.equal(a, b)
        assert torch.equal(a, c)


@pytest.mark.parametrize("name", LAYERS)
def test_what_some_of_a_group_share_further_on_changes_no_bit(kernels: Kernels, name: str) -> None:
    shape = LAYERS[name]
    lengths, parted = [170, 166, 150, 139, 170, 96, 130], [160, 128, 70, 96, 96, 96]
    sequences = make_sequences(shape, lengths, np.random.default_rng(2).permutation(1100))
    for place, shared in enumerate(parted, 1):  # with the one before it
        for part in ("q", "k", "v", "slots"):
            getattr(sequences[place], part)[:shared] = getattr(sequences[place - 1], part)[:shared]
    starts = [166, 165, 149, 130, 169, 95, 129]
    bench = Bench(kernels, shape, 1100)
    for sequence, start in zip(sequences, starts, strict=True):
        bench.compute([(sequence, 0, start)])
    parts = list(zip(sequences, starts, lengths, strict=True))
    alone = [bench.compute([part])[0] for part in parts]
    together = bench.compute(parts, (PrefixGroup(0, 7, 64),))
    assert all(torch.equal(a, b) for a, b in zip(alone, together, strict=True))


def test_takes_views_of_a_fused_product(kernels: Kernels) -> None:
    (sequence,) = make_sequences(PLAIN, [40], np.arange(40))
    bench = Bench(kernels, PLAIN, 40)
    (want,) = bench.compute([(sequence, 0, 40)])
    fused = torch.cat([t.flatten(1) for t in (sequence.q, sequence.k, sequence.v)], 1)
    q, k, v = (t.unflatten(1, (-1, 64)) for t in fused.split([6 * 64, 2 * 64, 2 * 64], 1))
    assert torch.equal(bench.backend.run(0, q, k, v), want)
    scattered = (t.transpose(1, 2).contiguous().transpose(1, 2) for t in (q, k, v))
    assert torch.equal(bench.backend.run(0, *scattered), want)


def test_writes_k_and_v_to_their_slots(kernels: Kernels) -> None:
    (sequence,) = make_sequences(PLAIN, [40], np.random.default_rng(0).permutation(50)[:40])
    bench = Bench(kernels, PLAIN, 50)
    for pool in (bench.cache.k[0], bench.cache.v[0]):
        pool.zero_()
    bench.compute([(sequence, 0, 40)])
    rest = np.setdiff1d(np.arange(50), sequence.slots)
    for pool, written in ((bench.cache.k[0], sequence.k), (bench.cache.v[0], sequence.v)):
        assert torch.equal(pool[sequence.slots], written)
        assert not pool[rest].any()


def test_a_later_token_cannot_spoil_an_earlier_one(kernels: Kernels) -> None:
    (sequence,) = make_sequences(PLAIN, [40], np.arange(40))
    (clean,) = Bench(kernels, PLAIN, 40).compute([(sequence, 0, 40)])
    sequence.k[20], sequence.v[20] = float("nan"), float("inf")
    (got,) = Bench(kernels, PLAIN, 40).compute([(sequence, 0, 40)])
    assert torch.equal(got[:20], clean[:20])
    assert got[20:].isnan().all()


def test_far_scores_neither_overflow_nor_vanish(kernels: Kernels) -> None:
    shape = replace(PLAIN, scale=50.0)
    (sequence,) = make_sequences(shape, [70], np.arange(70))
    (got,) = Bench(kernels, shape, 70).compute([(sequence, 0, 70)])
    want = softmax_attention(shape, sequence, None)
    assert (got - want).abs().max() < 1e-3


def test_refuses_what_it_does_not_keep(kernels: Kernels) -> None:
    cache = KVCache([PLAIN], num_slots=4, dtype=torch.bfloat16, device=torch.device("cpu"))
    with pytest.raises(UnsupportedModel, match="bfloat16"):
        NativeAttention(kernels, cache)
    assert NativeAttention.unsupported(list(LAYERS.values())) == []
    assert NativeAttention.unsupported([replace(PLAIN, num_kv_heads=4)])
