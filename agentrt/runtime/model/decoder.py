"""What computes a step's logits, and the plain one: the transformers module itself."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Protocol

from agentrt.runtime.model import hook

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch
    from torch import nn

    from agentrt.runtime.attention.base import AttentionBackend, LayerAttention


class Decoder(Protocol):
    """One flat ragged batch in, the logits of some of its rows out."""

    def attach(self, backend: AttentionBackend) -> None:
        """Sends every attention layer's q, k, v to `backend` from now on."""
        ...

    def detach(self) -> None:
        """Lets go of the backend."""
        ...

    def run(
        self, token_ids: torch.Tensor, positions: torch.Tensor, rows: torch.Tensor
    ) -> torch.Tensor:
        """token_ids and positions [T], rows [R], all int64; returns [R, vocab] in any dtype."""
        ...


class EagerDecoder:
    """Runs the transformers module on a batch of one row that holds every sequence.

    `attention` are its attention modules in layer order; `layers` say how each attends.
    """

    def __init__(
        self, module: nn.Module, attention: Sequence[nn.Module], layers: Sequence[LayerAttention]
    ) -> None:
        self.module = module
        self.attention = tuple(attention)
        self._layers = tuple(layers)

    def attach(self, backend: AttentionBackend) -> None:
        for index, (module, layer) in enumerate(zip(self.attention, self._layers, strict=True)):
            hook.bind([module], hook.LayerCall(index, layer.has_sinks, backend))

    def detach(self) -> None:
        hook.unbind(self.attention)

    def run(
        self, token_ids: torch.Tensor, positions: torch.Tensor, rows: torch.Tensor
    ) -> torch.Tensor:
        return forward(self.module, token_ids, positions, rows)


def forward(
    module: nn.Module, token_ids: torch.Tensor, positions: torch.Tensor, rows: torch.Tensor
) -> torch.Tensor:
    """The module's own forward, without a cache, for a flat batch; returns [R, vocab]."""
    inputs: dict[str, Any] = {
        "input_ids": token_ids.unsqueeze(0),
        "position_ids": positions.unsqueeze(0),
        "use_cache": False,
    }
    if accepts(module, "logits_to_keep"):
        return module(**inputs, logits_to_keep=rows).logits[0]
    return module(**inputs).logits[0].index_select(0, rows)


def accepts(module: nn.Module, name: str) -> bool:
    """Whether the module's forward names this parameter (a catch-all may ignore it)."""
    return name in inspect.signature(module.forward).parameters
