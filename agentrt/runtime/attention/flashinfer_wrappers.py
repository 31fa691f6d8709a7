"""FlashInfer's wrappers and the buffers they stand on: for any batch, and for captured decoding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
import torch

from agentrt.runtime.attention import flashinfer_plan as fp

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from agentrt.runtime.batch import Layout

WORKSPACE_BYTES = 256 << 20
"""What a prefix part may split into; FlashInfer advises half of it at least."""

Paged = tuple[torch.Tensor, torch.Tensor]
"""K and V, each [slots, 1, kv_heads, dim]: NHD with one slot a page."""
State = tuple[torch.Tensor, torch.Tensor]
"""Attention over some of the keys: out [R, heads, dim] and its base-2 log-sum-exp [R, heads]."""


class Wrapper(Protocol):
    """What FlashInfer's two wrapper classes have in common."""

    def plan(self, **arguments: object) -> None: ...

    def run(self, q: torch.Tensor, paged_kv_cache: Paged, *, return_lse: bool) -> State: ...


class Library(Protocol):
    """The names used of the flashinfer module."""

    BatchDecodeWithPagedKVCacheWrapper: Callable[..., Wrapper]
    BatchPrefillWithPagedKVCacheWrapper: Callable[..., Wrapper]
    merge_state: Callable[[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor], State]


@dataclass(frozen=True, slots=True)
class Step:
    """One planned kernel and the rows of the batch it takes (None: all, in order)."""

    wrapper: Wrapper
    rows: torch.Tensor | None

    def run(self, q: torch.Tensor, kv: Paged) -> State:
        rows = q if self.rows is None else q.index_select(0, self.rows)
        return self.wrapper.run(rows.contiguous(), kv, return_lse=True)


@dataclass(frozen=True, slots=True)
class Steps:
    """What every layer of one kind runs for the planned batch."""

    own: tuple[Step, ...]
    prefix: Step | None = None


class AnyBatch:
    """A wrapper per kind of layer and route, made when first needed."""

    def __init__(self, library: Library, kinds: Sequence[fp.Kind], dtype: torch.dtype) -> None:
        self._library = library
        self._kinds = kinds
        self._dtype = dtype
        self._workspace = torch.zeros(0, dtype=torch.uint8)
        self._wrappers: dict[tuple[fp.Kind, fp.Route], Wrapper] = {}

    def plan(self, layout: Layout, device: torch.device) -> dict[fp.Kind, Steps]:
        # Kinds that differ in window or scale only are cut alike: the cut is made once.
        cuts = {
            (size, share): fp.parts(layout, group_size=size, share=share)
            for size, share in {(kind.group_size, kind.shares) for kind in self._kinds}
        }
        cut = {kind: cuts[kind.group_size, kind.shares] for kind in self._kinds}
        needed = (part.split_bytes(kind) for kind, parts in cut.items() for part in parts)
        self._reserve(max(needed, default=0), device)
        rows = {
            id(part): None if part.rows is None else torch.from_numpy(part.rows).to(device)
            for parts in cuts.values()
            for part in parts
        }
        steps: dict[fp.Kind, Steps] = {}
        for kind, parts in cut.items():
            planned = [(part, Step(self._planned(kind, part), rows[id(part)])) for part in parts]
            own = tuple(step for part, step in planned if part.route != fp.PREFIX)
            prefix = next((step for part, step in planned if part.route == fp.PREFIX), None)
            steps[kind] = Steps(own, prefix)
        return steps

    def _planned(self, kind: fp.Kind, part: fp.Part) -> Wrapper:
        decode = part.route.kernel == "decode"
        wrapper = self._wrappers.get((kind, part.route))
        if wrapper is None:
            wrapper = self._wrappers[kind, part.route] = self._new(decode=decode)
        arguments = fp.decode_arguments if decode else fp.prefill_arguments
        wrapper.plan(**arguments(part, kind, self._dtype))
        return wrapper

    def _new(self, *, decode: bool) -> Wrapper:
        # Only fa2 takes orders about the KV split, and for decoding only on tensor cores.
        if not decode:
            make = self._library.BatchPrefillWithPagedKVCacheWrapper
            return make(self._workspace, "NHD", backend="fa2")
        make = self._library.BatchDecodeWithPagedKVCacheWrapper
        return make(self._workspace, "NHD", use_tensor_cores=True, backend="fa2")

    def _reserve(self, needed: int, device: torch.device) -> None:
        """Makes room for the partial results of split rows; wrappers would keep the old room."""
        needed = max(needed, WORKSPACE_BYTES)
        if needed > self._workspace.numel():
            self._wrappers.clear()
            size = 1 << (needed - 1).bit_length()
            self._workspace = torch.zeros(size, dtype=torch.uint8, device=device)


