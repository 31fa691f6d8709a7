"""Drives a Model by hand: sequences with shuffled slots, any mix of tokens per step."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import torch

from agentrt.runtime.attention.base import KVCache
from agentrt.runtime.attention.reference import TorchAttention
from agentrt.runtime.batch import Layout

if TYPE_CHECKING:
    from collections.abc import Callable

    from agentrt.runtime.attention.base import AttentionBackend
    from agentrt.runtime.model import Model


@dataclass
class Sequence:
    """Tokens, the slots of those already computed, and the logits of the computed rows."""

    tokens: list[int]
    slots: list[int] = field(default_factory=list)
    logits: list[torch.Tensor] = field(default_factory=list)

    def all_logits(self) -> torch.Tensor:
        return torch.stack(self.logits)


class Driver:
    """A KV pool whose free slots come in random order, and a Model that writes to it."""

    def __init__(
        self,
        model: Model,
        slots: int = 256,
        seed: int = 0,
        attention: Callable[[KVCache], AttentionBackend] = TorchAttention,
    ) -> None:
        self.model = model
        cache = KVCache(model.layers, num_slots=slots, dtype=model.dtype, device=model.device)
        model.attach(attention(cache))
        self._free = np.random.default_rng(seed).permutation(slots).tolist()

    def layout(self, *work: tuple[Sequence, int]) -> Layout:
        """The next n tokens of each sequence, in slots taken from the pool."""
        spans = [(s, len(s.slots), len(s.slots) + n) for s, n in work]
        for sequence, _, stop in spans:
            sequence.slots.extend(self._free.pop() for _ in range(len(sequence.slots), stop))
        return Layout(
            token_ids=np.array([t for s, a, b in spans for t in s.tokens[a:b]], np.int64),
            positions=np.array([p for _, a, b in spans for p in range(a, b)], np.int64),
            out_slots=np.array([slot for s, a, b in spans for slot in s.slots[a:b]], np.int64),
            q_indptr=np.cumsum([0, *(n for _, n in work)], dtype=np.int32),
            kv_indptr=np.cumsum([0, *(b for _, _, b in spans)], dtype=np.int32),
            kv_slots=np.array([slot for s, _, _ in spans for slot in s.slots], np.int32),
        )

    def step(self, *work: tuple[Sequence, int]) -> None:
        """Computes the next n tokens of each sequence in one batch, and keeps their logits."""
        layout = self.layout(*work)
        logits = self.model.forward(layout, np.arange(layout.num_tokens, dtype=np.int64))
        for (sequence, _), rows in zip(work, logits.split([n for _, n in work]), strict=True):
            sequence.logits.extend(rows)
