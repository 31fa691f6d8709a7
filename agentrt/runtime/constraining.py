"""Holds what a constraint says to the contract: the engine acts on nothing else.

A mask or a token id that is not of this vocabulary would fail the step, and with it everybody who
is in it; here it fails the one request it belongs to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from agentrt.errors import GenerationFailed

if TYPE_CHECKING:
    from agentrt.matching import Bitmask, Forced


def checked_mask(mask: object, vocab_size: int) -> Bitmask:
    """The mask. Raises GenerationFailed for one that is none of this vocabulary."""
    words = -(-vocab_size // 32)
    if isinstance(mask, np.ndarray) and mask.dtype == np.uint32 and mask.shape == (words,):
        return mask
    given = f"{mask.dtype} {mask.shape}" if isinstance(mask, np.ndarray) else type(mask).__name__
    raise GenerationFailed(
        f"the constraint gave a mask of {given} and the model's {vocab_size} tokens take uint32 "
        f"({words},); compile it for this model's vocabulary"
    )


def allows(mask: Bitmask, token: int) -> bool:
    """Whether a token's bit is set."""
    return bool(int(mask[token // 32]) >> token % 32 & 1)


def check_forced(step: Forced, written: int, vocab_size: int) -> None:
    """Raises GenerationFailed for what cannot be done after `written` output tokens."""
    if not 0 <= step.rollback <= written:
        raise GenerationFailed(
            f"the constraint takes {step.rollback} tokens back and {written} were written"
        )
    if not step.token_ids:
        raise GenerationFailed("the constraint forces no tokens; it may give a mask instead")
    for token in step.token_ids:
        checked_token(token, vocab_size)


def checked_token(token: int, vocab_size: int) -> int:
    """The token id. Raises GenerationFailed for one that is none of this vocabulary."""
    if 0 <= token < vocab_size:
        return token
    raise GenerationFailed(
        f"the constraint writes token id {token} and the model has ids 0 to {vocab_size - 1}"
    )
