"""The fused operations a graph may call, and what each means in plain torch operations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

    Tensors = tuple[torch.Tensor, ...]

RMS_NORM = "agentrt.rms_norm"
ADD_RMS_NORM = "agentrt.add_rms_norm"
GATE = "agentrt.gate"
ROTATE = "agentrt.rotate"
TAKE_ROWS = "agentrt.take_rows"

_ACTIVATIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "silu": torch.nn.functional.silu,
    "gelu": torch.nn.functional.gelu,
    "gelu_tanh": lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
}


class Kernels(Protocol):
    """Fused operations. Results are contiguous; arguments may be strided unless said otherwise."""

    rows_are_apart: bool
    """Whether a row of a result, products' too, has the same bits whatever rows are beside it."""

    def replayed(self, function: Callable[..., Tensors], /) -> Callable[..., Tensors]:
        """A cheaper way to call function(sizes, *tensors), or the function itself.

        It calls these operations, products and attention, and looks at tensors in other ways, the
        same whatever they hold. For equal `sizes`, the first of them the number of tokens or rows,
        its arguments have equal layouts; others grow evenly with that number, or not at all.
        """
        ...

    def rms_norm(self, x: torch.Tensor, weight: torch.Tensor | None, eps: float, /) -> torch.Tensor:
        """x / sqrt(mean(x^2) + eps) * weight over the last dimension, in x's shape."""
        ...

    def add_rms_norm(
        self, x: torch.Tensor, y: torch.Tensor, weight: torch.Tensor | None, eps: float, /
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """x + y, and its rms_norm. Neither x nor y is changed."""
        ...

    def gate(self, gate_up: torch.Tensor, activation: str, /) -> torch.Tensor:
        """[..., 2 F] to activation(first half) * second half [..., F]; gate_up is contiguous.

        activation: "silu", "gelu" (by the error function) or "gelu_tanh".
        """
        ...

    def rotate(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, /) -> torch.Tensor:
        """Rotary embedding of x [T, heads, D] by cos and sin [T, d]: halves paired (NeoX layout).

        The first d <= D values h of every head become h * cos + cat(-h[d/2:], h[:d/2]) * sin.
        Nothing else reads the memory of x afterwards: it may be overwritten and returned, and the
        result need not be contiguous.
        """
        ...

    def take_rows(self, x: torch.Tensor, rows: torch.Tensor, /) -> torch.Tensor:
        """Some rows of x [1, T, ...], rows int64 [R]: [1, R, ...], x itself where it has but one.

        Not one of those that may be replayed.
        """
        ...


class TorchKernels:
    """The fused operations as the chains of torch operations that they stand for."""

    rows_are_apart = False

    def replayed(self, function: Callable[..., Tensors]) -> Callable[..., Tensors]:
        return function

    def rms_norm(self, x: torch.Tensor, weight: torch.Tensor | None, eps: float) -> torch.Tensor:
        x = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps)
        return (x if weight is None else weight * x).contiguous()

    def add_rms_norm(
        self, x: torch.Tensor, y: torch.Tensor, weight: torch.Tensor | None, eps: float
    ) -> tuple[torch.Tensor, torch.Tensor]:
        total = (x + y).contiguous()
        return total, self.rms_norm(total, weight, eps)

    def gate(self, gate_up: torch.Tensor, activation: str) -> torch.Tensor:
        gate, up = gate_up.chunk(2, dim=-1)
        return _ACTIVATIONS[activation](gate) * up

    def rotate(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        turned, rest = x.split_with_sizes([cos.shape[-1], x.shape[-1] - cos.shape[-1]], dim=-1)
        low, high = turned.chunk(2, dim=-1)
        crossed = torch.cat((-high, low), dim=-1) * sin.unsqueeze(1)
        return torch.cat((turned * cos.unsqueeze(1) + crossed, rest), dim=-1)

    def take_rows(self, x: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        return x if x.shape[1] == rows.shape[0] == 1 else x.index_select(1, rows)
