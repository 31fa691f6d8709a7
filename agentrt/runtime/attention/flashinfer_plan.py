"""What FlashInfer is told about a batch: pure functions from a `Layout`, importable anywhere.

The kernels' order of summation depends on how many query rows a block of threads takes (the query
tile) and on where the keys are cut between blocks (the KV split). Left to itself FlashInfer picks
both from the whole batch: the tile from the mean number of query rows, the split from how many
blocks keep the device busy. Here every sequence goes by a `Route` that only its own lengths choose,
and each route is planned by itself, so that what a sequence gets does not depend on its neighbours.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
import torch

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from agentrt.runtime.attention.base import LayerAttention
    from agentrt.runtime.batch import Int32Array, Int64Array, Layout

LONG = 8192
"""Keys beyond which a narrow row's keys are split between blocks; shorter ones are read by one."""
SPLIT = 2048
"""Keys a block reads of a split row."""
DECODE_SIZES = (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128)
"""Batch sizes that steady decoding is padded to, so that each is captured once."""

_MERGE_LIMIT = 8192  # heads * head_dim that one block of FlashInfer's merge kernel can hold


class Kind(NamedTuple):
    """What FlashInfer must know of a layer; layers of one kind share every plan."""

    num_heads: int
    num_kv_heads: int
    head_dim: int
    scale: float
    window: int | None
    softcap: float | None

    @classmethod
    def of(cls, layer: LayerAttention) -> Kind:
        return cls(
            num_heads=layer.num_heads,
            num_kv_heads=layer.num_kv_heads,
            head_dim=layer.head_dim,
            scale=layer.scale,
            window=layer.window,
            softcap=layer.softcap,
        )

    @property
    def group_size(self) -> int:
        """Query heads that one KV head serves."""
        return self.num_heads // self.num_kv_heads

    @property
    def shares(self) -> bool:
        """Whether a shared prefix can be attended once for its group.

        FlashInfer counts a window back from the end of the keys it is given, which for a prefix by
        itself is not where the query stands; so a windowed layer attends to every sequence whole.
        """
        return self.window is None and self.num_heads * self.head_dim <= _MERGE_LIMIT


class Route(NamedTuple):
    """Which kernel serves a sequence, and in what order it sums."""

    kernel: Literal["decode", "extend", "prefix"]
    tile: int
    """Query rows (times heads per KV head) a block takes: what FlashInfer picks for this length."""
    split: int | None
    """Keys a block reads; None: one block reads them all."""


PREFIX = Route("prefix", 0, None)
"""All groups' prefixes, split as FlashInfer sees fit: they depend on the batch by their nature."""


def route(new: int, length: int, group_size: int) -> Route:
    """How a sequence of `new` query rows and `length` keys is served, whatever else is there.

    The tiles are those of FlashInfer's FA2DetermineCtaTileQ (utils.cuh, 0.5.0 and 0.7.4); a wide
    sequence has blocks enough without a split.
    """
    packed = new * group_size
    tile = 16 if packed <= 16 else 64 if packed <= 64 else 128
    split = SPLIT if tile < 128 and length > LONG else None
    return Route("decode" if new == 1 and split is None else "extend", tile, split)


