"""Attention by the CPU kernels: K and V read in place, each row's bits its own."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

import numpy as np
import torch

from agentrt.errors import UnsupportedModel

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from agentrt.runtime.attention.base import KVCache, LayerAttention
    from agentrt.runtime.batch import Int32Array, Layout
    from agentrt.runtime.native.kernels import Kernels

_UNITS_PER_THREAD = 4
"""Units of work a thread should find, so that the threads end together."""
_LEAST_ROWS = 12
"""Fewer query rows than this a tile would read K and V too often."""


class _Task(ctypes.Structure):
    """`agentrt_attention_task` of attention.c."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("q", "k", "v", "out", "sinks", "slots", "tiles")),
        *((name, ctypes.c_void_p) for name in ("sequence", "visible", "kv_start")),
        *((name, ctypes.c_int64) for name in ("q_token", "q_head", "num_tiles", "heads")),
        *((name, ctypes.c_int64) for name in ("kv_heads", "dim", "v_dim", "window")),
        *((name, ctypes.c_float) for name in ("scale", "softcap")),
    )


class NativeAttention:
    """Causal attention in float32 on the CPU. For one thread at a time.

    A query row sees its keys in blocks of 32 positions counted from 0 (attention.c), so its result
    does not depend on chunks, slots, groups, batch or threads.
    """

    def __init__(self, kernels: Kernels, kv_cache: KVCache) -> None:
        if kv_cache.dtype != torch.float32 or kv_cache.device.type != "cpu":
            raise UnsupportedModel(
                f"the CPU attention keeps K and V in float32 on the CPU, not in {kv_cache.dtype} "
                f"on {kv_cache.device}"
            )
        self._kernels = kernels
        self._cache = kv_cache
        self._tasks = [_layer_task(kv_cache, layer) for layer in range(len(kv_cache.layers))]
        size = max(
            kernels.call.attention_scratch(a.head_dim, a.v_head_dim) for a in kv_cache.layers
        )
        self._scratch = torch.empty(size * kernels.threads)
        self._most_rows = kernels.call.attention_rows()

    @classmethod
    def unsupported(cls, layers: Sequence[LayerAttention]) -> list[str]:
        """What these layers need and this backend lacks, by name."""
        uneven = any(layer.num_heads % layer.num_kv_heads for layer in layers)
        return ["query heads that are not a multiple of the KV heads"] if uneven else []

    def plan(self, layout: Layout) -> None:
        """Cuts the batch into tiles of neighbouring tokens that share a prefix or a sequence."""
        counts = np.diff(layout.q_indptr)
        lengths = np.diff(layout.kv_indptr)
        self._sequence = np.repeat(np.arange(layout.num_seqs, dtype=np.int32), counts)
        first_visible = lengths - counts + 1 - layout.q_indptr[:-1]
        self._visible = (np.arange(layout.num_tokens) + np.repeat(first_visible, counts)).astype(
            np.int32
        )
        self._kv_start = np.ascontiguousarray(layout.kv_indptr, dtype=np.int32)
        self._slots = np.ascontiguousarray(layout.kv_slots, dtype=np.int32)
        self._out_slots = np.ascontiguousarray(layout.out_slots, dtype=np.int64)
        self._segments = list(_segments(layout))
        self._tiles: dict[tuple[int, int], Int32Array] = {}
        self._seen = int(self._visible.sum(dtype=np.int64))
        for layer in range(len(self._tasks)):
            self._plan_layer(layer)

    def _plan_layer(self, layer: int) -> None:
        shape, task = self._cache.layers[layer], self._tasks[layer]
        key = shape.num_heads // shape.num_kv_heads, shape.num_kv_heads
        if key not in self._tiles:
            self._tiles[key] = self._cut(*key)
        tiles = self._tiles[key]
        task.num_tiles, task.tiles = len(tiles), tiles.ctypes.data
        task.sequence, task.visible = self._sequence.ctypes.data, self._visible.ctypes.data
        task.kv_start, task.slots = self._kv_start.ctypes.data, self._slots.ctypes.data

    def _cut(self, heads_each: int, kv_heads: int) -> Int32Array:
        """Tiles [n, 3] of first token, last token + 1 and shared length, the dearest first."""
        even = -(-len(self._visible) * kv_heads // (_UNITS_PER_THREAD * self._kernels.threads))
        most = max(1, self._most_rows // heads_each)
        size = min(most, max(even, -(-_LEAST_ROWS // heads_each)))
        tiles = [
            (first, min(first + size, stop), shared)
            for start, stop, shared in self._segments
            for first in range(start, stop, size)
        ]
        cost = np.add.reduceat(self._visible, [first for first, _, _ in tiles])
        return np.array(tiles, dtype=np.int32)[np.argsort(-cost, kind="stable")]

    def run(
        self,
        layer: int,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        sinks: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Writes k and v to the batch's slots, then attends. See AttentionBackend.run."""
        shape, task = self._cache.layers[layer], self._tasks[layer]
        self._store(self._cache.k[layer], k)
        self._store(self._cache.v[layer], v)
        if q.stride(-1) != 1:
            q = q.contiguous()
        if sinks is not None:
            sinks = sinks.float().contiguous()
        out = torch.empty((q.shape[0], shape.num_heads, shape.v_head_dim))
        task.q, task.out = q.data_ptr(), out.data_ptr()
        task.q_token, task.q_head = q.stride(0), q.stride(1)
        task.sinks = None if sinks is None else sinks.data_ptr()
        work = float(self._seen) * shape.num_heads * (shape.head_dim + shape.v_head_dim)
        self._kernels.call.attention(
            ctypes.addressof(task), self._scratch.data_ptr(), work, self._kernels.threads
        )
        return out

    def _store(self, pool: torch.Tensor, rows: torch.Tensor) -> None:
        if rows.stride(-1) != 1:
            rows = rows.contiguous()
        tokens, heads, dim = rows.shape
        self._kernels.call.store(
            pool.data_ptr(),
            self._out_slots.ctypes.data,
            rows.data_ptr(),
            tokens,
            heads,
            dim,
            rows.stride(0),
            rows.stride(1),
        )


def _layer_task(cache: KVCache, layer: int) -> _Task:
    shape = cache.layers[layer]
    return _Task(
        k=cache.k[layer].data_ptr(),
        v=cache.v[layer].data_ptr(),
        heads=shape.num_heads,
        kv_heads=shape.num_kv_heads,
        dim=shape.head_dim,
        v_dim=shape.v_head_dim,
        window=shape.window or 0,
        scale=shape.scale,
        softcap=shape.softcap or 0.0,
    )


def _segments(layout: Layout) -> Iterator[tuple[int, int, int]]:
    """(first token, last token + 1, shared length) of each group and each lone sequence."""
    bounds = layout.q_indptr.tolist()
    sequence = 0
    for group in layout.groups:
        yield from ((bounds[i], bounds[i + 1], 0) for i in range(sequence, group.start))
        yield bounds[group.start], bounds[group.stop], group.length
        sequence = group.stop
    yield from ((bounds[i], bounds[i + 1], 0) for i in range(sequence, layout.num_seqs))
