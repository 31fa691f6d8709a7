"""The numbers of a set that so many decimal places suffice for, counted in a small unit."""

from __future__ import annotations

from fractions import Fraction
from itertools import islice
from math import ceil, floor, lcm
from typing import TYPE_CHECKING

from agentrt.schema.values.numbers import Numbers

if TYPE_CHECKING:
    from collections.abc import Iterator

_SEARCH_LIMIT = 10_000


class Lattice:
    """The multiples of 10**-places in a set; `unit` is how many of its units make one."""

    def __init__(self, numbers: Numbers, places: int) -> None:
        decimals = numbers.intersection(Numbers(multiple=1 / Fraction(10) ** places))
        assert decimals.multiple is not None
        lo, hi, step = decimals.lo, decimals.hi, decimals.multiple
        told = [value.denominator for value in (lo, hi) if value is not None]
        self.unit = lcm(10 ** max(places, 0), step.denominator, *told)
        self._step = int(step * self.unit)
        self._lo = None if lo is None else ceil(lo * self.unit) + decimals.lo_open
        self._hi = None if hi is None else floor(hi * self.unit) - decimals.hi_open
        self._divides = any((step / m).denominator == 1 for m in decimals.not_multiples)
        self._has_gaps = bool(decimals.not_multiples or decimals.excluded)
        self._numbers = decimals

    @property
    def is_empty(self) -> bool:
        """Whether there is none at all, of a set with a bound."""
        return next(self._between(self._lo, self._hi), None) is None

    def some(self, digits: int, shift: int, *, negative: bool) -> int | None:
        """A number, in units, that is written with these digits, then others: they count
        10**shift each."""
        width = self.unit * 10**shift if shift >= 0 else self.unit // 10**-shift
        low = digits * width
        high = low + width - 1
        if negative:
            low, high = -high, -low
        if self._lo is not None and low < self._lo:
            low = self._lo
        if self._hi is not None and high > self._hi:
            high = self._hi
        return next(self._between(low, high), None)

    def _between(self, low: int | None, high: int | None) -> Iterator[int]:
        if self._divides:
            return
        step = self._step
        if low is None:
            # downwards from the bound that there is
            last = (0 if high is None else high) // step * step
            found = range(last, last - _SEARCH_LIMIT * step, -step)
        else:
            first = -(-low // step) * step
            last = first + _SEARCH_LIMIT * step if high is None else high
            found = range(first, last + 1, step)
        if not self._has_gaps:
            yield from found
            return
        for value in islice(found, _SEARCH_LIMIT):
            if self._numbers.contains(Fraction(value, self.unit)):
                yield value
