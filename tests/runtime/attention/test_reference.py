"""TorchAttention against a dense computation of every sequence alone."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt.runtime.attention import reference
from agentrt.runtime.attention.base import KVCache
from agentrt.runtime.attention.reference import TorchAttention
from tests.runtime.attention.cases import CPU, Seq, build, expected, layer, random_layout, world

FEATURES = {
    "plain": {},
    "one head a KV head": {"num_kv_heads": 6},
    "narrow values": {"v_head_dim": 8},
    "window of one": {"window": 1},
    "window inside": {"window": 9},
    "window beyond": {"window": 500},
    "softcap": {"softcap": 2.0},
    "sinks": {"has_sinks": True},
    "everything": {"window": 11, "softcap": 3.0, "has_sinks": True, "v_head_dim": 24},
}


@pytest.mark.parametrize("features", FEATURES.values(), ids=FEATURES.keys())
@pytest.mark.parametrize("decode", [False, True], ids=["mixed", "decode"])
@pytest.mark.parametrize("groups", [False, True], ids=["alone", "groups"])
def test_equals_dense_attention(features: dict[str, object], decode: bool, groups: bool) -> None:
    for seed in range(4):
        w = world(layer(**features), random_layout(seed, decode=decode, groups=groups), seed=seed)
        want = expected(w)
        got = w.run(TorchAttention(w.cache))
        assert got.is_contiguous()
        torch.testing.assert_close(got, want.float(), rtol=1e-5, atol=1e-5)


@settings(deadline=None, max_examples=60)
@given(
    seqs=st.lists(st.builds(Seq, st.integers(1, 40), st.integers(0, 60)), min_size=1, max_size=12),
    window=st.none() | st.integers(1, 70),
    rows=st.integers(1, 16),
    scores=st.integers(1, 200),
)
def test_tile_sizes_do_not_matter(
    seqs: list[Seq], window: int | None, rows: int, scores: int
) -> None:
    w = world(layer(window=window), build(seqs))
    want = expected(w)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reference, "_TILE_ROWS", rows)
        patch.setattr(reference, "_TILE_SCORES", scores)
        patch.setattr(reference, "_FREE_PADDING", scores)
        got = w.run(TorchAttention(w.cache))
    torch.testing.assert_close(got, want.float(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("window", [None, 9])
def test_groups_change_nothing(window: int | None) -> None:
    for seed in range(8):
        spec = layer(window=window, softcap=4.0, has_sinks=True)
        layout = random_layout(seed, groups=True)
        w = world(spec, layout, seed=seed)
        together = w.run(TorchAttention(w.cache))
        apart = w.run(TorchAttention(w.cache), layout._replace(groups=()))
        torch.testing.assert_close(together, apart, rtol=1e-5, atol=1e-5)


def test_a_long_prefill_is_tiled_and_still_right() -> None:
    w = world(layer(window=300), build([Seq(900, 50), Seq(1, 3)]))
    want = expected(w)
    backend = TorchAttention(w.cache)
    torch.testing.assert_close(w.run(backend), want.float(), rtol=1e-5, atol=1e-5)


def test_decodes_of_like_length_are_one_block() -> None:
    w = world(layer(), build([Seq(1, 50 + b) for b in range(40)]))
    backend = TorchAttention(w.cache)
    w.run(backend)
    assert repr(backend) == "<TorchAttention on cpu, blocks 1 own, 0 shared>"


def test_chunks_equal_the_whole() -> None:
    length, cuts = 40, [0, 13, 33, 40]
    slots = np.random.default_rng(0).permutation(length)
    whole = build([Seq(length, 0)])
    whole = whole._replace(out_slots=slots.astype(np.int64), kv_slots=slots.astype(np.int32))
    w = world(layer(window=21), whole)
    want = w.run(TorchAttention(w.cache))

    backend = TorchAttention(KVCache([w.spec], num_slots=length, dtype=w.q.dtype, device=CPU))
    parts: list[torch.Tensor] = []
    for start, stop in itertools.pairwise(cuts):
        chunk = build([Seq(stop - start, start)])._replace(
            out_slots=slots[start:stop].astype(np.int64),
            kv_slots=slots[:stop].astype(np.int32),
        )
        backend.plan(chunk)
        parts.append(backend.run(0, w.q[start:stop], w.k[start:stop], w.v[start:stop]))
    torch.testing.assert_close(torch.cat(parts), want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("groups", [(), [(1, 4, 20)]], ids=["alone", "groups"])
def test_a_sequence_reads_what_another_writes_in_the_same_batch(
    groups: list[tuple[int, int, int]],
) -> None:
    followers = [Seq(n, 20, like=0, shared=20) for n in (1, 5, 9)]
    w = world(layer(), build([Seq(20, 0), *followers], groups=groups))
    want = expected(w)
    torch.testing.assert_close(w.run(TorchAttention(w.cache)), want.float(), rtol=1e-5, atol=1e-5)


def test_writes_only_the_new_slots() -> None:
    w = world(layer(), random_layout(3))
    before = w.cache.k[0].clone()
    w.run(TorchAttention(w.cache))
    out = torch.from_numpy(w.layout.out_slots)
    assert torch.equal(w.cache.k[0][out], w.k)
    assert torch.equal(w.cache.v[0][out], w.v)
    before[out] = w.k
    assert torch.equal(w.cache.k[0], before)


def test_a_nan_stays_in_its_own_sequence() -> None:
    """Two sequences are sound; every slot that is not theirs, in use or not, is NaN."""
    layout = build([Seq(1, 9), Seq(1, 30), Seq(1, 31), Seq(7, 3), Seq(9, 40)])
    w = world(layer(has_sinks=True), layout)
    sound = [1, *range(3, 10)]
    slots = [layout.kv_slots[layout.kv_indptr[b] : layout.kv_indptr[b + 1]] for b in (1, 3)]
    for cache in (w.cache.k[0], w.cache.v[0]):
        poisoned = torch.full_like(cache, torch.nan)
        poisoned[np.concatenate(slots)] = cache[np.concatenate(slots)]
        cache.copy_(poisoned)
    want = expected(w).float()
    got = w.run(TorchAttention(w.cache))
    assert got[[0, 2]].isnan().all()
    torch.testing.assert_close(got[sound], want[sound], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("groups", [False, True], ids=["alone", "groups"])
def test_bfloat16_in_and_out_float32_between(groups: bool) -> None:
    w = world(layer(softcap=5.0), random_layout(1, groups=groups), dtype=torch.bfloat16)
    want = expected(w)
    got = w.run(TorchAttention(w.cache))
    assert got.dtype == torch.bfloat16
    # The only rounding is of the answer: half a unit in the last of its 8 bits.
    torch.testing.assert_close(got.double(), want, rtol=2**-8, atol=1e-5)


def test_a_cache_narrower_than_the_model_is_cast_on_write() -> None:
    w = world(layer(), random_layout(2))
    w.cache = KVCache([w.spec], num_slots=w.cache.num_slots, dtype=torch.bfloat16, device=CPU)
    got = w.run(TorchAttention(w.cache))
    assert got.dtype == torch.float32
    assert torch.equal(w.cache.k[0][w.layout.out_slots], w.k.bfloat16())


def test_takes_strided_views() -> None:
    w = world(layer(), random_layout(5))
    want = w.run(TorchAttention(w.cache))
    fused = torch.cat([w.q, w.k, w.v], dim=1).transpose(0, 1).contiguous().transpose(0, 1)
    w.q, w.k, w.v = fused.split([6, 2, 2], dim=1)
    assert not w.k.is_contiguous()
    assert torch.equal(w.run(TorchAttention(w.cache)), want)


def test_an_empty_batch_is_empty() -> None:
    w = world(layer(), build([Seq(1, 1)]))
    backend = TorchAttention(w.cache)
    backend.plan(build([])._replace(kv_slots=np.zeros(0, np.int32)))
    assert backend.run(0, w.q[:0], w.k[:0], w.v[:0]).shape == (0, 6, 16)


def test_refuses_nothing() -> None:
    assert TorchAttention.unsupported([layer(**FEATURES["everything"])]) == []
