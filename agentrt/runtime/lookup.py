"""Prompt lookup: how a text may go on, seen where its last tokens came before.

Answers repeat: the text they are about, their own lists and phrases. Where the last tokens stand
earlier in the prompt or the output, those that followed them there are a draft of what follows
here. It costs a search, no second model, and the model checks it as it checks every guess
(`agentrt.runtime.choices`). The idea is Saxena's "Prompt Lookup Decoding" (2023), of speculative
decoding (Leviathan et al., ICML 2023) without a draft model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from array import array
    from collections.abc import Callable, Iterator

RATES = (0.0, 0.0, 0.45, 0.55, 0.65, 0.7, 0.75, 0.8, 0.95)
"""How often the next token is the one that followed before, by how many tokens agree before it.

A little below what was counted on answers of the provided model, greedy and at temperature 0.8, to
problems, essays and texts to be rewritten.
"""
_DEAREST = 0.5
"""The price past which nothing is guessed: only what is nearly certain would be worth it then, and
counted over whole answers six sequences at once lost by it what four won."""
_SHORTEST, _LONGEST = 2, len(RATES) - 1
_BYTES = 4  # of a token
_PLACES = 16  # earlier places that are compared, the latest first
_LOOKS = 8 * _PLACES  # at the same bytes, most of which are places unless tokens are alike
_FIRST_REACH, _FARTHEST = 4, 32  # tokens


def price_of_a_row(sequences: int, spare_rows: int) -> float:
    """What a step pays for one more row, as a share of what it pays for a token without guesses.

    A step of n rows takes as long as `spare_rows` + n of them do where nothing else is to be
    waited for. A guess that comes true less often than this slows the others down.
    """
    return sequences / (sequences + spare_rows)


class Lookup:
    """Drafts for one request; it reaches further where its drafts come true."""

    def __init__(self) -> None:
        self._reach = _FIRST_REACH

    def draft(self, written: Callable[[], array[int]], row_price: float, most: int) -> list[int]:
        """At most `most` tokens that may follow those `written`, as C ints: those worth their
        price. Where none can be, what is written is not asked for."""
        if most < 1 or row_price > _DEAREST:
            return []
        tokens = written()
        length, place = _longest_match(tokens)
        if place is None:
            return []
        count, worth = 0, RATES[length]
        while count < min(self._reach, most) and worth >= row_price:
            count += 1
            worth *= RATES[min(length + count, _LONGEST)]
        found = tokens[place : place + count].tolist()
        return (found * count)[:count]  # a loop goes round again

    def came_true(self) -> None:
        """All of a draft was chosen."""
        self._reach = min(2 * self._reach, _FARTHEST)

    def went_wrong(self) -> None:
        """A token of a draft was not chosen."""
        self._reach = max(1, self._reach // 2)


def _longest_match(tokens: array[int]) -> tuple[int, int | None]:
    """Where the last tokens came before, at least two of them: how many agree, and the place after.

    Of equally long ones the latest. Tokens are looked for as bytes, which takes one call a place.
    """
    longest, place = 0, None
    if len(tokens) <= _SHORTEST:
        return longest, place
    text = tokens.tobytes()
    for start in _earlier_places(text):
        agree = _SHORTEST
        while agree < _LONGEST and (before := start - (agree - 1) * _BYTES) >= 0:
            back = len(text) - (agree + 1) * _BYTES
            if text[before : before + _BYTES] != text[back : back + _BYTES]:
                break
            agree += 1
        if agree > longest:
            longest, place = agree, start // _BYTES + _SHORTEST
        if longest == _LONGEST:
            break
    return longest, place


def _earlier_places(text: bytes) -> Iterator[int]:
    """Where in the bytes of tokens the last two of them came before, the latest first."""
    last = text[-_SHORTEST * _BYTES :]
    stop, found = len(text) - 1, 0
    for _ in range(_LOOKS):
        start = text.rfind(last, 0, stop)
        if start < 0 or found == _PLACES:
            return
        if start % _BYTES == 0:
            found += 1
            yield start
        stop = start + len(last) - 1
