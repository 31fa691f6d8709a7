"""Steady decoding as CUDA graphs: one captured forward per padded batch size.

A decode step launches a few hundred small kernels, and on a fast card the host cannot launch them
as quickly as they run. Captured once, they are replayed by a single call. What a decoder owes it:
a forward whose work is a function of the two tensors it is given and of buffers at fixed addresses,
that neither waits for the device nor looks at a value on the host. The attention backend keeps its
half of that bargain in `plan_decode`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np
import torch

if TYPE_CHECKING:
    from collections.abc import Callable

    from agentrt.runtime.batch import Int64Array, Layout


@runtime_checkable
class SteadyAttention(Protocol):
    """What a backend adds to `AttentionBackend` when its decoding can be captured."""

    def decode_size(self, layout: Layout) -> int | None: ...

    def plan_decode(self, layout: Layout, size: int) -> None: ...


class Capture(Protocol):
    """Runs `work` as often as it needs to; returns what repeats it and what it returned.

    Every repetition leaves its result in that same tensor.
    """

    def __call__(
        self, work: Callable[[], torch.Tensor]
    ) -> tuple[Callable[[], None], torch.Tensor]: ...


@dataclass(frozen=True, slots=True)
class _Captured:
    token_ids: torch.Tensor  # [size] int64
    positions: torch.Tensor  # [size] int64
    logits: torch.Tensor  # [size, ...]
    replay: Callable[[], None]

    def fill(self, layout: Layout) -> None:
        for buffer, values in (
            (self.token_ids, layout.token_ids),
            (self.positions, layout.positions),
        ):
            buffer.copy_(torch.from_numpy(_pad(values, len(buffer))))


class DecodeGraphs:
    """Runs the batches that are steady decoding, each size captured when it first comes.

    `forward(token_ids, positions)`, both [size] int64, calls the backend's `run` for each layer and
    returns logits [size, ...]. Memory is shared between sizes, so logits live until the next `run`.
    """

    def __init__(
        self,
        attention: SteadyAttention,
        forward: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
        *,
        device: torch.device,
        capture: Capture | None = None,
    ) -> None:
        self._attention = attention
        self._forward = forward
        self._device = device
        self._capture = CudaCapture() if capture is None else capture
        self._sizes: dict[int, _Captured] = {}

    def __repr__(self) -> str:
        return f"<DecodeGraphs {sorted(self._sizes)}>"

    def run(self, layout: Layout) -> torch.Tensor | None:
        """Logits [B, ...] of a steady decode batch; None: plan and run this one as usual."""
        size = self._attention.decode_size(layout)
        if size is None:
            return None
        self._attention.plan_decode(layout, size)
        if size in self._sizes:
            self._sizes[size].fill(layout)
        else:
            # Capturing runs the batch, maybe more than once. That is harmless: the same K and V
            # go to the same slots each time.
            self._sizes[size] = self._new(layout, size)
        captured = self._sizes[size]
        captured.replay()
        return captured.logits[: layout.num_seqs]

    def _new(self, layout: Layout, size: int) -> _Captured:
        token_ids, positions = (
            torch.from_numpy(_pad(x, size)).to(self._device)
            for x in (layout.token_ids, layout.positions)
        )
        replay, logits = self._capture(lambda: self._forward(token_ids, positions))
        return _Captured(token_ids, positions, logits, replay)


class CudaCapture:
    """Captures on a side stream, after two runs that let every library set itself up."""

    def __init__(self) -> None:
        self._pool = torch.cuda.graph_pool_handle()

    def __call__(self, work: Callable[[], torch.Tensor]) -> tuple[Callable[[], None], torch.Tensor]:
        current, side = torch.cuda.current_stream(), torch.cuda.Stream()
        side.wait_stream(current)
        with torch.cuda.stream(side):
            for _ in range(2):
                work()
        current.wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool):
            result = work()
        return graph.replay, result


def _pad(values: Int64Array, size: int) -> Int64Array:
    """`values` with its last repeated up to `size`."""
    return values[np.minimum(np.arange(size), len(values) - 1)]
