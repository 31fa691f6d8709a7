"""The contract between a constraint and the decoder: write what is certain, or choose under a mask.

`agentrt.schema` makes matchers, `agentrt.runtime` drives them; neither knows the other's insides.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

Bitmask = npt.NDArray[np.uint32]
"""Packed token mask, shape [ceil(vocab_size / 32)], bit i % 32 of word i // 32 set = allowed."""


@dataclass(frozen=True, slots=True)
class Forced:
    """The text can only go on one way: after dropping the last `rollback` output tokens (whose text
    the new tokens repeat), append `token_ids` without decoding."""

    token_ids: tuple[int, ...]
    rollback: int = 0


@dataclass(frozen=True, slots=True)
class Allowed:
    """The model chooses, among the tokens whose bit is set in the mask.

    The mask is the matcher's own array; it must not be written to. `likely` is how the text
    probably goes on, from this token: where it can only be one thing, the tokens that write it.
    The decoder may compute them ahead, and drops them where the model chooses otherwise: they
    change how fast an answer comes, never the answer.
    """

    mask: Bitmask
    likely: tuple[int, ...] = ()


class Matcher(Protocol):
    """Follows one generation through a constraint, token by token.

    The end-of-sequence tokens are part of the mask: allowed where the text may end. A matcher that
    has accepted one is finished.
    """

    def next(self, tokens_left: int | None = None) -> Forced | Allowed:
        """What may come next, with `tokens_left` output tokens to go (None: no limit).

        With a limit, only tokens from which the text can still be completed in the remaining ones
        are allowed. Does not change the matcher.
        """
        ...

    def accept(self, token_id: int) -> None:
        """Advances by one token. Raises ValueError if the token is not allowed here."""
        ...

    def rollback(self, tokens: int) -> None:
        """Takes back the last `tokens` accepted tokens."""
        ...

    @property
    def is_complete(self) -> bool:
        """The text so far is a whole match (it may still be allowed to go on)."""
        ...

    @property
    def is_finished(self) -> bool:
        """The text is a whole match and nothing may follow, or an end token was accepted."""
        ...


class Constraint(Protocol):
    """A compiled type, schema or regex: makes one matcher per request. Safe to share."""

    @property
    def min_tokens(self) -> int:
        """The fewest tokens in which any match can be written, the end token not counted."""
        ...

    def matcher(self) -> Matcher:
        """A fresh matcher at the start of the text."""
        ...
