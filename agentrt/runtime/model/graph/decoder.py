"""Replays a recorded forward: the decoder of every start but the first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentrt.runtime.model.graph.emit import Emitter

if TYPE_CHECKING:
    import torch

    from agentrt.runtime.attention.base import AttentionBackend
    from agentrt.runtime.model.graph.ir import Graph
    from agentrt.runtime.model.graph.kernels import Kernels
    from agentrt.runtime.model.linears import Product

_WORTH_LEAVING_OUT = 8  # rows: of fewer, the last layer's end costs less than another run of calls


class GraphDecoder:
    """Runs a graph with the given constants, products (by key) and kernels.

    `early` is the same graph with the wanted rows taken early (early.py), for kernels of which a
    row's bits do not depend on how many are computed. Runs the prelude when made. Must be made and
    run under torch.inference_mode.
    """

    def __init__(
        self,
        graph: Graph,
        *,
        constants: dict[str, torch.Tensor],
        products: dict[str, Product],
        kernels: Kernels,
        device: torch.device,
        early: Graph | None = None,
    ) -> None:
        def step(graph: Graph) -> _Step:
            return _Step(
                graph,
                Emitter(constants=constants, products=products, kernels=kernels, device=device),
            )

        self.calls_per_step = len(graph.nodes)
        self._all = step(graph)
        self._early = step(early) if early is not None and kernels.rows_are_apart else self._all

    def attach(self, backend: AttentionBackend) -> None:
        for step in {self._all, self._early}:
            step.renew(backend)

    def detach(self) -> None:
        for step in {self._all, self._early}:
            step.renew(None)

    def run(
        self, token_ids: torch.Tensor, positions: torch.Tensor, rows: torch.Tensor
    ) -> torch.Tensor:
        left_out = token_ids.shape[0] - rows.shape[0]
        step = self._early if left_out >= _WORTH_LEAVING_OUT else self._all
        return step.run(token_ids, positions, rows)


class _Step:
    """A graph as a function of (token_ids, positions, rows)."""

    def __init__(self, graph: Graph, emitter: Emitter) -> None:
        self._code = emitter.step(graph)
        self._namespace = emitter.namespace
        self.renew(None)

    def renew(self, backend: AttentionBackend | None) -> None:
        """Defines the function afresh: what the last one has recorded is of another backend."""
        self._namespace["attend"] = None if backend is None else backend.run
        exec(self._code, self._namespace)
        self.run = self._namespace["step"]
