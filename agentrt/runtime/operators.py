"""The small operators between a model's products, by the CPU kernels where they have them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from agentrt.runtime.model.graph.kernels import TorchKernels
from agentrt.runtime.native.replay import Replayed

if TYPE_CHECKING:
    from collections.abc import Callable

    from agentrt.runtime.model.graph.kernels import Tensors
    from agentrt.runtime.native import Kernels


class NativeOperators(TorchKernels):
    """Fused operators of a recorded graph. What the kernels lack is done as torch does it, in
    operations whose result for a row depends on that row alone."""

    rows_are_apart = True

    def __init__(self, kernels: Kernels) -> None:
        self._kernels = kernels

    def replayed(self, function: Callable[..., Tensors]) -> Callable[..., Tensors]:
        return Replayed(self._kernels, function)

    def rms_norm(self, x: torch.Tensor, weight: torch.Tensor | None, eps: float) -> torch.Tensor:
        return self._kernels.rms_norm(x, _weight(x, weight), eps)

    def add_rms_norm(
        self, x: torch.Tensor, y: torch.Tensor, weight: torch.Tensor | None, eps: float
    ) -> tuple[torch.Tensor, torch.Tensor]:
        return self._kernels.add_rms_norm(x, y, _weight(x, weight), eps)

    def gate(self, gate_up: torch.Tensor, activation: str) -> torch.Tensor:
        if activation in ("silu", "gelu_tanh"):
            return self._kernels.gate(gate_up, activation)
        return super().gate(gate_up, activation)

    def rotate(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        self._kernels.rotate(x, cos.contiguous(), sin.contiguous())
        return x


def _weight(x: torch.Tensor, weight: torch.Tensor | None) -> torch.Tensor:
    return torch.ones(x.shape[-1]) if weight is None else weight
