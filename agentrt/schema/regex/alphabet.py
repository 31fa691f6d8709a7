"""Code points grouped into the fewest classes that a set of character sets can tell apart."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, NamedTuple

from agentrt.schema.charset import MAX_CODE_POINT, CharSet

if TYPE_CHECKING:
    from collections.abc import Iterable


class Alphabet(NamedTuple):
    """`starts[i]` is where interval i begins, `classes[i]` the class of its code points."""

    starts: tuple[int, ...]
    classes: tuple[int, ...]
    size: int

    def class_of(self, code_point: int) -> int:
        return self.classes[bisect_right(self.starts, code_point) - 1]

    def samples(self) -> list[int]:
        """A code point of each class."""
        out = [0] * self.size
        for start, cls in zip(self.starts, self.classes, strict=True):
            out[cls] = start
        return out

    def classes_within(self, lo: int, hi: int) -> set[int]:
        first = bisect_right(self.starts, lo) - 1
        last = bisect_right(self.starts, hi)
        return set(self.classes[first:last])


TRIVIAL = Alphabet((0,), (0,), 1)


def alphabet(sets: Iterable[CharSet]) -> Alphabet:
    """The classes that tell members of each set from the rest."""
    changes: dict[int, int] = {0: 0}
    for bit, given in enumerate(set(sets)):
        for lo, hi in given.intervals:
            changes[lo] = changes.get(lo, 0) ^ (1 << bit)
            if hi < MAX_CODE_POINT:
                changes[hi + 1] = changes.get(hi + 1, 0) ^ (1 << bit)
    return _numbered(changes)


def _numbered(changes: dict[int, int]) -> Alphabet:
    numbers: dict[int, int] = {}
    starts: list[int] = []
    classes: list[int] = []
    signature = 0
    for start in sorted(changes):
        signature ^= changes[start]
        if 0xD800 <= start < 0xE000:
            # no text holds a surrogate: they go with what is before them, not into a class that
            # would seem to offer a way on
            continue
        cls = numbers.setdefault(signature, len(numbers))
        if not classes or classes[-1] != cls:
            starts.append(start)
            classes.append(cls)
    return Alphabet(tuple(starts), tuple(classes), len(numbers))


def common(a: Alphabet, b: Alphabet) -> tuple[Alphabet, list[tuple[int, int]]]:
    """An alphabet that refines both, and for each of its classes the class of a and of b."""
    if a == b:
        return a, [(i, i) for i in range(a.size)]
    numbers: dict[tuple[int, int], int] = {}
    starts: list[int] = []
    classes: list[int] = []
    for start in sorted({*a.starts, *b.starts}):
        pair = (a.class_of(start), b.class_of(start))
        cls = numbers.setdefault(pair, len(numbers))
        if not classes or classes[-1] != cls:
            starts.append(start)
            classes.append(cls)
    return Alphabet(tuple(starts), tuple(classes), len(numbers)), list(numbers)
