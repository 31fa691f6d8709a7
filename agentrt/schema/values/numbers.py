"""Sets of numbers: an interval, what they are multiples of, and what they are not.

Numbers are exact (rationals); JSON's 1, 1.0 and 10e-1 are one number.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import islice
from math import ceil, floor, gcd, lcm
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_SEARCH_LIMIT = 10_000


@dataclass(frozen=True, slots=True)
class Numbers:
    """The numbers of an interval that are multiples of `multiple` (None: any), of none of
    `not_multiples`, and not among `excluded`. With `points`, exactly those instead."""

    lo: Fraction | None = None
    lo_open: bool = False
    hi: Fraction | None = None
    hi_open: bool = False
    multiple: Fraction | None = None
    not_multiples: frozenset[Fraction] = frozenset()
    excluded: frozenset[Fraction] = frozenset()
    points: frozenset[Fraction] | None = None

    @property
    def whole_range(self) -> tuple[int | None, int | None] | None:
        """The bounds of a set of all the integers between two, None for a side without; None for
        any other set."""
        plain = self.multiple == 1 and not (self.not_multiples or self.excluded)
        if self.points is not None or not plain:
            return None
        lo = None if self.lo is None else (floor(self.lo) + 1 if self.lo_open else ceil(self.lo))
        hi = None if self.hi is None else (ceil(self.hi) - 1 if self.hi_open else floor(self.hi))
        return lo, hi

    def contains(self, value: Fraction) -> bool:
        if self.points is not None:
            return value in self.points
        return (
            self.above_low(value)
            and self.below_high(value)
            and (self.multiple is None or (value / self.multiple).denominator == 1)
            and all((value / m).denominator != 1 for m in self.not_multiples)
            and value not in self.excluded
        )

    def above_low(self, value: Fraction) -> bool:
        return self.lo is None or value > self.lo or (value == self.lo and not self.lo_open)

    def below_high(self, value: Fraction) -> bool:
        return self.hi is None or value < self.hi or (value == self.hi and not self.hi_open)

    def intersection(self, other: Numbers) -> Numbers:
        if self.points is not None:
            return of(v for v in self.points if other.contains(v))
        if other.points is not None:
            return other.intersection(self)
        lo, lo_open = _tighter((self.lo, self.lo_open), (other.lo, other.lo_open), sign=1)
        hi, hi_open = _tighter((self.hi, self.hi_open), (other.hi, other.hi_open), sign=-1)
        return Numbers(
            lo,
            lo_open,
            hi,
            hi_open,
            _common_multiple(self.multiple, other.multiple),
            self.not_multiples | other.not_multiples,
            self.excluded | other.excluded,
        ).tidy()

    def tidy(self) -> Numbers:
        """The same set without what cannot matter, so that equal sets are more often equal."""
        if self.points is not None:
            return self
        loose = replace(self, excluded=frozenset())
        excluded = frozenset(v for v in self.excluded if loose.contains(v))
        return replace(self, excluded=excluded)

    def complement(self) -> list[Numbers]:
        if self.points is not None:
            return [Numbers(excluded=self.points)] if self.points else [EVERY_NUMBER]
        out: list[Numbers] = []
        if self.lo is not None:
            out.append(Numbers(hi=self.lo, hi_open=not self.lo_open))
        if self.hi is not None:
            out.append(Numbers(lo=self.hi, lo_open=not self.hi_open))
        if self.multiple is not None:
            out.append(Numbers(not_multiples=frozenset({self.multiple})))
        out.extend(Numbers(multiple=m) for m in self.not_multiples)
        if self.excluded:
            out.append(of(self.excluded))
        return out

    @property
    def is_empty(self) -> bool:
        if self.points is not None:
            return not self.points
        return not self.meets(self.lo, self.lo_open, self.hi, self.hi_open)

    def meets(self, lo: Fraction | None, lo_open: bool, hi: Fraction | None, hi_open: bool) -> bool:
        """Whether some number of the set lies in the interval given."""
        if self.points is not None:
            window = Numbers(lo, lo_open, hi, hi_open)
            return any(window.contains(v) for v in self.points)
        lo, lo_open = _tighter((self.lo, self.lo_open), (lo, lo_open), sign=1)
        hi, hi_open = _tighter((self.hi, self.hi_open), (hi, hi_open), sign=-1)
        if lo is not None and hi is not None and (lo > hi or (lo == hi and (lo_open or hi_open))):
            return False
        if self.multiple is None:
            # an interval that is no point holds decimals that are no multiple of anything given
            return lo != hi or lo is None or self.contains(lo)
        if any((self.multiple / m).denominator == 1 for m in self.not_multiples):
            return False
        window = Numbers(lo, lo_open, hi, hi_open, multiple=self.multiple)
        return any(self.contains(v) for v in islice(window.in_order(), _SEARCH_LIMIT))

    def in_order(self) -> Iterator[Fraction]:
        """The multiples in the interval, from the end that is finite, least magnitude first."""
        step = self.multiple
        assert step is not None
        if self.lo is None and self.hi is not None:
            value, sign = floor(self.hi / step) * step, -1
        else:
            value, sign = (ceil(self.lo / step) * step if self.lo is not None else step * 0), 1
        if not (self.above_low(value) and self.below_high(value)):
            value += sign * step
        while self.above_low(value) and self.below_high(value):
            yield value
            value += sign * step

    def count(self, limit: int) -> int:
        """How many numbers there are, or `limit` if that many or more."""
        if self.points is not None:
            return min(limit, len(self.points))
        if self.lo is not None and self.lo == self.hi:
            return int(not self.is_empty)
        if self.multiple is None or self.lo is None or self.hi is None:
            return 0 if self.is_empty else limit
        if not self.not_multiples:
            ends = replace(self, excluded=frozenset[Fraction]())
            left_out = sum(ends.contains(v) for v in self.excluded)
            return min(limit, self._multiples_between(self.lo, self.hi) - left_out)
        return sum(1 for _ in islice((v for v in self.in_order() if self.contains(v)), limit))

    def _multiples_between(self, lo: Fraction, hi: Fraction) -> int:
        assert self.multiple is not None
        first, last = lo / self.multiple, hi / self.multiple
        least = floor(first) + 1 if self.lo_open else ceil(first)
        most = ceil(last) - 1 if self.hi_open else floor(last)
        return max(0, most - least + 1)


def _tighter(
    a: tuple[Fraction | None, bool], b: tuple[Fraction | None, bool], *, sign: int
) -> tuple[Fraction | None, bool]:
    if a[0] is None or b[0] is None:
        return b if a[0] is None else a
    if a[0] == b[0]:
        return a[0], a[1] or b[1]
    return a if (a[0] > b[0]) == (sign > 0) else b


def _common_multiple(a: Fraction | None, b: Fraction | None) -> Fraction | None:
    if a is None or b is None:
        return b if a is None else a
    return Fraction(lcm(a.numerator, b.numerator), gcd(a.denominator, b.denominator))


def of(values: Iterable[Fraction]) -> Numbers:
    """Exactly these numbers."""
    return Numbers(points=frozenset(values))


EVERY_NUMBER = Numbers()
INTEGERS = Numbers(multiple=Fraction(1))


def is_integral(numbers: Numbers) -> bool:
    """Whether the set is told to hold integers only."""
    return numbers.multiple is not None and numbers.multiple.denominator == 1
