"""The spans of a text that begin and end at word boundaries, as an automaton.

A state is the set of places in the text that what was read may have come to: subset construction
over the text's positions. At every depth the sets share out the starts among them, so that the work
is at most the number of starts times the longest span, and usually a few times the text's length.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

from agentrt.schema.charset import chars
from agentrt.schema.limits import spend
from agentrt.schema.regex.alphabet import alphabet
from agentrt.schema.regex.dfa import Dfa
from agentrt.schema.regex.sparse import SparseRows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentrt.schema.regex.sparse import Edges

# Scripts that put no spaces between words: Thai to Lao, Burmese, Khmer, kana, Han.
_SPACELESS = re.compile(
    r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\U00020000-\U0003ffff]"
)
_JOINER = "\u200d"

_State = tuple[frozenset[int], int]


def as_one_line(text: str) -> str:
    """The text with every run of white space as one space, and none at its ends."""
    return " ".join(text.split())


@lru_cache(maxsize=4096)
def _are_joined(a: str, b: str) -> bool:
    """Whether two neighbouring characters are of one word."""
    if unicodedata.category(b).startswith("M") or _JOINER in (a, b):
        return True
    return _is_of_word(a) and _is_of_word(b) and not (_SPACELESS.match(a) or _SPACELESS.match(b))


def _is_of_word(character: str) -> bool:
    return character.isalnum() or character == "_" or unicodedata.category(character)[0] == "M"


def boundaries(line: str) -> list[bool]:
    """For each place in a line, from before its first character to after its last, whether no word
    goes on across it."""
    inner = (not _are_joined(a, b) for a, b in pairwise(line))
    return [True, *inner, True] if line else [True]


def _may_start(line: str, place: int) -> bool:
    """Not at a space, nor at a mark that ends what is before it, as a full stop does."""
    is_mark = line[place] in ".,;:!?" or unicodedata.category(line[place]) in ("Pe", "Pf")
    return line[place] != " " and not (is_mark and place and line[place - 1] != " ")


def span_automaton(line: str, *, least: int, most: int) -> Dfa:
    """The automaton of a line's spans of at least `least` characters, right up to `most`.

    A span begins and ends at a word boundary, not with a space, and begins with no mark that ends
    the word before. Longer ones than `most` may be
    among them: the bound on lengths is the caller's to keep.
    """
    edge = boundaries(line)
    starts = frozenset(p for p in range(len(line)) if edge[p] and _may_start(line, p))
    ends = frozenset(p for p in range(1, len(line) + 1) if edge[p] and line[p - 1] != " ")
    symbols = alphabet(chars(c) for c in dict.fromkeys(line))
    classes = {c: symbols.class_of(ord(c)) for c in dict.fromkeys(line)}
    first: _State = (starts, 0)
    numbers: dict[_State, int] = {first: 0}
    edges: list[Edges] = []
    level, depth = [first], 0
    while level:
        following: list[_State] = []
        for places, read in level:
            spend()
            out: list[tuple[int, int]] = []
            for c, targets in _steps(line, places) if depth < most else ():
                target = (targets, min(read + 1, least))
                number = numbers.get(target)
                if number is None:
                    number = numbers[target] = len(numbers)
                    following.append(target)
                out.append((classes[c], number))
            edges.append(tuple(out))
        level, depth = following, depth + 1
    accepting = {n for (places, read), n in numbers.items() if read >= least and places & ends}
    dead = len(numbers)
    return Dfa(symbols, SparseRows((*edges, ()), symbols.size, dead), frozenset(accepting))


def _steps(line: str, places: frozenset[int]) -> Iterator[tuple[str, frozenset[int]]]:
    """Each character that follows some of the places, with the places after it."""
    if len(places) == 1:
        (place,) = places
        if place < len(line):
            yield line[place], frozenset((place + 1,))
        return
    found: dict[str, list[int]] = {}
    for place in places:
        if place < len(line):
            found.setdefault(line[place], []).append(place + 1)
    for c, targets in found.items():
        yield c, frozenset(targets)
