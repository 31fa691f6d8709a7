"""Holds what a constraint says to the contract: the engine acts on nothing else.

A mask or a token id that is not of this vocabulary would fail the step, and with it everybody who
is in it; here it fails the one request it belongs to.
"""

from __future__ import annotations

from operator import index
from typing import TYPE_CHECKING, SupportsIndex, cast

import numpy as np

from agentrt.errors import GenerationFailed

if TYPE_CHECKING:
    from collections.abc import Sequence

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


def checked_guesses(likely: object) -> Sequence[object]:
    """What the text probably goes on with. Raises GenerationFailed for what is no tuple or list."""
    if isinstance(likely, tuple | list):
        return cast("Sequence[object]", likely)
    raise GenerationFailed(
        f"the constraint's `likely` is a {type(likely).__name__}; give a tuple of token ids, empty "
        "where nothing is likely"
    )


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


def checked_token(token: object, vocab_size: int, where: str = "token_ids") -> int:
    """The token id. Raises GenerationFailed for one that is none of this vocabulary."""
    if not isinstance(token, int | SupportsIndex) or isinstance(token, bool):
        raise GenerationFailed(
            f"the constraint's `{where}` has a {type(token).__name__} in it; give token ids"
        )
    if 0 <= (known := index(token)) < vocab_size:
        return known
    raise GenerationFailed(
        f"the constraint's `{where}` has token id {known} in it and the model has ids 0 to "
        f"{vocab_size - 1}"
    )