@dataclass(frozen=True, slots=True)
class DecodeBuffers:
    """Where decoding of one padded size finds what changes between replays of its graph."""

    out_slots: torch.Tensor  # [size] int64
    source_rows: torch.Tensor  # [size] int64: the row whose K and V go there
    wrappers: dict[fp.Kind, Wrapper]

    @property
    def steps(self) -> dict[fp.Kind, Steps]:
        return {kind: Steps((Step(wrapper, None),)) for kind, wrapper in self.wrappers.items()}


class SteadyDecode:
    """Buffers and wrappers per padded batch size, at addresses that a CUDA graph can rely on."""

    def __init__(
        self,
        library: Library,
        kinds: Sequence[fp.Kind],
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        self._library = library
        self._kinds = kinds
        self._dtype = dtype
        self._device = device
        self._sizes: dict[int, DecodeBuffers] = {}
        # One of each for all sizes and kinds: only the last planned one is replayed. Rows are
        # never split here, so nothing is written to the workspace.
        self._indices = self._zeros(0, torch.int32)
        self._workspace = self._zeros(0, torch.uint8)

    def plan(self, layout: Layout, size: int) -> DecodeBuffers:
        if size not in self._sizes:
            self._sizes[size] = self._new(size)
        buffers = self._sizes[size]
        part = fp.padded_decode(layout, size)
        for kind, wrapper in buffers.wrappers.items():
            wrapper.plan(**fp.decode_arguments(part, kind, self._dtype))
        # Padding writes the last row's K and V once more. They are taken from that row, not from
        # the padded ones, so that whichever write lands last, the bytes are the same.
        rows = np.minimum(np.arange(size), layout.num_seqs - 1)
        buffers.source_rows.copy_(torch.from_numpy(rows))
        buffers.out_slots.copy_(torch.from_numpy(layout.out_slots[rows]))
        return buffers

    def _new(self, size: int) -> DecodeBuffers:
        if not self._sizes:
            self._indices = self._zeros(max(fp.DECODE_SIZES) * fp.LONG, torch.int32)
            self._workspace = self._zeros(1 << 20, torch.uint8)
        indptr = self._zeros(size + 1, torch.int32)
        last_page_len = self._zeros(size, torch.int32)
        return DecodeBuffers(
            out_slots=self._zeros(size, torch.int64),
            source_rows=self._zeros(size, torch.int64),
            wrappers={
                kind: self._library.BatchDecodeWithPagedKVCacheWrapper(
                    self._workspace,
                    "NHD",
                    use_cuda_graph=True,
                    use_tensor_cores=True,
                    paged_kv_indptr_buffer=indptr,
                    paged_kv_indices_buffer=self._indices,
                    paged_kv_last_page_len_buffer=last_page_len,
                    backend="fa2",
                )
                for kind in self._kinds
            },
        )

    def _zeros(self, size: int, dtype: torch.dtype) -> torch.Tensor:
        return torch.zeros(size, dtype=dtype, device=self._device)
