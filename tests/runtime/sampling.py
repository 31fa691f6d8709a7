"""Rows of logits and what to do with them, for the tests of the sampler."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from agentrt.generation import SamplingParams
from agentrt.runtime.batch import SampleRow

if TYPE_CHECKING:
    from collections.abc import Iterable

    from agentrt.matching import Bitmask


def row(
    *,
    seed: int = 0,
    position: int = 0,
    mask: Bitmask | None = None,
    history: Iterable[int] = (),
    prompt: Iterable[int] = (),
    banned: Iterable[int] = (),
    **params: Any,
) -> SampleRow:
    return SampleRow(
        0,
        SamplingParams(**params),
        seed,
        position,
        mask=mask,
        history=tuple(history),
        prompt=tuple(prompt),
        banned=tuple(banned),
    )


def mask_of(allowed: Iterable[int], vocab_size: int) -> Bitmask:
    """The packed mask in which just these tokens are allowed, built bit by bit."""
    words = np.zeros(-(-vocab_size // 32), np.uint32)
    for token_id in allowed:
        words[token_id // 32] |= np.uint32(1 << token_id % 32)
    return words


def random_logits(rows: int, vocab_size: int, *, seed: int = 0, spread: float = 3.0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(rows, vocab_size, generator=generator) * spread
