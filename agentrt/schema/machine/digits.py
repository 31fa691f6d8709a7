"""Sets of numbers given by bounds and multiples, as text.

A state is what was read. Whether it can still become a number of the set, within the digits that
may be written, is exact arithmetic, as is what completes it: plain decimals of at most p places are
the multiples of 10**-p, and those that begin alike are an interval.
"""

from __future__ import annotations

from bisect import bisect_left
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from agentrt.schema.cache import Cache
from agentrt.schema.machine.exponents import (
    EXPONENT_DIGITS,
    LARGEST,
    exponent_bounds,
    exponents,
    magnitudes,
)
from agentrt.schema.machine.lattice import Lattice
from agentrt.schema.values.numbers import Numbers, is_integral

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_MANTISSA = 16
"""Digits after the point in scientific notation, as many as a float needs."""
_ZEROS = 4
_SHORT = 4
_MOST_PLACES = 1200
_MOST_KEPT = 50_000
_NUMERIC = frozenset(b"0123456789+-.eE")


class Digits(NamedTuple):
    """What was read: sign, digits before the point, after it (None: no point yet), exponent (None:
    none yet, else its sign and digits)."""

    negative: bool
    whole: str
    part: str | None
    exponent: str | None

    @property
    def digits(self) -> int:
        return int((self.whole or "0") + (self.part or ""))

    @property
    def mantissa(self) -> Fraction:
        value = Fraction(self.digits, 10 ** len(self.part or ""))
        return -value if self.negative else value

    @property
    def is_scientific(self) -> bool:
        """Whether it is one digit before the point and few behind it, as `repr` writes floats."""
        return len(self.whole) == 1 and self.whole != "0" and len(self.part or "") <= _MANTISSA

    def then(self, c: str) -> Digits | None:
        """JSON's grammar of numbers (RFC 8259, section 6)."""
        negative, whole, part, exponent = self
        if exponent is not None:
            if c in "+-":
                return self._replace(exponent=c) if exponent == "" else None
            return self._replace(exponent=exponent + c) if c.isdigit() else None
        if c.isdigit() and c.isascii():
            if part is not None:
                return self._replace(part=part + c)
            return None if whole == "0" else self._replace(whole=whole + c)
        if c == "-":
            return None if negative or whole else self._replace(negative=True)
        if c == ".":
            return self._replace(part="") if whole and part is None else None
        if c in "eE":
            return self._replace(exponent="") if whole and part != "" else None
        return None


_START = Digits(False, "", None, None)


