"""Attention by the CPU kernels: K and V read in place, each row's bits its own."""

from __future__ import annotations

import ctypes
from array import array
from itertools import chain, pairwise
from typing import TYPE_CHECKING

import torch

from agentrt.errors import UnsupportedModel
from agentrt.runtime.native.library import address

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from agentrt.runtime.attention.base import KVCache, LayerAttention
    from agentrt.runtime.batch import Layout, PrefixGroup
    from agentrt.runtime.native.kernels import Kernels

_UNITS_PER_THREAD = 4
"""Units of work a thread should find, so that the threads end together."""
_LEAST_ROWS = 12
"""Fewer query rows than this a tile would read K and V too often."""


def _fields(kind: type, names: str) -> tuple[tuple[str, type], ...]:
    return tuple((name, kind) for name in names.split())


class _Batch(ctypes.Structure):
    """`agentrt_attention_batch` of kernels.h."""

    _fields_ = (
        *_fields(ctypes.c_void_p, "slots tiles sequence visible kv_start out_slots"),
        *_fields(ctypes.c_int64, "num_tiles num_visible"),
    )


class _Layer(ctypes.Structure):
    """`agentrt_attention_layer` of kernels.h; what a call sets is left to it."""

    _fields_ = (
        *_fields(ctypes.c_void_p, "k v"),
        *_fields(ctypes.c_int64, "heads kv_heads dim v_dim window"),
        *_fields(ctypes.c_float, "scale softcap"),
        *_fields(ctypes.c_void_p, "q sinks out"),
        *_fields(ctypes.c_int64, "q_token q_head"),
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
        self._layers = [_layer(kv_cache, index) for index in range(len(kv_cache.layers))]
        scratch = kernels.call.attention_scratch
        self._scratch = torch.empty(
            kernels.threads * max(scratch(a.head_dim, a.v_head_dim) for a in kv_cache.layers)
        )
        self._most_rows = kernels.call.attention_rows()
        # Filled anew by every plan, where they are: calls that are replayed find them again.
        shapes = [_shape(layer) for layer in kv_cache.layers]
        self._batches = {shape: _Batch() for shape in shapes}
        self._calls = [
            (ctypes.addressof(layer), ctypes.addressof(self._batches[shape]))
            for layer, shape in zip(self._layers, shapes, strict=True)
        ]

    @classmethod
    def unsupported(cls, layers: Sequence[LayerAttention]) -> list[str]:
        """What these layers need and this backend lacks, by name."""
        uneven = any(layer.num_heads % layer.num_kv_heads for layer in layers)
        return ["query heads that are not a multiple of the KV heads"] if uneven else []

    def plan(self, layout: Layout) -> None:
        """Cuts the batch into tiles of neighbouring tokens that share a prefix or a sequence.

        In lists and flat arrays: see `agentrt.runtime.layout` for what numpy's functions cost here.
        """
        starts = layout.q_indptr.tolist()
        visible = [position + 1 for position in layout.positions.tolist()]
        segments = list(_segments(layout.groups, starts))
        self._arrays = {  # kept, as the batches point into them
            "slots": array("i", layout.kv_slots.tobytes()),
            "sequence": array("i", _owners(starts)),
            "visible": array("i", visible),
            "kv_start": array("i", layout.kv_indptr.tobytes()),
            "out_slots": array("q", layout.out_slots.tobytes()),
        }
        self._tiles = [self._cut(segments, visible, *shape) for shape in self._batches]
        for batch, tiles in zip(self._batches.values(), self._tiles, strict=True):
            for name, values in self._arrays.items():
                setattr(batch, name, values.buffer_info()[0])
            batch.tiles, batch.num_tiles = tiles.buffer_info()[0], len(tiles) // 2
            batch.num_visible = sum(visible)

    def _cut(
        self, segments: list[tuple[int, int]], visible: list[int], heads_each: int, kv_heads: int
    ) -> array[int]:
        """Tiles [n, 2] of first token and last token + 1, the dearest first."""
        even = -(-len(visible) * kv_heads // (_UNITS_PER_THREAD * self._kernels.threads))
        most = max(1, self._most_rows // heads_each)
        size = min(most, max(even, -(-_LEAST_ROWS // heads_each)))
        tiles = [
            (first, min(first + size, stop))
            for start, stop in segments
            for first in range(start, stop, size)
        ]
        tiles.sort(key=lambda tile: -sum(visible[slice(*tile)]))
        return array("i", chain.from_iterable(tiles))

    def run(
        self,
        layer: int,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        sinks: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Writes k and v to the batch's slots, then attends. See AttentionBackend.run."""
        shape, (task, batch) = self._cache.layers[layer], self._calls[layer]
        self._store(self._cache.k[layer], batch, k)
        self._store(self._cache.v[layer], batch, v)
        if q.stride(-1) != 1:
            q = q.contiguous()
        if sinks is not None:
            sinks = sinks.float().contiguous()
        out = self._kernels.empty((q.shape[0], shape.num_heads, shape.v_head_dim))
        self._kernels.call.attention(
            task,
            batch,
            q.data_ptr(),
            q.stride(0),
            q.stride(1),
            address(sinks),
            out.data_ptr(),
            self._scratch.data_ptr(),
            self._kernels.threads,
        )
        return out

    def _store(self, pool: torch.Tensor, batch: int, rows: torch.Tensor) -> None:
        if rows.stride(-1) != 1:
            rows = rows.contiguous()
        tokens, heads, dim = rows.shape
        self._kernels.call.store(
            pool.data_ptr(),
            batch,
            rows.data_ptr(),
            tokens,
            heads,
            dim,
            rows.stride(0),
            rows.stride(1),
        )


def _shape(layer: LayerAttention) -> tuple[int, int]:
    """Query heads to a KV head, and KV heads: what the cutting of tiles depends on."""
    return layer.num_heads // layer.num_kv_heads, layer.num_kv_heads


def _layer(cache: KVCache, layer: int) -> _Layer:
    shape = cache.layers[layer]
    return _Layer(
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


def _segments(groups: Sequence[PrefixGroup], starts: list[int]) -> Iterator[tuple[int, int]]:
    """(first token, last token + 1) of each group and each lone sequence."""
    sequence = 0
    for group in groups:
        yield from pairwise(starts[sequence : group.start + 1])
        yield starts[group.start], starts[group.stop]
        sequence = group.stop
    yield from pairwise(starts[sequence:])


def _owners(starts: list[int]) -> list[int]:
    """Which sequence each token belongs to."""
    return [i for i, (start, stop) in enumerate(pairwise(starts)) for _ in range(start, stop)]
