"""Random regexes in Python's syntax, and texts to try them on."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from random import Random

LETTERS = "abA1_é\n !ſ"
_CHARACTERS = [
    *"abA1é", " ", ".", r"\w", r"\W", r"\d", r"\s", r"\S", "[ab]", "[^a]", "[^é\n]", r"[\Wb]", "K",
]  # fmt: skip
_PLACES = ["^", "$", r"\b", r"\B", r"\A", r"\Z"]
_REPEATS = ["*", "+", "?", "{2}", "{0,2}", "{1,}", "*?", "+?", "??", "{1,3}?", "*+", "?+", "++"]
_FLAGS = ["i", "m", "s", "a", "im", "ms", "ai"]


def pattern(random: Random, depth: int = 3) -> str:
    """A regex; not all are ones that Python takes."""
    kind = random.random()
    if depth == 0 or kind < 0.2:
        return random.choice(_CHARACTERS)
    if kind < 0.3:
        return random.choice(_PLACES)
    inner = pattern(random, depth - 1)
    if kind < 0.5:
        return inner + pattern(random, depth - 1)
    if kind < 0.58:
        return f"(?:{inner}|{pattern(random, depth - 1)})"
    if kind < 0.74:
        return f"(?:{inner}){random.choice(_REPEATS)}"
    if kind < 0.78:
        return random.choice(_CHARACTERS) + random.choice(_REPEATS)
    if kind < 0.92:
        return f"({random.choice(['?=', '?!', '?<=', '?<!'])}{inner})"
    return f"(?{random.choice(_FLAGS)}:{inner})"


def text(random: Random) -> str:
    return "".join(random.choices(LETTERS, k=random.randint(0, 5)))
