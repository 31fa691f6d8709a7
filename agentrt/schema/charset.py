"""Sets of Unicode scalar values, as sorted disjoint intervals.

Surrogates are in no set: UTF-8 text cannot hold them, and a JSON escape that stands for one alone
is no character.
"""

from __future__ import annotations

import sys
from bisect import bisect_right
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_CODE_POINT = sys.maxunicode
_SURROGATES = (0xD800, 0xDFFF)

Interval = tuple[int, int]


class CharSet(NamedTuple):
    """Inclusive intervals in rising order, none touching the next."""

    intervals: tuple[Interval, ...]

    def __contains__(self, code_point: object) -> bool:
        if not isinstance(code_point, int):
            return False
        i = bisect_right(self.intervals, (code_point, MAX_CODE_POINT)) - 1
        return i >= 0 and code_point <= self.intervals[i][1]

    def union(self, other: CharSet) -> CharSet:
        return charset([*self.intervals, *other.intervals])

    def intersection(self, other: CharSet) -> CharSet:
        out: list[Interval] = []
        i = j = 0
        a, b = self.intervals, other.intervals
        while i < len(a) and j < len(b):
            lo, hi = max(a[i][0], b[j][0]), min(a[i][1], b[j][1])
            if lo <= hi:
                out.append((lo, hi))
            if a[i][1] < b[j][1]:
                i += 1
            else:
                j += 1
        return CharSet(tuple(out))

    def complement(self) -> CharSet:
        out: list[Interval] = []
        start = 0
        for lo, hi in self.intervals:
            if lo > start:
                out.append((start, lo - 1))
            start = hi + 1
        if start <= MAX_CODE_POINT:
            out.append((start, MAX_CODE_POINT))
        return charset(out)

    @property
    def size(self) -> int:
        return sum(hi - lo + 1 for lo, hi in self.intervals)


def _without_surrogates(intervals: Iterable[Interval]) -> Iterable[Interval]:
    first, last = _SURROGATES
    for lo, hi in intervals:
        if hi < first or lo > last:
            yield lo, hi
            continue
        if lo < first:
            yield lo, first - 1
        if hi > last:
            yield last + 1, hi


def charset(intervals: Iterable[Interval]) -> CharSet:
    """The set that the intervals, in any order and overlapping or not, make together."""
    merged: list[Interval] = []
    for lo, hi in sorted(_without_surrogates(intervals)):
        if merged and lo <= merged[-1][1] + 1:
            if hi > merged[-1][1]:
                merged[-1] = (merged[-1][0], hi)
        else:
            merged.append((lo, hi))
    return CharSet(tuple(merged))


def chars(text: str) -> CharSet:
    """The set of the characters of a text."""
    return charset((ord(c), ord(c)) for c in text)


NOTHING = CharSet(())
ANY = charset([(0, MAX_CODE_POINT)])
