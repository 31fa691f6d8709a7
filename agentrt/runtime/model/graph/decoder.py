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


class GraphDecoder:
    """Runs a graph with the given constants, products (by key) and kernels.

    Runs the prelude when made. Must be made and run under torch.inference_mode.
    """

    def __init__(
        self,
        graph: Graph,
        *,
        constants: dict[str, torch.Tensor],
        products: dict[str, Product],
        kernels: Kernels,
        device: torch.device,
    ) -> None:
        emitter = Emitter(constants=constants, products=products, kernels=kernels, device=device)
        self.calls_per_step = len(graph.nodes)
        self._code = emitter.step(graph)
        self._namespace = emitter.namespace
        self._renew()

    def attach(self, backend: AttentionBackend) -> None:
        self._namespace["attend"] = backend.run
        self._renew()

    def detach(self) -> None:
        self._namespace.pop("attend", None)
        self._renew()

    def _renew(self) -> None:
        """Defines the step afresh: what the last one has recorded is of another backend."""
        exec(self._code, self._namespace)
        self._step = self._namespace["step"]

    def run(
        self, token_ids: torch.Tensor, positions: torch.Tensor, rows: torch.Tensor
    ) -> torch.Tensor:
        return self._step(token_ids, positions, rows)
