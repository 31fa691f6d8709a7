"""The numbers and the dates that a text mentions, in the ways that people write them."""

from __future__ import annotations

import re
import unicodedata
from contextlib import suppress
from datetime import date
from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

# Digits with what may stand between them; a sign where no word or digit is before it.
_NUMBER = re.compile(
    r"(?P<sign>(?<![\w.,)\]])[-\u2212\u2013+])?"
    r"(?:(?P<vulgar>[0-9]*[\u00bc-\u00be\u2150-\u215e])"
    r"|(?P<digits>[0-9]{1,3}(?:[ \u00a0\u202f][0-9]{3})+(?![0-9])(?:[.,][0-9]+)?"
    r"|[0-9]+(?:[.,'\u2019][0-9]+)*|(?<![\w.,)\]])\.[0-9]+)"
    r"(?P<power>[eE][-+]?[0-9]{1,3}(?![0-9A-Za-z]))?)"
)
_GROUPED = re.compile(
    r"[0-9]{1,3}(?:(?P<by>[.,'\u2019 \u00a0\u202f])[0-9]{3})(?:(?P=by)[0-9]{3})*"
    r"|[0-9]{1,2}(?:,[0-9]{2})+,[0-9]{3}"  # as in India
)
_WITH_PART = re.compile(r"(?P<whole>.*)(?P<point>[.,])(?P<part>[0-9]+)")
_DECIMAL_COMMA = re.compile(r"(?<![0-9,])[0-9.]+,[0-9]{1,2}(?![0-9,])")
_MOST_DIGITS = 300  # of a run that is read as a number, and the power that it may have


def numbers_in(text: str) -> frozenset[Fraction]:
    """Every number that digits in the text may mean.

    Signs, thousands in groups (`1,234.50`, `1.234,50`, `1 234`, `1'234`, `1,23,456`), halves and
    the like (`1\u00bd`), the digits of any script and powers of ten are read. Where a run can be
    read in several ways (`1.234`; `12 000`, one number or two) each is there, but that a comma
    before three digits is the decimal one only in a text that has decimal commas. A number with a
    sign is there without it as well.
    """
    text = _with_plain_digits(text)
    commas = _DECIMAL_COMMA.search(text) is not None
    found: set[Fraction] = set()
    for match in _NUMBER.finditer(text):
        for value in _values(match, commas):
            found |= {value} if match["sign"] in (None, "+") else {value, -value}
    return frozenset(found)


def _values(match: re.Match[str], commas: bool) -> Iterator[Fraction]:
    if match["vulgar"]:
        yield from _vulgar(match["vulgar"])
    elif len(match["digits"]) > _MOST_DIGITS:  # no number, but perhaps a list of them
        parts = re.split("[^0-9]", match["digits"])
        yield from (Fraction(int(part)) for part in parts if 0 < len(part) <= _MOST_DIGITS)
    else:
        power = int((match["power"] or "e0")[1:])
        for value in _readings(match["digits"], commas):
            yield value
            if abs(power) <= _MOST_DIGITS:
                yield value * Fraction(10) ** power


def _vulgar(written: str) -> Iterator[Fraction]:
    """`1\u00bd`, where it has a decimal form."""
    part = Fraction(unicodedata.numeric(written[-1])).limit_denominator(16)
    if 1000 % part.denominator == 0 and len(written) <= _MOST_DIGITS:
        yield int(written[:-1] or 0) + part


def _with_plain_digits(text: str) -> str:
    """The text with the digits of every script as 0 to 9."""
    if text.isascii():
        return text
    text = text.replace("\u066b", ".").replace("\u066c", ",")
    return re.sub(r"(?![0-9])\d", lambda digit: str(unicodedata.decimal(digit[0])), text)


def _readings(digits: str, commas: bool) -> Iterator[Fraction]:
    """What digits with separators may mean, as one number or as several side by side."""
    if digits.startswith("."):
        yield Fraction(f"0{digits}")
        return
    if digits.isdigit():
        yield Fraction(int(digits))
        return
    whole = list(_as_one(digits, commas))
    yield from whole
    spaces = re.split("[ \u00a0\u202f]", digits)
    if len(spaces) > 1:
        for part in spaces:
            yield from _readings(part, commas)
    elif not whole:
        for part in re.split("[.,'\u2019]", digits):
            yield Fraction(int(part))


def _as_one(digits: str, commas: bool) -> Iterator[Fraction]:
    grouped = _GROUPED.fullmatch(digits)
    if grouped:
        yield Fraction(int(re.sub("[^0-9]", "", digits)))
    parted = _WITH_PART.fullmatch(digits)
    if parted is None:
        return
    whole, point = parted["whole"], parted["point"]
    if grouped and point == "," and not commas:
        return
    inner = _GROUPED.fullmatch(whole)
    if whole.isdigit() or (inner and (inner["by"] or ",") != point):
        yield Fraction(f"{re.sub('[^0-9]', '', whole)}.{parted['part']}")


# In English, German, French, Spanish, Italian and Dutch; the first three letters or more will do.
_MONTHS = (
    "january januar janvier enero gennaio januari",
    "february februar f\u00e9vrier fevrier febrero febbraio februari",
    "march m\u00e4rz maerz mars marzo maart mrt",
    "april avril abril aprile",
    "may mai mayo maggio mei",
    "june juni juin junio giugno",
    "july juli juillet julio luglio",
    "august ao\u00fbt aout agosto augustus",
    "september septembre septiembre settembre",
    "october oktober octobre octubre ottobre",
    "november novembre noviembre",
    "december dezember d\u00e9cembre decembre diciembre dicembre",
)
_NAME = r"(?P<month>[^\W\d_]{3,10})\.?"
_YEAR = r"(?P<year>\d{4})(?!\d)"
_ORDINAL = r"(?:st|nd|rd|th|er|\.|º)?"
_DATES = [
    re.compile(form, re.IGNORECASE)
    for form in (
        r"(?<!\d)(?P<year>\d{4})([-/.])(?P<month>\d{1,2})\2(?P<day>\d{1,2})(?!\d)",
        r"(?<!\d)(?P<day>\d{1,2})([-/.]) ?(?P<month>\d{1,2})\2 ?(?P<year>\d{4})(?!\d)",
        r"(?<!\d)(?P<month>\d{1,2})/(?P<day>\d{1,2})/(?P<year>\d{4})(?!\d)",
        rf"(?<!\d)(?P<day>\d{{1,2}}){_ORDINAL}[ -](?:(?:of|de) )?{_NAME},?[ -](?:de )?{_YEAR}",
        rf"\b{_NAME} (?P<day>\d{{1,2}}){_ORDINAL},? {_YEAR}",
    )
]  # fmt: skip


def dates_in(text: str) -> frozenset[str]:
    """Every day that the text names in full, as ISO 8601; `3/5/2024` is the day in March and the
    one in May."""
    matches = (match for form in _DATES for match in form.finditer(text))
    return frozenset(found for match in matches for found in _day(match))


def _day(match: re.Match[str]) -> Iterator[str]:
    written = match["month"]
    for month in [int(written)] if written.isdigit() else _months(written):
        with suppress(ValueError):  # no such day
            yield date(int(match["year"]), month, int(match["day"])).isoformat()


def _months(written: str) -> list[int]:
    """The months whose name begins so; a whole name is that month alone."""
    name = unicodedata.normalize("NFC", written.casefold()).replace("\u0131", "i")
    begun = [i for i, names in enumerate(_MONTHS, 1) if f" {name}" in f" {names}"]
    whole = [i for i, names in enumerate(_MONTHS, 1) if name in names.split()]
    return whole or begun
