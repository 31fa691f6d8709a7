"""The tokens that a request's next step chooses: one, and more where the text can only go one way.

Text that can only be one thing can still be cut into tokens in several ways, and which of them the
model takes is part of what it goes on from. So the tokens of such a text are guessed, computed
behind one another in one step, and each is checked against what the model chooses in its place: the
answer is the one that is given without guesses, in fewer steps. Checking a draft of tokens in one
forward pass is the idea of "Fast Inference from Transformers via Speculative Decoding" (Leviathan
et al., ICML 2023); here the draft is the constraint's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from agentrt.matching import Forced
from agentrt.runtime.constraining import allows, checked_guesses, checked_mask, checked_token

if TYPE_CHECKING:
    from agentrt.matching import Allowed, Bitmask, Matcher

_MOST_GUESSED = 32  # tokens; what is guessed wrong was computed for nothing


@dataclass(frozen=True, slots=True)
class Choice:
    """One token to be chosen, and the one that is computed on before it is known which."""

    mask: Bitmask | None = None
    guess: int | None = None


def choices_from(
    matcher: Matcher, step: Allowed, tokens_left: int, vocab_size: int
) -> list[Choice]:
    """The choice that a matcher stands at, and those behind it if its guesses come true.

    The last of them has no guess. The matcher is left where it was.
    """
    found: list[Choice] = []
    mask, accepted = checked_mask(step.mask, vocab_size), 0
    for given in checked_guesses(step.likely)[: min(_MOST_GUESSED, tokens_left - 1)]:
        token = checked_token(given, vocab_size, "likely")
        if not allows(mask, token):
            break
        matcher.accept(token)
        accepted += 1
        if matcher.is_finished:
            break
        following = matcher.next(tokens_left - accepted)
        if isinstance(following, Forced):
            break
        found.append(Choice(mask, token))
        mask = checked_mask(following.mask, vocab_size)
    if accepted:
        matcher.rollback(accepted)
    return [*found, Choice(mask)]
