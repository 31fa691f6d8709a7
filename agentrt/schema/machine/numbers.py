"""Numbers as text: every JSON spelling of a number that a set holds, digit by digit.

Spellings are plain decimals (`12`, `-0.50`) and scientific ones with one digit before the point, as
`repr` writes floats (`1.5e+300`), for any set. For a set without bounds they are all of JSON's, up
to a cap on digits. Whether a prefix can still become a number of the set is exact arithmetic, no
table.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

from agentrt.schema.machine.codec import Codec
from agentrt.schema.machine.texts import StringText
from agentrt.schema.regex.determinise import determinise
from agentrt.schema.regex.dfa import of_words
from agentrt.schema.regex.parse import parse
from agentrt.schema.values.numbers import EVERY_NUMBER, INTEGERS, Numbers
from agentrt.schema.values.strings import Strings

RAW = Codec(json=False)
_MOST_EXPONENT = 400
_MANTISSA = 17
_NUMERIC = frozenset(b"0123456789+-.eE")
_EXPONENT_DIGITS = 3


class Digits(NamedTuple):
    """What was read: sign, digits before the point, after it (None: no point yet), exponent (None:
    none yet, else its sign and digits)."""

    negative: bool
    whole: str
    part: str | None
    exponent: str | None


_START = Digits(False, "", None, None)


def number_text(
    numbers: Numbers, max_digits: int, *, plain: bool = False
) -> StringText | NumberText:
    """The automaton of a set of numbers; `max_digits` caps the digits on each side of the point.

    `plain`: no exponents, and integers without a fraction.
    """
    if numbers.points is not None:
        return StringText(_spellings(numbers.points, plain=plain), RAW)
    pattern = known_pattern(numbers, max_digits, plain=plain)
    if pattern is not None:
        return StringText(_of_pattern(pattern), RAW)
    return NumberText(numbers, max_digits, plain=plain)


def known_pattern(numbers: Numbers, max_digits: int, *, plain: bool) -> str | None:
    """The regex of the spellings of a set that has no bounds; None for the others."""
    if numbers == EVERY_NUMBER:
        return _any_number(max_digits, plain=plain)
    return _any_integer(max_digits, plain=plain) if numbers == INTEGERS else None


@lru_cache(maxsize=16)
def _of_pattern(pattern: str) -> Strings:
    return Strings(determinise(parse(pattern, dialect="ecma")))


def _any_number(digits: int, *, plain: bool) -> str:
    pattern = rf"-?(0|[1-9][0-9]{{0,{digits - 1}}})(\.[0-9]{{1,{digits}}})?"
    if not plain:
        pattern += "([eE][+-]?[0-9]{1,3})?"
    return pattern


def _any_integer(digits: int, *, plain: bool) -> str:
    """Integers plainly, with a zero fraction, or as a float beyond 2**53 is written."""
    if plain:
        return rf"0|-?[1-9][0-9]{{0,{digits - 1}}}"
    return (
        rf"-?(0|[1-9][0-9]{{0,{digits - 1}}})(\.0{{1,4}})?([eE]\+?[0-9]{{1,2}})?"
        r"|-?[1-9]\.[0-9]{1,16}[eE]\+?(1[6-9]|[2-9][0-9]|[12][0-9]{2}|30[0-8])"
        r"|-?[1-9][eE]\+?([12][0-9]{2}|30[0-8])"
    )


def _spellings(points: frozenset[Fraction], *, plain: bool) -> Strings:
    if plain:
        return Strings(of_words({plain_decimal(p) for p in points}))
    return Strings(of_words({text for p in points for text in _spelled(p)}))


def _spelled(value: Fraction) -> set[str]:
    exact = plain_decimal(value)
    out = {exact}
    if value.denominator == 1:
        out.add(exact + ".0")
    if value == 0:
        out |= {"-0", "-0.0"}
    try:
        as_float = repr(float(value))
    except OverflowError:
        return out
    if Fraction(as_float) == value:
        out.add(as_float)
    return out


def plain_decimal(value: Fraction) -> str:
    """A number that has a finite decimal form, in it."""
    places = 0
    scaled = value
    while scaled.denominator != 1:
        scaled *= 10
        places += 1
    digits = str(abs(scaled.numerator)).rjust(places + 1, "0")
    text = digits[: len(digits) - places] + ("." + digits[-places:] if places else "")
    return "-" + text if value < 0 else text


class NumberText:
    """The texts of a set given by bounds and multiples; states are what was read."""

    def __init__(self, numbers: Numbers, max_digits: int, *, plain: bool) -> None:
        self.numbers = numbers
        self.plain = plain
        self.max_digits = max(max_digits, _digits_of(numbers.lo), _digits_of(numbers.hi))
        self.max_part = 0 if is_integral(numbers) else max_digits
        if numbers.multiple is not None and not is_integral(numbers):
            self.max_part = min(max_digits, _places(numbers.multiple) + 4)
        self._whole = numbers.whole_range
        self._known: dict[tuple[Digits, int], Digits | None] = {}
        self._bounds: dict[tuple[int, int], tuple[int, int]] = {}

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
        if key not in self._known:
            following = _spelled_on(state, chr(byte))
            ok = following is not None and self.viable(following)
            self._known[key] = following if ok else None
        return self._known[key]

    def may_end(self, state: object) -> bool:
        assert isinstance(state, Digits)
        if not state.whole or state.part == "" or state.exponent in ("", "+", "-"):
            return False
        value = _mantissa(state)
        if state.exponent is not None:
            value *= Fraction(10) ** int(state.exponent)
        return self.numbers.contains(value)

    def viable(self, state: Digits) -> bool:
        """Whether the text so far can be completed to a number of the set."""
        if self.plain:
            if state.exponent is not None or (state.part is not None and self.max_part == 0):
                return False
            if state.negative and state.whole == "0" and self.max_part == 0:
                return False
            return self._plain_viable(state)
        if state.exponent is not None:
            return self._exponent_viable(state)
        return self._plain_viable(state) or self._scientific_viable(state)

    def _plain_viable(self, state: Digits) -> bool:
        if state.part is not None:
            if len(state.part) > max(self.max_part, 4):
                return False
            if self.max_part == 0:
                return state.part.strip("0") == "" and self.numbers.contains(_mantissa(state))
            return self._within(state, 0)
        room = self.max_digits - len(state.whole)
        if room < 0:
            return False
        if state.whole == "0":
            return self._within(state, 0)
        if self._whole is not None and state.whole:
            return self._whole_viable(int(state.whole), room, *self._whole, state.negative)
        bound = self.numbers.lo if state.negative else self.numbers.hi
        value = int(state.whole or "0")
        for more in range(room + 1):
            if self._within(state, more):
                return True
            if value and bound is not None and value * 10**more > abs(bound):
                return False  # more digits only lead further beyond it
        return False

    @staticmethod
    def _whole_viable(
        value: int, room: int, lo: int | None, hi: int | None, negative: bool
    ) -> bool:
        """Whether an integer from lo to hi begins with these digits, `room` of them to come."""
        if negative:
            lo, hi = None if hi is None else -hi, None if lo is None else -lo
        for more in range(room + 1):
            least = value * 10**more
            if hi is not None and least > hi:
                return False
            if lo is None or least + 10**more > lo:
                return True
        return False

    def _within(self, state: Digits, more: int) -> bool:
        """Whether the set has a number of `more` further digits before the point."""
        low = Fraction(int((state.whole or "0") + (state.part or "")), 10 ** len(state.part or ""))
        step = Fraction(1, 10 ** len(state.part or ""))
        if not state.whole:
            # only a sign so far: everything of that sign
            zero = not (self.plain and self.max_part == 0)
            below = self.numbers.meets(None, False, Fraction(0), not zero)
            return below if state.negative else True
        low, high = low * 10**more, (low + step) * 10**more
        if state.part is not None and len(state.part) >= max(self.max_part, 1):
            return self.numbers.contains(-low if state.negative else low)
        if state.negative:
            return self.numbers.meets(-high, True, -low, False)
        return self.numbers.meets(low, False, high, True)

    def _scientific_viable(self, state: Digits) -> bool:
        """Whether some exponent fits, digits still to come included."""
        if len(state.whole) != 1 or state.whole == "0":
            return False
        part = state.part or ""
        if len(part) >= _MANTISSA:
            return False
        limit = self.numbers.lo if state.negative else self.numbers.hi
        low = _mantissa(Digits(False, state.whole, state.part, None))
        high = low + Fraction(1, 10 ** len(part))
        multiple = self.numbers.multiple
        if multiple is not None:
            if limit is not None:
                # what a float spells so is beyond 10**16; below, plain spellings are complete
                return False
            return self._multiple_reachable(part, state.whole, multiple)
        exponent = _MOST_EXPONENT if limit is None else _largest_exponent(low, abs(limit))
        if limit is not None and (limit >= 0) == state.negative:
            return False
        for e in (exponent, exponent - 1):
            a, b = low * Fraction(10) ** e, high * Fraction(10) ** e
            window = (-b, True, -a, False) if state.negative else (a, False, b, True)
            if self.numbers.meets(*window):
                return True
        return False

    def _multiple_reachable(self, part: str, whole: str, multiple: Fraction) -> bool:
        """Whether the digits can go on to a multiple, once a large exponent shifts the point."""
        step = multiple.numerator
        while step % 2 == 0:
            step //= 2
        while step % 5 == 0:
            step //= 5
        digits = int(whole + part)
        room = _MANTISSA - 1 - len(part)
        scaled = digits * 10**room
        return -(-scaled // step) * step < scaled + 10**room and not self.numbers.not_multiples

    def _exponent_viable(self, state: Digits) -> bool:
        assert state.exponent is not None
        if state.part == "":
            return False
        sign = state.exponent[:1] if state.exponent[:1] in ("+", "-") else ""
        digits = state.exponent[len(sign) :]
        if len(digits) > _EXPONENT_DIGITS:
            return False
        value = _mantissa(state)
        key = (value.numerator, value.denominator)
        bounds = self._bounds.get(key)
        if bounds is None:
            bounds = self._bounds[key] = _exponent_bounds(self.numbers, value)
        signs = (sign,) if sign or digits else ("+", "-")
        return any(self._fits(value, s == "-", digits, *bounds) for s in signs)

    def _fits(self, value: Fraction, negative: bool, digits: str, least: int, most: int) -> bool:
        """Whether an exponent of at most three digits that starts so gives a number of the set."""
        if negative:
            least, most = -most, -least
        for more in range(_EXPONENT_DIGITS - len(digits) + 1):
            if not digits and not more:
                continue
            first = int(digits or "0") * 10**more
            for e in range(max(first, least), min(first + 10**more - 1, most) + 1):
                if self.numbers.contains(value * Fraction(10) ** (-e if negative else e)):
                    return True
        return False


def _exponent_bounds(numbers: Numbers, value: Fraction) -> tuple[int, int]:
    """The exponents that could bring the value into the set; none where the first is larger."""
    least, most = -_MOST_EXPONENT, _MOST_EXPONENT
    if value == 0:
        return least, most
    near, far = numbers.lo, numbers.hi
    if value < 0:
        near, far = _negated(numbers.hi), _negated(numbers.lo)
    if far is not None:
        most = _largest_exponent(abs(value), far) if far > 0 else least - 1
    if near is not None and near > 0:
        least = _largest_exponent(abs(value), near)
    if numbers.multiple is not None:
        least = max(least, _least_shift(value / numbers.multiple))
    return least, most


def _least_shift(ratio: Fraction) -> int:
    """The least power of ten that makes a ratio whole; beyond every exponent where none does."""
    top, bottom = ratio.numerator, ratio.denominator
    needed = max(_power(bottom, 2), _power(bottom, 5))
    if bottom != 1:
        left = bottom // 2 ** _power(bottom, 2) // 5 ** _power(bottom, 5)
        return needed if left == 1 else _MOST_EXPONENT + 1
    return -min(_power(top, 2), _power(top, 5))


def _negated(bound: Fraction | None) -> Fraction | None:
    return None if bound is None else -bound


def _power(number: int, prime: int) -> int:
    count = 0
    while number and number % prime == 0:
        number //= prime
        count += 1
    return count


def _spelled_on(state: Digits, c: str) -> Digits | None:
    """JSON's grammar of numbers (RFC 8259, section 6)."""
    negative, whole, part, exponent = state
    if exponent is not None:
        if c in "+-":
            return state._replace(exponent=c) if exponent == "" else None
        return state._replace(exponent=exponent + c) if c.isdigit() else None
    if c.isdigit() and c.isascii():
        if part is not None:
            return state._replace(part=part + c)
        return None if whole == "0" else state._replace(whole=whole + c)
    if c == "-":
        return None if negative or whole else state._replace(negative=True)
    if c == ".":
        return state._replace(part="") if whole and part is None else None
    if c in "eE":
        return state._replace(exponent="") if whole and part != "" else None
    return None


def _mantissa(state: Digits) -> Fraction:
    part = state.part or ""
    value = Fraction(int((state.whole or "0") + part), 10 ** len(part))
    return -value if state.negative else value


def _digits_of(bound: Fraction | None) -> int:
    return 0 if bound is None else len(str(abs(bound.numerator) // bound.denominator)) + 1


def is_integral(numbers: Numbers) -> bool:
    """Whether the set is told to hold integers only."""
    return numbers.multiple is not None and numbers.multiple.denominator == 1


def _places(value: Fraction) -> int:
    places = 0
    while value.denominator != 1 and places < 400:
        value *= 10
        places += 1
    return places


def _largest_exponent(low: Fraction, limit: Fraction) -> int:
    """The largest e with low * 10**e <= limit."""
    if limit == 0:
        return -_MOST_EXPONENT
    ratio = limit / low
    e = len(str(ratio.numerator // ratio.denominator)) - 1 if ratio >= 1 else 0
    scaled = ratio
    while scaled < 1 and e > -_MOST_EXPONENT:
        scaled *= 10
        e -= 1
    return e