class NumberText:
    """The texts of a set: at most `max_digits` before the point, `max_part` after it, more where
    the set has no others.

    `plain`: no exponents, and integers without a fraction.
    """

    def __init__(self, numbers: Numbers, max_digits: int, *, plain: bool) -> None:
        self.numbers = numbers
        self.plain = plain
        limits = (numbers.lo, numbers.hi, numbers.multiple)
        self.max_digits = max(max_digits, *map(_whole_digits, limits))
        self.max_part = 0 if is_integral(numbers) else max_digits
        if numbers.multiple is not None and not is_integral(numbers):
            self.max_part = min(max_digits, _places(numbers.multiple) + 4)
        self._known: Cache[tuple[Digits, int], Digits | None] = Cache(_MOST_KEPT)
        self._ends: Cache[Digits, str | None] = Cache(_MOST_KEPT)
        self._bounds: Cache[Fraction, tuple[int, int]] = Cache(_MOST_KEPT)
        self._grids: dict[int, Lattice] = {}
        if not is_integral(numbers) and not self.viable(_START):
            self._known.clear()
            places = range(max_digits, _MOST_PLACES)
            self.max_part = max_digits + bisect_left(
                places, True, key=lambda p: not self._grid(p).is_empty
            )

    def start(self) -> Digits:
        return _START

    def is_closed(self, state: object) -> bool:
        """Never: digits may always seem to go on."""
        del state
        return False

    def step(self, state: object, byte: int) -> Digits | None:
        assert isinstance(state, Digits)
        key = (state, byte)
        if byte not in _NUMERIC:
            return None
        try:
            return self._known[key]
        except KeyError:
            following = state.then(chr(byte))
            ok = following is not None and self.viable(following)
            return self._known.keep(key, following if ok else None)

    def may_end(self, state: object) -> bool:
        assert isinstance(state, Digits)
        if not state.whole or state.part == "" or state.exponent in ("", "+", "-"):
            return False
        value = state.mantissa
        if state.exponent is not None:
            value *= Fraction(10) ** int(state.exponent)
        return self.numbers.contains(value)

    def viable(self, state: Digits) -> bool:
        """Whether the text so far can be completed to a number of the set."""
        if state.exponent is not None:
            return not self.plain and self._exponent_end(state) is not None
        if not state.whole:
            return any(True for _ in self._openings(state))
        return self._plain_viable(state) or self._scientific_viable(state)

    def end(self, state: Digits) -> str | None:
        """A short text that completes the number; None where there is none."""
        try:
            return self._ends[state]
        except KeyError:
            return self._ends.keep(state, self._end(state))

    @property
    def longest_end(self) -> int:
        """No `end` of what can be completed is longer, in bytes."""
        numbers = self.numbers
        told = [numbers.lo, numbers.hi, numbers.multiple, *numbers.not_multiples, *numbers.excluded]
        # past what the bounds and multiples are written with, one more digit is enough
        digits, places = max(map(_whole_digits, told)), max(map(_places, told))
        scientific = _MANTISSA + EXPONENT_DIGITS + 4
        return min(digits + places, self.max_digits + self.max_part) + scientific

    def _end(self, state: Digits) -> str | None:
        if self.may_end(state):
            return ""
        if state.exponent is not None:
            return self._exponent_end(state)
        if not state.whole:
            return _shorter(c + (self.end(s) or "") for c, s in self._openings(state))
        ways = [self._plain_end(state)]
        if not self.plain:
            ways.append(self._exponent_end(state))
        best = _shorter(way for way in ways if way is not None)
        if best is None or len(best) > _SHORT:
            ways = [best, self._scientific_end(state)]
        return _shorter(way for way in ways if way is not None)

    def _openings(self, state: Digits) -> Iterable[tuple[str, Digits]]:
        for c in "0123456789-":
            following = self.step(state, ord(c))
            if following is not None:
                yield c, following

    # -- plain decimals ------------------------------------------------------------------------

    def _plain_viable(self, state: Digits) -> bool:
        grid, (digits, given) = self._grid(self.max_part), self._read(state)
        return any(
            grid.some(digits, more - given, negative=state.negative) is not None
            for more in self._more(state)
        )

    def _plain_end(self, state: Digits) -> str | None:
        best: str | None = None
        read, (digits, given) = len(state.whole), self._read(state)
        for more in self._more(state):
            if best is not None and more >= len(best):
                break
            found = self._least(
                range(given, self.max_part + 1), digits, more - given, negative=state.negative
            )
            if found is None:
                continue
            whole, part = found
            text = whole[read:] + _part_end(state, part[given:])
            best = text if best is None or len(text) < len(best) else best
        return best

    def _more(self, state: Digits) -> range:
        """How many further digits before the point there may be; none at all where what was read is
        no plain decimal of the set."""
        negative, whole, part, _ = state
        integral = self.max_part == 0
        if part is not None:
            if integral:
                zeros = part.strip("0") == "" and len(part) <= _ZEROS
                return range(int(zeros and not self.plain))
            return range(int(len(part) <= self.max_part and len(whole) <= self.max_digits))
        if whole == "0":
            return range(int(not (self.plain and negative and integral)))
        near, far = magnitudes(self.numbers, negative=negative)
        least = 0 if near is None or near < 1 else len(str(int(near)))
        most = self.max_digits if far is None else len(str(int(far))) if far >= 0 else 0
        return range(max(least - len(whole), 0), min(most, self.max_digits) - len(whole) + 1)

    def _grid(self, places: int) -> Lattice:
        found = self._grids.get(places)
        if found is None:
            found = self._grids[places] = Lattice(self.numbers, places)
        return found

    def _read(self, state: Digits) -> tuple[int, int]:
        """The digits read, as a number, and how many are after the point; zeros after that of an
        integer say nothing."""
        if self.max_part == 0:
            return int(state.whole), 0
        return state.digits, len(state.part or "")

    def _least(
        self, places: range, digits: int, shift: int, *, negative: bool
    ) -> tuple[str, str] | None:
        """The digits, before the point and after it, of a number that begins so, with the fewest
        places that do."""

        def some(p: int) -> int | None:
            return self._grid(p).some(digits, shift, negative=negative)

        at = bisect_left(places, True, key=lambda p: some(p) is not None)
        if at == len(places):
            return None
        found = some(places[at])
        assert found is not None
        return _decimal(abs(found), self._grid(places[at]).unit, places[at])

    # -- with an exponent ----------------------------------------------------------------------

    def _exponent_end(self, state: Digits) -> str | None:
        if not state.whole or state.part == "":
            return None
        value = state.mantissa
        bounds = self._bounds.get(value)
        if bounds is None:
            bounds = self._bounds.keep(value, exponent_bounds(self.numbers, value))
        rest = next(exponents(self.numbers, value, state.exponent or "", bounds), None)
        return "e" + rest if rest is not None and state.exponent is None else rest

    def _scientific_viable(self, state: Digits) -> bool:
        """Whether further digits and some exponent fit, as `repr` writes floats."""
        if self.numbers.multiple is not None:
            return self._multiple_end(state) is not None
        digits, given = state.digits, len(state.part or "")
        return any(
            self._grid(_MANTISSA - e).some(digits, e - given, negative=state.negative) is not None
            for e in self._scales(state)
        )

    def _scientific_end(self, state: Digits) -> str | None:
        if self.numbers.multiple is not None:
            return self._multiple_end(state)
        given = len(state.part or "")
        ways: list[str] = []
        for e in self._scales(state):
            found = self._least(
                range(given - e, _MANTISSA - e + 1),
                state.digits,
                e - given,
                negative=state.negative,
            )
            if found is not None:
                digits = "".join(found).lstrip("0")
                ways.append(f"{_part_end(state, digits[1 + given :])}e{e}")
        return _shorter(ways)

    def _scales(self, state: Digits) -> Iterator[int]:
        """The largest exponent that what was read leaves, and the next: where neither fits, none
        does."""
        if self.plain or not state.is_scientific:
            return
        _, most = exponent_bounds(self.numbers, state.mantissa)
        for e in (most, most - 1):
            if e >= -LARGEST:
                yield e

    def _multiple_end(self, state: Digits) -> str | None:
        """Digits of a multiple, which a large exponent makes of them."""
        _, far = magnitudes(self.numbers, negative=state.negative)
        if self.plain or not state.is_scientific or far is not None or self.numbers.not_multiples:
            # of sets with bounds, what a float spells so is written plainly
            return None
        assert self.numbers.multiple is not None
        step, part = _without_tens(self.numbers.multiple.numerator), state.part or ""
        for more in range(_MANTISSA - len(part) + 1):
            least = state.digits * 10**more
            digits = -(-least // step) * step
            if digits < least + 10**more:
                rest = _part_end(state, str(digits)[1 + len(part) :])
                written = (part + rest).removeprefix(".")
                end = self._exponent_end(state._replace(part=written or None))
                if end is not None:
                    return rest + end
        return None


def _decimal(value: int, unit: int, places: int) -> tuple[str, str]:
    """The digits before and after the point; where the places are negative, without the zeros."""
    if places <= 0:
        return str(value // (unit * 10**-places)), ""
    digits = str(value // (unit // 10**places)).zfill(places + 1)
    return digits[:-places], digits[-places:]


def _part_end(state: Digits, digits: str) -> str:
    """Digits after the point as they follow what was read, the point too where there is none."""
    if state.part is None:
        return "." * bool(digits) + digits
    return digits or "0" * (not state.part)


def _shorter(texts: Iterable[str]) -> str | None:
    return min(texts, key=lambda text: (len(text), text), default=None)


def _without_tens(number: int) -> int:
    for prime in (2, 5):
        while number % prime == 0:
            number //= prime
    return number


def _whole_digits(value: Fraction | None) -> int:
    """One more digit before the point than a value has."""
    return 0 if value is None else len(str(abs(value.numerator) // value.denominator)) + 1


def _places(value: Fraction | None) -> int:
    places = 0
    while value is not None and value.denominator != 1 and places < _MOST_PLACES:
        value *= 10
        places += 1
    return places
