"""The tokens that a request's next step chooses: one, and more where it is known what they may be.

Text that can only be one thing can still be cut into tokens in several ways, and which of them the
model takes is part of what it goes on from. So the tokens of such a text are guessed, computed
behind one another in one step, and each is checked against what the model chooses in its place: the
answer is the one that is given without guesses, in fewer steps. Checking a draft of tokens in one
forward pass is the idea of "Fast Inference from Transformers via Speculative Decoding" (Leviathan
et al., ICML 2023). Here the draft is the constraint's, or, where the text is free, what followed
the same tokens before (`agentrt.runtime.lookup`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agentrt.matching import Forced
from agentrt.runtime.constraining import allows, checked_guesses, checked_mask, checked_token

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentrt.matching import Allowed, Bitmask, Matcher

_MOST_GUESSED = 32  # tokens; what is guessed wrong was computed for nothing

Draft = Callable[[int], "list[int]"]
"""At most so many tokens that may follow what is written."""


@dataclass(frozen=True, slots=True)
class Choice:
    """One token to be chosen, and the one that is computed on before it is known which."""

    mask: Bitmask | None = None
    guess: int | None = None
    forced: bool = False
    """The guess writes what the text can only be."""


_ANYTHING = Choice()


def free_choices(draft: Draft, tokens_left: int) -> list[Choice]:
    """The next choice of a text that may be anything, and those behind it if the draft is right.

    The last of them has no guess.
    """
    guesses = draft(min(_MOST_GUESSED, tokens_left - 1))
    return [*[Choice(guess=token) for token in guesses], _ANYTHING] if guesses else [_ANYTHING]


def choices_from(
    matcher: Matcher, step: Allowed, draft: Draft, *, tokens_left: int, vocab_size: int
) -> list[Choice]:
    """The choice that a matcher stands at, and those behind it if its guesses come true.

    The last of them has no guess. The matcher is left where it was.
    """
    found: list[Choice] = []
    mask, accepted = checked_mask(step.mask, vocab_size), 0
    forced = _forced(step, tokens_left)
    ahead = list(forced or draft(min(_MOST_GUESSED, tokens_left - 1)))
    while ahead:
        token = checked_token(ahead.pop(0), vocab_size, "likely")
        if not allows(mask, token):
            break
        matcher.accept(token)
        accepted += 1
        if matcher.is_finished:
            break
        following = matcher.next(tokens_left - accepted)
        if isinstance(following, Forced):
            break
        found.append(Choice(mask, token, bool(forced)))
        mask = checked_mask(following.mask, vocab_size)
        if not forced and (forced := _forced(following, tokens_left - accepted)):
            ahead = list(forced)  # what was told as forced does not depend on how it was reached
    if accepted:
        matcher.rollback(accepted)
    return [*found, Choice(mask)]


def _forced(step: Allowed, tokens_left: int) -> Sequence[object]:
    return checked_guesses(step.likely)[: min(_MOST_GUESSED, tokens_left - 1)]
