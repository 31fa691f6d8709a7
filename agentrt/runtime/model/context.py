"""How long a context a model can be served in, when its positions may depend on its batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from agentrt.errors import UnsupportedModel
from agentrt.runtime.model import hook
from agentrt.runtime.model.decoder import forward
from agentrt.runtime.model.probing import (
    attend_to_self,
    close,
    probe_positions,
    probe_tokens,
    refusal,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import torch
    from torch import nn


def independent_context(
    module: nn.Module, attention: Sequence[nn.Module], described: int, *, name: str
) -> int:
    """The longest context in which a token's queries and keys do not depend on its neighbours.

    Some rotary schemes choose their frequencies by the longest sequence in the batch; keys cached
    before the switch would be wrong after it. Such a model is served up to where it switches.
    Raises UnsupportedModel when it nowhere holds.
    """
    for length in [described, *_original_contexts(cast("Any", module).config)]:
        if length <= described and _is_independent(module, attention, length):
            return length
    raise UnsupportedModel(
        refusal(name, ["a token's position embedding depends on the other tokens of its batch"])
    )


def _original_contexts(config: Any) -> list[int]:
    """Every `original_max_position_embeddings` in a configuration, longest first."""
    found: list[int] = []
    nested: list[Any] = [config.to_dict()]
    while nested:
        for key, value in cast("dict[str, Any]", nested.pop()).items():
            if isinstance(value, dict):
                nested.append(value)
            elif key == "original_max_position_embeddings" and isinstance(value, int):
                found.append(value)
    return sorted(found, reverse=True)


def _is_independent(module: nn.Module, attention: Sequence[nn.Module], length: int) -> bool:
    """Whether a token at position length - 1 leaves the other tokens' queries and keys alone."""
    near = probe_positions(module).clamp(max=length - 1)
    far = near.clone()
    far[-1] = length - 1
    alone, beside, again = (_queries_and_keys(module, attention, p) for p in (near, far, near))
    return all(
        close(b[:, :, :-1], a[:, :, :-1]) and close(c, a)
        for a, b, c in zip(alone, beside, again, strict=True)
    )


def _queries_and_keys(
    module: nn.Module, attention: Sequence[nn.Module], positions: torch.Tensor
) -> list[torch.Tensor]:
    """q and k [1, heads, T, dim] of every layer, when each token attends to itself alone."""
    seen: list[torch.Tensor] = []

    def attend(
        module: nn.Module,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        mask: torch.Tensor | None,
        options: Mapping[str, Any],
    ) -> torch.Tensor:
        seen.extend((q, k))
        return attend_to_self(module, q, k, v, mask, options)

    hook.bind(attention, attend)
    try:
        forward(module, probe_tokens(module), positions, positions[:1])
    finally:
        hook.unbind(attention)
    return seen
