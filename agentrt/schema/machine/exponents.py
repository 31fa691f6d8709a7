"""Which powers of ten bring a number into a set."""

from __future__ import annotations

import sys
from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentrt.schema.values.numbers import Numbers

EXPONENT_DIGITS = 3
LARGEST = 10**EXPONENT_DIGITS - 1
_USUAL = 400
"""Beyond what a float has; larger ones only where the bounds leave no others."""
_LARGEST_FLOAT = Fraction(sys.float_info.max)
"""What readers take no exponent for infinity up to."""
_LEAST_FLOAT = Fraction(sys.float_info.min)
"""What readers take no exponent for zero from; numbers below only where the bounds are near it."""
_NEAR_ZERO = _LEAST_FLOAT * 10**16


def exponent_bounds(numbers: Numbers, value: Fraction) -> tuple[int, int]:
    """The exponents that could bring a value into the set; none where the first is larger."""
    if value == 0:
        return (0, 0) if numbers.contains(value) else (1, 0)
    near, far = magnitudes(numbers, negative=value < 0)
    least, most = -_USUAL, _USUAL
    if far is not None:
        if far <= 0:
            return 1, 0
        most = largest_exponent(abs(value), far)
        least = min(least, most - 1)
    if near is not None and near > 0:
        least = largest_exponent(abs(value), near)
        most = max(most, least + 1) if far is None else most
    if far is None or far > _NEAR_ZERO:
        least = max(least, largest_exponent(abs(value), _LEAST_FLOAT) + 1)
    if near is None or near <= _LARGEST_FLOAT:
        most = min(most, largest_exponent(abs(value), _LARGEST_FLOAT))
    if numbers.multiple is not None:
        least = max(least, _least_shift(value / numbers.multiple))
    return max(least, -LARGEST), min(most, LARGEST)


def magnitudes(numbers: Numbers, *, negative: bool) -> tuple[Fraction | None, Fraction | None]:
    """The bounds of the set, or of what its negative numbers are without their sign."""
    if not negative:
        return numbers.lo, numbers.hi
    near, far = numbers.hi, numbers.lo
    return None if near is None else -near, None if far is None else -far


def exponents(
    numbers: Numbers, value: Fraction, begun: str, bounds: tuple[int, int]
) -> Iterator[str]:
    """What can follow the beginning of an exponent so that the number is in the set, for each sign
    the shortest first."""
    sign = begun[:1] if begun[:1] in ("+", "-") else ""
    digits = begun[len(sign) :]
    if sign or digits:
        yield from _signed(numbers, value, sign == "-", digits, bounds)
        return
    yield from _signed(numbers, value, False, digits, bounds)
    for text in _signed(numbers, value, True, digits, bounds):
        yield "-" + text


def _signed(
    numbers: Numbers, value: Fraction, negative: bool, digits: str, bounds: tuple[int, int]
) -> Iterator[str]:
    least, most = (-bounds[1], -bounds[0]) if negative else bounds
    for more in range(EXPONENT_DIGITS - len(digits) + 1):
        if not digits and not more:
            continue
        first = int(digits or "0") * 10**more
        if value == 0:
            # whatever the exponent
            if bounds[0] <= bounds[1]:
                yield "0" * more
            continue
        for e in range(max(first, least), min(first + 10**more - 1, most) + 1):
            if numbers.contains(value * Fraction(10) ** (-e if negative else e)):
                yield str(e - first).zfill(more) if more else ""


def largest_exponent(low: Fraction, limit: Fraction) -> int:
    """The largest e with low * 10**e <= limit; both are positive."""
    ratio = limit / low
    e = len(str(ratio.numerator)) - len(str(ratio.denominator))
    return e if Fraction(10) ** e <= ratio else e - 1


def _least_shift(ratio: Fraction) -> int:
    """The least power of ten that makes a ratio whole; beyond every exponent where none does."""
    top, bottom = ratio.numerator, ratio.denominator
    twos, fives = _power(bottom, 2), _power(bottom, 5)
    if bottom != 1:
        return max(twos, fives) if bottom == 2**twos * 5**fives else LARGEST + 1
    return -min(_power(top, 2), _power(top, 5))


def _power(number: int, prime: int) -> int:
    count = 0
    while number and number % prime == 0:
        number //= prime
        count += 1
    return count
