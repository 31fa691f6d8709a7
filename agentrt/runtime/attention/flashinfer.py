"""Attention by FlashInfer's paged kernels on CUDA; the one module that imports flashinfer.

What can be decided without a device is decided in `flashinfer_plan`; the library's wrappers and
their buffers are kept in `flashinfer_wrappers`; docs/attention.md says what is promised.
"""

from __future__ import annotations

import importlib
import math
from typing import TYPE_CHECKING, cast

import torch

from agentrt.errors import InvalidRequest, UnsupportedModel
from agentrt.runtime.attention import flashinfer_plan as fp
from agentrt.runtime.attention.flashinfer_wrappers import AnyBatch, SteadyDecode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentrt.runtime.attention.base import KVCache, LayerAttention
    from agentrt.runtime.attention.flashinfer_wrappers import Library, Paged, State, Step, Steps
    from agentrt.runtime.batch import Layout


class FlashInferAttention:
    """Serves any batch with `plan` and `run`, and steady decoding at fixed addresses.

    For the latter `decode_size` tells whether a batch is that and `plan_decode` plans it padded;
    `agentrt.runtime.attention.graphs` captures and replays it. Queries, K and V are of one dtype.
    `library` stands in for the flashinfer module. Raises UnsupportedModel for a dtype or head size
    that FlashInfer lacks, and InvalidRequest where it is not installed.
    """

    @classmethod
    def unsupported(
        cls, layers: Sequence[LayerAttention], dtype: torch.dtype | None = None
    ) -> list[str]:
        """Names of what these layers need, with K and V of `dtype`, and FlashInfer lacks."""
        return fp.unsupported(layers, dtype)

    def __init__(self, kv_cache: KVCache, *, library: Library | None = None) -> None:
        lacks = self.unsupported(kv_cache.layers, kv_cache.dtype)
        if lacks:
            raise UnsupportedModel(
                f"the flashinfer backend cannot serve {'; '.join(lacks)}; use the torch backend"
            )
        self._library = load() if library is None else library
        self._cache = kv_cache
        self._kinds = [fp.Kind.of(layer) for layer in kv_cache.layers]
        kinds, dtype, device = tuple(dict.fromkeys(self._kinds)), kv_cache.dtype, kv_cache.device
        self._any = AnyBatch(self._library, kinds, dtype)
        self._steady = SteadyDecode(self._library, kinds, dtype, device)
        self._steps: dict[fp.Kind, Steps] = {}
        self._out_slots = torch.zeros(0, dtype=torch.int64)
        self._source_rows: torch.Tensor | None = None

    def plan(self, layout: Layout) -> None:
        self._steps = self._any.plan(layout, self._cache.device)
        self._out_slots = torch.from_numpy(layout.out_slots).to(self._cache.device)
        self._source_rows = None

    def decode_size(self, layout: Layout) -> int | None:
        """The padded size under which this batch can be captured and replayed; None: it cannot."""
        return fp.decode_size(layout)

    def plan_decode(self, layout: Layout, size: int) -> None:
        """As `plan`, for a batch padded to `size` rows by repeating its last row.

        `run` then takes and returns `size` rows, of which those beyond the batch mean nothing, and
        reads only buffers that every later `plan_decode` of this size fills in place.
        """
        buffers = self._steady.plan(layout, size)
        self._steps = buffers.steps
        self._out_slots, self._source_rows = buffers.out_slots, buffers.source_rows

    def run(
        self,
        layer: int,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        sinks: torch.Tensor | None = None,
    ) -> torch.Tensor:
        keys, values = self._cache.k[layer], self._cache.v[layer]
        keys.index_copy_(0, self._out_slots, _take(k, self._source_rows))
        values.index_copy_(0, self._out_slots, _take(v, self._source_rows))
        kv = (keys.unsqueeze(1), values.unsqueeze(1))
        steps = self._steps[self._kinds[layer]]
        out, lse = _every_row(steps.own, q, kv)
        if steps.prefix is not None:
            rows = steps.prefix.rows
            own = _take(out, rows), _take(lse, rows)
            merged = self._library.merge_state(*own, *steps.prefix.run(q, kv))
            out, lse = _put((out, lse), rows, merged)
        if sinks is not None:
            # exp(lse) / (exp(lse) + exp(sink)): the sink takes its share and gives no value.
            share = torch.sigmoid(lse * math.log(2.0) - sinks.float())
            out = (out * share.unsqueeze(-1)).to(q.dtype)
        return out


def load() -> Library:
    """The flashinfer module; InvalidRequest, saying how to get it, where it cannot be imported."""
    try:
        return cast("Library", importlib.import_module("flashinfer"))
    except ImportError as error:
        raise InvalidRequest(
            f"the flashinfer backend was asked for and flashinfer cannot be imported ({error}); "
            "install agentrt[cuda], or use the torch backend"
        ) from error


def _every_row(steps: tuple[Step, ...], q: torch.Tensor, kv: Paged) -> State:
    if len(steps) == 1 and steps[0].rows is None:
        return steps[0].run(q, kv)
    heads = q.shape[:2]
    state = q.new_empty(*heads, kv[1].shape[-1]), q.new_empty(heads, dtype=torch.float32)
    for step in steps:
        state = _put(state, step.rows, step.run(q, kv))
    return state


def _take(x: torch.Tensor, rows: torch.Tensor | None) -> torch.Tensor:
    return x if rows is None else x.index_select(0, rows)


def _put(state: State, rows: torch.Tensor | None, part: State) -> State:
    """`state` with `part` in its rows, written in place unless it is all of them."""
    if rows is None:
        return part
    return state[0].index_copy_(0, rows, part[0]), state[1].index_copy_(0, rows, part[1])
