"""Attention in plain torch operations: the reference every other backend is held to, on any device.

`plan` cuts the batch into tiles (some query rows against a run of keys) and stacks tiles of like
size into padded blocks, so that a hundred decoding sequences are a few matrix products a layer and
not a hundred. Rows that share a prefix have two tiles, the prefix's and their own, whose results
are merged by their log-sum-exps.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from agentrt.runtime.attention.base import KVCache, LayerAttention
    from agentrt.runtime.batch import Int64Array, Layout

_TILE_ROWS = 256  # a long prefill skips most of the triangle that its rows cannot see
_TILE_SCORES = 1 << 20  # scores per head held at once, which bounds the memory of a step
_FREE_PADDING = 1 << 12  # scores per head that cost less than one more matrix product
_STACK_KEYS = 1 << 13  # keys gathered at once: what of K and V still fits a processor's cache
_OUT_OF_SIGHT = 1 << 40  # a position later than any query's


class _Tile(NamedTuple):
    """Rows [row, row + rows) of the batch against kv_slots[key:key + keys]."""

    row: int
    rows: int
    key: int
    keys: int
    key_position: int
    """Position of the first key in the sequence it belongs to."""


@dataclass(frozen=True, slots=True)
class _Block:
    """N tiles padded to the same R rows and S keys."""

    read_rows: torch.Tensor  # [N, R] rows of q; padding repeats the tile's last row
    write_rows: (
        torch.Tensor
    )  # [N * R] rows of the output; padding goes to row T, cut off at the end
    slots: torch.Tensor  # [N, S] padding repeats the tile's last key
    row_positions: Int64Array  # [N, R]
    key_positions: Int64Array  # [N, S] padding is later than every row
    hidden: dict[int | None, torch.Tensor | None] = field(
        default_factory=dict[int | None, torch.Tensor | None]
    )

    def mask(self, window: int | None) -> torch.Tensor | None:
        """True [N, 1, 1, R, S] where a row may not see a key; None where every row sees all."""
        if window not in self.hidden:
            distance = self.row_positions[:, :, None] - self.key_positions[:, None, :]
            hidden = distance < 0 if window is None else (distance < 0) | (distance >= window)
            device = self.slots.device
            tensor = torch.from_numpy(hidden[:, None, None]).to(device) if hidden.any() else None
            self.hidden[window] = tensor
        return self.hidden[window]


class TorchAttention:
    """Any device, any float dtype, every feature of `LayerAttention`.

    Scores, softmax and the sum over V are computed in float32 (float64 for float64 queries).
    """

    @classmethod
    def unsupported(cls, layers: Sequence[LayerAttention]) -> list[str]:  # noqa: ARG003
        return []

    def __init__(self, kv_cache: KVCache) -> None:
        self._cache = kv_cache
        self._out_slots = torch.zeros(0, dtype=torch.int64)
        self._own: list[_Block] = []
        self._shared: list[_Block] = []

    def __repr__(self) -> str:
        return f"<TorchAttention on {self._cache.device}, blocks {len(self._own)} own, " + (
            f"{len(self._shared)} shared>"
        )

    def plan(self, layout: Layout) -> None:
        self._out_slots = torch.from_numpy(layout.out_slots).to(self._cache.device)
        positions = _row_positions(layout)
        shared = _shared_lengths(layout)
        self._own = self._blocks(list(_own_tiles(layout, shared)), layout, positions)
        self._shared = self._blocks(list(_shared_tiles(layout)), layout, positions)

    def _blocks(self, tiles: list[_Tile], layout: Layout, positions: Int64Array) -> list[_Block]:
        device = self._cache.device
        return [_stack(stack, layout, positions, device) for stack in _stacks(tiles)]

    def run(
        self,
        layer: int,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        sinks: torch.Tensor | None = None,
    ) -> torch.Tensor:
        spec, keys, values = self._cache.layers[layer], self._cache.k[layer], self._cache.v[layer]
        keys.index_copy_(0, self._out_slots, k.to(keys.dtype))
        values.index_copy_(0, self._out_slots, v.to(values.dtype))
        dtype = torch.promote_types(q.dtype, torch.float32)
        out = q.new_zeros((len(q) + 1, spec.num_heads, spec.v_head_dim), dtype=dtype)
        lse = q.new_zeros((len(q) + 1, spec.num_heads), dtype=dtype)
        for block in self._own:
            out[block.write_rows], lse[block.write_rows] = _attend(block, spec, q, keys, values)
        for block in self._shared:
            part = _attend(block, spec, q, keys, values)
            rows = block.write_rows
            out[rows], lse[rows] = merge((out[rows], lse[rows]), part)
        if sinks is not None:
            # exp(lse) / (exp(lse) + exp(sink)): the sink takes its share and gives no value.
            out = out * torch.sigmoid(lse - sinks.to(dtype)).unsqueeze(-1)
        return out[: len(q)].to(q.dtype)


def merge(
    a: tuple[torch.Tensor, torch.Tensor], b: tuple[torch.Tensor, torch.Tensor]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention over the union of two disjoint key sets, from that over each.

    Each part is (out [..., heads, v_dim], natural log-sum-exp of its scores [..., heads]); a part
    that saw no key has -inf, but not both. Cascade inference, section 3 (Ye et al., 2024).
    """
    lse = torch.logaddexp(a[1], b[1])
    weight_a, weight_b = (torch.exp(part[1] - lse).unsqueeze(-1) for part in (a, b))
    return a[0] * weight_a + b[0] * weight_b, lse


