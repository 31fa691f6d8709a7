"""The attention function and the mask function that transformers calls, and what they call.

transformers looks both up by name in process-wide tables, so the functions registered there hold
no state. What a call is for is bound to the attention module it comes from: two models, two
runtimes and two threads share the functions and nothing else.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import torch

from agentrt.errors import InvalidRequest, UnsupportedModel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from torch import nn

    from agentrt.runtime.attention.base import AttentionBackend

RUN = "agentrt"
"""Attention implementation of a running model: transformers builds no mask for it."""
PROBE = "agentrt_probe"
"""Attention implementation of a probing forward: each layer is handed the rule of its mask."""
EAGER = "eager"
"""The model's own attention, which defines what is right."""

_BINDING = "_agentrt_attend"
_RULE = "_agentrt_rule"
_CLAIM = "_agentrt_claimed"

MaskRule = Any
"""mask_function(batch, head, query index, key index) -> visible, over broadcast index tensors."""


class Attend(Protocol):
    """Takes q, k, v as transformers passes them, [1, heads, T, dim]; returns [1, T, heads, dim]."""

    def __call__(
        self,
        module: nn.Module,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        mask: torch.Tensor | None,
        options: Mapping[str, Any],
    ) -> torch.Tensor: ...


@dataclass(slots=True)
class LayerCall:
    """One attention module of a running model: its layer number and the model's backend."""

    layer: int
    has_sinks: bool
    backend: AttentionBackend

    def __call__(
        self,
        module: nn.Module,  # noqa: ARG002
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        mask: torch.Tensor | None,
        options: Mapping[str, Any],
    ) -> torch.Tensor:
        if mask is not None:
            raise UnsupportedModel(
                f"attention layer {self.layer} was handed a mask of its model's own making; only "
                "causal and sliding-window attention are served"
            )
        sinks = options["s_aux"] if self.has_sinks else None
        q, k, v = (x[0].transpose(0, 1) for x in (q, k, v))
        return self.backend.run(self.layer, q, k, v, sinks).unsqueeze(0)


def _register() -> None:
    """Adds our names to transformers' tables; doing it again changes nothing."""
    from transformers import AttentionInterface
    from transformers.masking_utils import AttentionMaskInterface

    AttentionInterface.register(RUN, _attention)
    AttentionInterface.register(PROBE, _attention)
    AttentionMaskInterface.register(PROBE, _mask)


def bind(modules: Iterable[nn.Module], attend: Attend) -> None:
    """Sends every attention call that comes from `modules` to `attend`."""
    for module in modules:
        module.__dict__[_BINDING] = attend


def unbind(modules: Iterable[nn.Module]) -> None:
    for module in modules:
        module.__dict__.pop(_BINDING, None)


def rule_of(mask: torch.Tensor | None) -> MaskRule | None:
    """The rule behind a mask that the probe's mask function made; None for any other mask."""
    return getattr(mask, _RULE, None)


def claim(model: nn.Module, *, name: str) -> None:
    """Makes a module one Model's own: no second Model may rebind its layers.

    It gets a private copy of its configuration, wherever in the model that is held. The attention
    implementation is a field of the configuration, which transformers does not copy: another model
    built from the same object would change with this one.
    """
    if model.__dict__.get(_CLAIM):
        raise InvalidRequest(f"{name} already serves another Model; load it a second time instead")
    model.__dict__[_CLAIM] = True
    _register()
    copies: dict[int, Any] = {}
    copy.deepcopy([m.__dict__.get("config") for m in model.modules()], copies)
    for module in model.modules():
        if "config" in module.__dict__:
            module.__dict__["config"] = copies[id(module.__dict__["config"])]


def _attention(
    module: nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    attend: Attend = module.__dict__[_BINDING]
    return attend(module, query, key, value, attention_mask, options), None


def _mask(
    batch_size: int,
    q_length: int,
    kv_length: int,
    q_offset: int = 0,
    kv_offset: int = 0,
    mask_function: Callable[..., torch.Tensor] | None = None,
    device: torch.device | str = "cpu",
    **_: Any,
) -> torch.Tensor:
    """A mask that hides nothing and carries the rule it stands for, which is read instead."""
    del q_offset, kv_offset
    shape = (batch_size, 1, q_length, kv_length)
    mask = torch.ones(shape, dtype=torch.bool, device=device)
    setattr(mask, _RULE, mask_function)
    return mask
