"""Batches to attend, and what the answer is by an independent dense computation in float64."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from agentrt.runtime.attention.base import KVCache, LayerAttention
from agentrt.runtime.batch import Layout, PrefixGroup

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentrt.runtime.attention.base import AttentionBackend

CPU = torch.device("cpu")


def layer(**changes: object) -> LayerAttention:
    base = LayerAttention(num_heads=6, num_kv_heads=2, head_dim=16, v_head_dim=16, scale=0.25)
    return replace(base, **changes)


@dataclass(frozen=True)
class Seq:
    """`new` tokens after `old` ones; the first `shared` slots are those of sequence `like`."""

    new: int
    old: int
    like: int | None = None
    shared: int = 0


def build(
    seqs: Sequence[Seq], *, groups: Sequence[tuple[int, int, int]] = (), seed: int = 0
) -> Layout:
    """Lays sequences out over shuffled slots, so that nothing works by being contiguous."""
    rng = np.random.default_rng(seed)
    free = list(rng.permutation(sum(s.new + s.old for s in seqs) + 7))
    slots: list[list[int]] = []
    for s in seqs:
        head = [] if s.like is None else slots[s.like][: s.shared]
        slots.append(head + [int(free.pop()) for _ in range(s.new + s.old - len(head))])
    new = [s.new for s in seqs]
    positions = [range(s.old, s.old + s.new) for s in seqs]
    out = [x for s, own in zip(seqs, slots, strict=True) for x in own[s.old :]]
    return Layout(
        token_ids=np.zeros(sum(new), np.int64),
        positions=np.array([p for ps in positions for p in ps], np.int64),
        out_slots=np.array(out, np.int64),
        q_indptr=np.cumsum([0, *new], dtype=np.int32),
        kv_indptr=np.cumsum([0, *map(len, slots)], dtype=np.int32),
        kv_slots=np.array([x for own in slots for x in own], np.int32),
        groups=tuple(PrefixGroup(*g) for g in groups),
    )


def random_layout(seed: int, *, decode: bool = False, groups: bool = False) -> Layout:
    """A ragged batch: decodes, chunks of prompts, and (`groups`) families with one prefix."""
    rng = np.random.default_rng(seed)
    seqs: list[Seq] = []
    spans: list[tuple[int, int, int]] = []
    for _ in range(int(rng.integers(1, 5))):
        prefix = int(rng.integers(1, 40))
        start = len(seqs)
        for member in range(int(rng.integers(1, 5))):
            new = 1 if decode or rng.random() < 0.4 else int(rng.integers(1, 30))
            own = int(rng.integers(0, 12))
            like = start if groups and member else None
            seqs.append(Seq(new, prefix + own, like, prefix if groups and member else 0))
        if groups and len(seqs) - start > 1:
            spans.append((start, len(seqs), prefix))
    return build(seqs, groups=spans, seed=seed)


@dataclass
class World:
    """One batch, a pool with a past, and the layer's inputs."""

    spec: LayerAttention
    layout: Layout
    cache: KVCache
    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    sinks: torch.Tensor | None

    def run(self, backend: AttentionBackend, layout: Layout | None = None) -> torch.Tensor:
        backend.plan(self.layout if layout is None else layout)
        return backend.run(0, self.q, self.k, self.v, self.sinks)


def world(
    spec: LayerAttention,
    layout: Layout,
    *,
    seed: int = 0,
    dtype: torch.dtype = torch.float32,
    device: torch.device = CPU,
) -> World:
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator).to(device, dtype)

    num_slots = int(layout.kv_slots.max()) + 1
    cache = KVCache([spec], num_slots=num_slots, dtype=dtype, device=device)
    cache.k[0].copy_(normal(*cache.k[0].shape))
    cache.v[0].copy_(normal(*cache.v[0].shape))
    rows = layout.num_tokens
    return World(
        spec=spec,
        layout=layout,
        cache=cache,
        q=normal(rows, spec.num_heads, spec.head_dim) * 3,
        k=normal(rows, spec.num_kv_heads, spec.head_dim),
        v=normal(rows, spec.num_kv_heads, spec.v_head_dim),
        sinks=normal(spec.num_heads).float() if spec.has_sinks else None,
    )


def expected(w: World) -> torch.Tensor:
    """[T, heads, v_dim] float64: every sequence alone, with a dense mask. Call before `run`."""
    keys, values = w.cache.k[0].double().clone(), w.cache.v[0].double().clone()
    slots = torch.from_numpy(w.layout.out_slots).to(keys.device)
    keys[slots], values[slots] = w.k.double(), w.v.double()
    parts: list[torch.Tensor] = []
    for b in range(w.layout.num_seqs):
        rows = slice(*w.layout.q_indptr[b : b + 2].tolist())
        own = slice(*w.layout.kv_indptr[b : b + 2].tolist())
        at = torch.from_numpy(w.layout.kv_slots[own].astype(np.int64)).to(keys.device)
        parts.append(_alone(w, w.q[rows].double(), keys[at], values[at]))
    return torch.cat(parts)


def _alone(w: World, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    n, length = len(q), len(k)
    seen = torch.ones(n, length, dtype=torch.bool).tril(length - n)
    if w.spec.window is not None:
        seen &= torch.ones(n, length, dtype=torch.bool).triu(length - n - w.spec.window + 1)
    seen = seen.to(q.device)
    share = w.spec.num_heads // w.spec.num_kv_heads
    q = q.transpose(0, 1)
    k, v = (x.repeat_interleave(share, dim=1).transpose(0, 1) for x in (k, v))
    if w.spec.softcap is None and w.sinks is None:
        attend = torch.nn.functional.scaled_dot_product_attention
        return attend(q, k, v, attn_mask=seen, scale=w.spec.scale).transpose(0, 1)
    scores = torch.einsum("hqd,hkd->hqk", q, k) * w.spec.scale
    if w.spec.softcap is not None:
        scores = w.spec.softcap * torch.tanh(scores / w.spec.softcap)
    scores = scores.masked_fill(~seen, -torch.inf)
    if w.sinks is not None:
        sink = w.sinks.double()[:, None, None].expand(-1, n, 1)
        scores = torch.cat([scores, sink], dim=-1)
    weights = scores.softmax(-1)[..., :length]
    return torch.einsum("hqk,hkd->qhd", weights, v)


def two_layers(
    specs: Sequence[LayerAttention], layout: Layout, dtype: torch.dtype
) -> tuple[KVCache, list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]]:
    """A pool for a model of unlike layers, and q, k, v for each."""
    worlds = [world(spec, layout, seed=i, dtype=dtype) for i, spec in enumerate(specs)]
    cache = KVCache(specs, num_slots=worlds[0].cache.num_slots, dtype=dtype, device=CPU)
    for i, w in enumerate(worlds):
        cache.k[i].copy_(w.cache.k[0])
        cache.v[i].copy_(w.cache.v[0])
    return cache, [(w.q, w.k, w.v) for w in worlds]