def _attend(
    block: _Block,
    spec: LayerAttention,
    q: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attends every tile of a block: out [N * R, heads, v_dim], log-sum-exp [N * R, heads]."""
    dtype = torch.promote_types(q.dtype, torch.float32)
    n, r = block.read_rows.shape
    # A KV head serves `heads / kv_heads` neighbouring query heads: fold those into its rows.
    q = q[block.read_rows].to(dtype).view(n, r, spec.num_kv_heads, -1, spec.head_dim)
    q = q.permute(0, 2, 3, 1, 4).flatten(2, 3)  # [N, kv_heads, group * R, head_dim]
    k, v = (_heads_first(x, block.slots, dtype) for x in (keys, values))
    scores = (q @ k.transpose(2, 3)).mul_(spec.scale)
    if spec.softcap is not None:
        scores.div_(spec.softcap).tanh_().mul_(spec.softcap)
    hidden = block.mask(spec.window)
    if hidden is not None:
        scores.unflatten(2, (-1, r)).masked_fill_(hidden, -torch.inf)
    # A row whose window has left the prefix sees no key of it: these two bounds keep its result
    # at zero and its log-sum-exp at -inf. A NaN passes through them, as it must.
    limits = torch.finfo(dtype)
    top = scores.amax(-1, keepdim=True).clamp_min(limits.min)
    weights = scores.sub_(top).exp_()
    total = weights.sum(-1, keepdim=True)
    out = (weights @ v) / total.clamp_min(limits.tiny)
    lse = top + total.log()

    def rows_first(x: torch.Tensor) -> torch.Tensor:
        return x.unflatten(2, (-1, r)).permute(0, 3, 1, 2, 4).reshape(n * r, spec.num_heads, -1)

    return rows_first(out), rows_first(lse).squeeze(-1)


def _heads_first(cache: torch.Tensor, slots: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """[N, kv_heads, S, dim] of cache [slots, kv_heads, dim]: the layout a batched product wants."""
    heads = cache.shape[1]
    # Gathered in this order at once: to gather by slot and transpose after costs a second copy.
    at = slots[:, None] * heads + torch.arange(heads, device=slots.device)[:, None]
    return cache.flatten(0, 1).index_select(0, at.view(-1)).view(*at.shape, -1).to(dtype)


def _row_positions(layout: Layout) -> Int64Array:
    """[T]: the index of each row's own token in its sequence's slots."""
    rows = np.diff(layout.q_indptr)
    first = np.diff(layout.kv_indptr) - rows - layout.q_indptr[:-1]
    return np.arange(layout.num_tokens, dtype=np.int64) + np.repeat(first, rows)


def _shared_lengths(layout: Layout) -> npt.NDArray[np.int64]:
    """[B]: how many of each sequence's first slots its group attends to for it."""
    lengths = np.zeros(layout.num_seqs, np.int64)
    for group in layout.groups:
        lengths[group.start : group.stop] = group.length
    return lengths


def _own_tiles(layout: Layout, shared: npt.NDArray[np.int64]) -> Iterator[_Tile]:
    for b in range(layout.num_seqs):
        row, stop = int(layout.q_indptr[b]), int(layout.q_indptr[b + 1])
        key = int(layout.kv_indptr[b] + shared[b])
        position = int(shared[b])
        before = int(layout.kv_indptr[b + 1]) - key - (stop - row)  # keys older than every row
        for start, rows in _cut(stop - row, before + stop - row):
            yield _Tile(row + start, rows, key, before + start + rows, position)


def _shared_tiles(layout: Layout) -> Iterator[_Tile]:
    for group in layout.groups:
        row, stop = int(layout.q_indptr[group.start]), int(layout.q_indptr[group.stop])
        for start, rows in _cut(stop - row, group.length):
            yield _Tile(row + start, rows, int(layout.kv_indptr[group.start]), group.length, 0)


def _cut(rows: int, keys: int) -> Iterator[tuple[int, int]]:
    """(start, count) of the row tiles of one sequence or group."""
    size = max(1, min(_TILE_ROWS, _TILE_SCORES // max(keys, 1)))
    for start in range(0, rows, size):
        yield start, min(size, rows - start)


def _stacks(tiles: list[_Tile]) -> Iterator[list[_Tile]]:
    """Stacks tiles of like size, so that padding adds at most a quarter to what counts."""
    stack: list[_Tile] = []
    useful, widest = 0, 0
    for tile in sorted(tiles, key=lambda t: (t.rows, t.keys)):
        size = tile.rows * tile.keys
        widest = max(widest, tile.keys)
        keys = (len(stack) + 1) * widest
        most = min(1.25 * (useful + size) + _FREE_PADDING, _TILE_SCORES)
        if stack and (keys > _STACK_KEYS or keys * tile.rows > most):
            yield stack
            stack, useful, widest = [], 0, tile.keys
        stack.append(tile)
        useful += size
    if stack:
        yield stack


def _stack(
    tiles: list[_Tile], layout: Layout, positions: Int64Array, device: torch.device
) -> _Block:
    row, rows, key, keys, key_position = np.array(tiles, np.int64).T[..., None]
    rows_at, keys_at = np.arange(rows.max())[None], np.arange(keys.max())[None]
    read_rows = row + np.minimum(rows_at, rows - 1)
    write_rows = np.where(rows_at < rows, row + rows_at, layout.num_tokens)
    slots = layout.kv_slots[key + np.minimum(keys_at, keys - 1)].astype(np.int64)
    return _Block(
        read_rows=torch.from_numpy(read_rows).to(device),
        write_rows=torch.from_numpy(write_rows.reshape(-1)).to(device),
        slots=torch.from_numpy(slots).to(device),
        row_positions=positions[read_rows],
        key_positions=np.where(keys_at < keys, key_position + keys_at, _OUT_OF_SIGHT),
    )
