"""Numbers out of a weak model: by how likely it finds each answer, not by which one it writes.

A sampled digit is one draw and greedy decoding only the mode. `select` gives the whole
distribution, whose mean is finer than the scale and needs no sampling (Liu et al. 2023, G-Eval,
arXiv:2303.16634, section 2.1).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agentrt.errors import InvalidRequest
from agentrt.programs.arguments import wrong

if TYPE_CHECKING:
    from agentrt.generation import Selection
    from agentrt.programs.state import State


def probabilities(selection: Selection) -> dict[str, float]:
    """How probable each choice is if it is one of them: its likelihood, by the sum of all.

    Exact where no choice begins another.
    """
    totals = [
        math.fsum(token.logprob for token in choice.logprobs if token.logprob is not None)
        for choice in selection.choices
    ]
    most = max(totals)
    weights = [math.exp(total - most) for total in totals]
    return {
        choice.text: weight / math.fsum(weights)
        for choice, weight in zip(selection.choices, weights, strict=True)
    }


@dataclass(frozen=True, slots=True)
class Rating:
    """A mark on a scale: the expectation over `shares`, the probability of every mark."""

    score: float
    shares: dict[int, float]

    @property
    def mode(self) -> int:
        """The likeliest mark."""
        return max(self.shares, key=lambda mark: self.shares[mark])


def check_scale(low: Any, high: Any) -> None:
    """Raises InvalidRequest for a scale of marks that has no steps."""
    for name, given in (("low", low), ("high", high)):
        if not isinstance(given, int) or isinstance(given, bool):
            raise wrong(name, given, "a whole number")
    if low >= high:
        raise InvalidRequest(f"the scale is {low} to {high}; it goes from a lower mark up")


async def rate(s: State, question: str, *, low: int = 1, high: int = 10) -> Rating:
    """The mark, from `low` to `high`, that the model gives to what was said; a turn of its own.

    Where one mark begins another (1 and 10), all are scored with a full stop after them. Raises
    InvalidRequest for a scale without steps, and what `State.select` raises.
    """
    check_scale(low, high)
    marks = [str(mark) for mark in range(low, high + 1)]
    end = "." if any(a != b and b.startswith(a) for a in marks for b in marks) else ""
    s.user(f"{question} Answer with a number from {low} to {high}.")
    found = await chances(s, [mark + end for mark in marks])
    shares = {int(mark): found[mark + end] for mark in marks}
    return Rating(math.fsum(mark * share for mark, share in shares.items()), shares)


async def chance(s: State, question: str) -> float:
    """The probability, among Yes and No, that the model answers yes; a turn of its own."""
    s.user(f"{question} Answer Yes or No.")
    return (await chances(s, ["Yes", "No"]))["Yes"]


async def chances(s: State, choices: list[str]) -> dict[str, float]:
    """How probable each choice is as what comes next; the likeliest is then said."""
    await s.select(choices, name="_chances")
    selection = s.results.pop("_chances").selection
    assert selection is not None
    return probabilities(selection)
