"""What every probing forward needs: a few tokens, their positions, and harmless attention."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import torch

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import nn

PROBE_TOKENS = 7


def refusal(name: str, problems: list[str]) -> str:
    return (
        f"{name} cannot be served exactly: {'; '.join(dict.fromkeys(problems))}. Served are "
        "decoder-only models whose layers mix tokens by causal or sliding-window softmax "
        "attention, called through transformers' attention interface"
    )


def probe_tokens(module: nn.Module, count: int = PROBE_TOKENS) -> torch.Tensor:
    """[count] token ids, not all alike, on the module's device."""
    vocab = cast("Any", module).get_input_embeddings().weight.shape[0]
    return (probe_positions(module, count) * 31 + 5) % vocab


def probe_positions(module: nn.Module, count: int = PROBE_TOKENS) -> torch.Tensor:
    """[count]: 0, 1, 2, ... on the module's device."""
    return torch.arange(count, device=next(module.parameters()).device)


def close(logits: torch.Tensor, wanted: torch.Tensor) -> bool:
    """Whether logits are equal up to the rounding of their dtype."""
    tolerance = {torch.float32: 1e-3, torch.float64: 1e-6}.get(wanted.dtype, 5e-2)
    scale = float(wanted.float().abs().amax())
    return float((logits.float() - wanted.float()).abs().amax()) <= tolerance * max(scale, 1e-6)


def attend_to_self(
    module: nn.Module,  # noqa: ARG001
    q: torch.Tensor,
    k: torch.Tensor,  # noqa: ARG001
    v: torch.Tensor,
    mask: torch.Tensor | None,  # noqa: ARG001
    options: Mapping[str, Any],  # noqa: ARG001
) -> torch.Tensor:
    """Attention where every token sees itself alone: its value, for each query head."""
    return v.repeat_interleave(q.shape[1] // v.shape[1], dim=1).transpose(1, 2).contiguous()