@dataclass(frozen=True, slots=True)
class Part:
    """The sequences of one route: one plan, one kernel launch a layer."""

    route: Route
    rows: Int64Array | None  # [R] rows of the batch; None: every row, in order
    qo_indptr: Int32Array  # [N + 1]
    kv_indptr: Int32Array  # [N + 1]
    kv_indices: Int32Array  # [kv_indptr[N]] slots

    def split_bytes(self, kind: Kind) -> int:
        """Workspace that the partial results of split rows take."""
        if self.route.split is None:
            return 0
        rows, keys = np.diff(self.qo_indptr), np.diff(self.kv_indptr)
        tiles = -(-rows * kind.group_size // self.route.tile)
        blocks = int((tiles * -(-keys // self.route.split)).sum())
        return blocks * self.route.tile * kind.num_heads * (kind.head_dim + 1) * 4


def parts(layout: Layout, *, group_size: int, share: bool) -> list[Part]:
    """Cuts a batch into parts that together hold every row once, and last, when there are groups
    to `share`, a `PREFIX` part whose results are to be merged into theirs."""
    rows, keys = np.diff(layout.q_indptr), np.diff(layout.kv_indptr)
    first = layout.kv_indptr[:-1].copy()
    groups = layout.groups if share else ()
    for group in groups:
        first[group.start : group.stop] += group.length
        keys[group.start : group.stop] -= group.length
    routes: dict[Route, list[int]] = {}
    for b in np.flatnonzero(rows):
        routes.setdefault(route(int(rows[b]), int(keys[b]), group_size), []).append(int(b))
    own = [
        _part(kind, layout, layout.q_indptr[at], rows[at], first[at], keys[at])
        for kind, at in routes.items()
    ]
    if not groups:
        return own
    start, stop, length = np.array([(g.start, g.stop, g.length) for g in groups], np.int32).T
    row = layout.q_indptr[start]
    count = layout.q_indptr[stop] - row
    return [*own, _part(PREFIX, layout, row, count, layout.kv_indptr[start], length)]


def _part(
    kind: Route,
    layout: Layout,
    row: Int32Array,
    rows: Int32Array,
    key: Int32Array,
    keys: Int32Array,
) -> Part:
    every = _ragged(row, rows)
    whole = len(every) == layout.num_tokens  # and in order, since parts keep the batch's order
    return Part(
        route=kind,
        rows=None if whole else every,
        qo_indptr=_indptr(rows),
        kv_indptr=_indptr(keys),
        kv_indices=layout.kv_slots[_ragged(key, keys)],
    )


def decode_size(layout: Layout) -> int | None:
    """The size of `DECODE_SIZES` this batch is padded to; None where it is not steady decoding.

    Groups are not: how many there are changes from step to step. `layout._replace(groups=())` is
    the same batch without them.
    """
    if layout.groups or not (np.diff(layout.q_indptr) == 1).all():
        return None
    if (np.diff(layout.kv_indptr) > LONG).any():
        return None
    return next((size for size in DECODE_SIZES if 0 < layout.num_seqs <= size), None)


def padded_decode(layout: Layout, size: int) -> Part:
    """A decode batch of exactly `size` rows: the last ones attend to one slot, and are ignored."""
    extra = size - layout.num_seqs
    lengths = np.concatenate([np.diff(layout.kv_indptr), np.ones(extra, np.int32)])
    padding = np.full(extra, layout.out_slots[-1], np.int32)
    return Part(
        route=Route("decode", 0, None),
        rows=None,
        qo_indptr=np.arange(size + 1, dtype=np.int32),
        kv_indptr=_indptr(lengths),
        kv_indices=np.concatenate([layout.kv_slots, padding]),
    )


def decode_arguments(part: Part, kind: Kind, dtype: torch.dtype) -> dict[str, object]:
    """Keywords for `BatchDecodeWithPagedKVCacheWrapper.plan`."""
    return {
        "indptr": torch.from_numpy(part.kv_indptr),
        "indices": torch.from_numpy(part.kv_indices),
        "last_page_len": torch.ones(len(part.kv_indptr) - 1, dtype=torch.int32),
        "head_dim": kind.head_dim,
        **_common(part, kind, dtype),
    }


def prefill_arguments(part: Part, kind: Kind, dtype: torch.dtype) -> dict[str, object]:
    """Keywords for `BatchPrefillWithPagedKVCacheWrapper.plan`."""
    return {
        "qo_indptr": torch.from_numpy(part.qo_indptr),
        "paged_kv_indptr": torch.from_numpy(part.kv_indptr),
        "paged_kv_indices": torch.from_numpy(part.kv_indices),
        "paged_kv_last_page_len": torch.ones(len(part.kv_indptr) - 1, dtype=torch.int32),
        "head_dim_qk": kind.head_dim,
        # A group's rows all stand beyond the prefix; what they may see of it is all of it.
        "causal": part.route != PREFIX,
        **_common(part, kind, dtype),
    }


def _common(part: Part, kind: Kind, dtype: torch.dtype) -> dict[str, object]:
    split: dict[str, object] = {"disable_split_kv": True}
    if part.route == PREFIX:
        split = {}
    elif part.route.split is not None:
        split = {"fixed_split_size": part.route.split}  # in pages, and a page is one slot
    return {
        "num_qo_heads": kind.num_heads,
        "num_kv_heads": kind.num_kv_heads,
        "page_size": 1,
        "sm_scale": kind.scale,
        # FlashInfer counts the keys before the query's own, we count that one too.
        "window_left": -1 if kind.window is None else kind.window - 1,
        "logits_soft_cap": kind.softcap or 0.0,
        "q_data_type": dtype,
        "kv_data_type": dtype,
        **split,
    }


def _indptr(lengths: npt.NDArray[np.integer]) -> Int32Array:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)


def _ragged(starts: npt.NDArray[np.integer], lengths: npt.NDArray[np.integer]) -> Int64Array:
    """The concatenation of every [start, start + length)."""
    before = np.cumsum(lengths, dtype=np.int64) - lengths
    return np.repeat(starts - before, lengths) + np.arange(int(lengths.sum()))


def unsupported(layers: Sequence[LayerAttention], dtype: torch.dtype | None = None) -> list[str]:
    """Names of what these layers, with K and V of `dtype`, need and FlashInfer's kernels lack."""
    lacks: list[str] = []
    for layer in layers:
        if layer.head_dim not in (64, 128, 256):
            lacks.append(f"head_dim {layer.head_dim} (it has 64, 128 and 256)")
        if layer.v_head_dim != layer.head_dim:
            lacks.append(f"v_head_dim {layer.v_head_dim} beside head_dim {layer.head_dim}")
    if dtype not in (None, torch.float16, torch.bfloat16):
        lacks.append(f"K and V of {dtype} (it has float16 and bfloat16)")
    return list(dict.fromkeys(lacks))
