"""What the model asks of an attention backend, and the KV pool both share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import torch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentrt.runtime.batch import Layout


@dataclass(frozen=True, slots=True)
class LayerAttention:
    """How one layer attends; constant for the life of a model."""

    num_heads: int
    num_kv_heads: int
    head_dim: int
    v_head_dim: int
    scale: float
    window: int | None = None
    """Sliding window: a query at position p sees keys at positions > p - window."""
    softcap: float | None = None
    """Scores become softcap * tanh(scores / softcap), after scaling."""
    has_sinks: bool = False
    """A learned logit per head joins the softmax denominator and carries no value."""


class KVCache:
    """The pool's storage: a K and a V tensor per layer, [slots, kv_heads, (v_)head_dim]."""

    def __init__(
        self,
        layers: Sequence[LayerAttention],
        *,
        num_slots: int,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        self.layers = tuple(layers)
        self.num_slots = num_slots
        self.dtype = dtype
        self.device = device
        self.k = [self._empty(num_slots, a.num_kv_heads, a.head_dim) for a in self.layers]
        self.v = [self._empty(num_slots, a.num_kv_heads, a.v_head_dim) for a in self.layers]

    def _empty(self, *shape: int) -> torch.Tensor:
        # Not zeroed: no slot is read before it is written, and what nobody has used yet then takes
        # no memory and no time.
        return torch.empty(shape, dtype=self.dtype, device=self.device)

    @staticmethod
    def bytes_per_token(layers: Sequence[LayerAttention], dtype: torch.dtype) -> int:
        """KV bytes that one slot takes over all layers."""
        elements = sum(a.num_kv_heads * (a.head_dim + a.v_head_dim) for a in layers)
        return elements * dtype.itemsize


class AttentionBackend(Protocol):
    """Causal attention of a flat ragged batch against the KV pool."""

    @classmethod
    def unsupported(cls, layers: Sequence[LayerAttention]) -> list[str]:
        """Names of what these layers need and this backend lacks; empty when it can serve them."""
        ...

    def plan(self, layout: Layout) -> None:
        """Prepares for one batch; every later `run` until the next `plan` is for this batch."""
        ...

    def run(
        self,
        layer: int,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        sinks: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Writes k and v to the batch's slots, then attends.

        q [T, heads, head_dim], k [T, kv_heads, head_dim], v [T, kv_heads, v_head_dim], in the
        model's dtype, rotary embedding already applied; may be strided views. sinks [heads] float.
        Returns [T, heads, v_head_dim], contiguous, in q's dtype.
        """
        ...
