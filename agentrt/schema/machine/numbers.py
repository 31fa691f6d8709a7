"""Numbers as text: every JSON spelling of a number that a set holds, digit by digit.

Spellings are plain decimals (`12`, `-0.50`) and scientific ones with one digit before the point, as
`repr` writes floats (`1.5e+300`), for any set. For a set without bounds they are all of JSON's, up
to a cap on digits; sets with bounds are exact arithmetic (digits.py).
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

from agentrt.schema.flat.spelling import digit_runs
from agentrt.schema.machine.codec import Codec
from agentrt.schema.machine.digits import NumberText
from agentrt.schema.machine.texts import StringText
from agentrt.schema.regex.determinise import determinise
from agentrt.schema.regex.parse import parse
from agentrt.schema.regex.words import of_words
from agentrt.schema.values.numbers import EVERY_NUMBER, INTEGERS, Numbers
from agentrt.schema.values.strings import Strings

RAW = Codec(json=False)


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
    if plain:
        return pattern
    # no text that readers take for infinity: beyond 1.8e308, as doubles are
    powers = "|".join(digit_runs(0, max(308 - digits, 99), 3))
    most = r"1(\.([0-6][0-9]*|7[0-8][0-9]*|7976931348623157))?[eE]\+?308"
    return (
        rf"{pattern}([eE](-[0-9]{{1,3}}|\+?([0-9]{{1,2}}|{powers})))?"
        rf"|-?([0-9](\.[0-9]{{1,{digits}}})?[eE]\+?([12][0-9]{{2}}|30[0-7])|{most})"
    )


def _any_integer(digits: int, *, plain: bool) -> str:
    """Integers plainly, with a zero fraction, or as a float beyond 2**53 is written."""
    if plain:
        return rf"0|-?[1-9][0-9]{{0,{digits - 1}}}"
    return (
        rf"-?(0|[1-9][0-9]{{0,{digits - 1}}})(\.0{{1,4}})?([eE]\+?[0-9]{{1,2}})?"
        r"|-?[1-9]\.[0-9]{1,16}[eE]\+?(1[6-9]|[2-9][0-9]|[12][0-9]{2}|30[0-7])"
        r"|-?[1-9][eE]\+?([12][0-9]{2}|30[0-7])"
        r"|-?1(\.([0-6][0-9]{0,15}|7[0-8][0-9]{0,14}|7976931348623157))?[eE]\+?308"
    )


def _spellings(points: frozenset[Fraction], *, plain: bool) -> Strings:
    if plain:
        return Strings(of_words({plain_decimal(p) for p in points}))
    return Strings(of_words({text for p in points for text in _spelled(p)}))


def _spelled(value: Fraction) -> set[str]:
    exact = plain_decimal(value)
    out = {exact}
    if value == 0:
        out |= {"-0", "-0.0"}
    try:
        double = float(value)
    except OverflowError:
        return out
    if value.denominator == 1 and double == value:
        # beyond 2**53 readers of doubles may take it for another integer
        out.add(exact + ".0")
    if Fraction(repr(double)) == value:
        out.add(repr(double))
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
