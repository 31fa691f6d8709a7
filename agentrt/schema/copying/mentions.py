"""The numbers and the dates that a text mentions, in the ways that people write them."""

from __future__ import annotations

import re
from datetime import date
from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

# Digits with what may stand between them; a sign where no word or digit is before it.
_NUMBER = re.compile(
    r"(?P<sign>(?<![\w.,)\]])[-\u2212+])?"
    r"(?P<digits>[0-9]{1,3}(?:[ \u00a0\u202f][0-9]{3})+(?![0-9])(?:[.,][0-9]+)?"
    r"|[0-9]+(?:[.,'\u2019][0-9]+)*)"
    r"(?P<power>[eE][-+]?[0-9]{1,3}(?![0-9A-Za-z]))?"
)
_GROUPED = re.compile(r"[0-9]{1,3}(?:(?P<by>[.,'\u2019 \u00a0\u202f])[0-9]{3})(?:(?P=by)[0-9]{3})*")
_WITH_PART = re.compile(r"(?P<whole>.*)(?P<point>[.,])(?P<part>[0-9]+)")
_DECIMAL_COMMA = re.compile(r"(?<![0-9,])[0-9.]+,[0-9]{1,2}(?![0-9,])")


def numbers_in(text: str) -> frozenset[Fraction]:
    """Every number that digits in the text may mean.

    Signs, thousands in groups (`1,234.50`, `1.234,50`, `1 234`, `1'234`) and powers of ten are
    read. Where a run can be read in several ways (`1.234`; `12 000`, one number or two) each is
    there, but that a comma before three digits is the decimal one only in a text that has decimal
    commas. A number with a sign is there without it as well.
    """
    commas = _DECIMAL_COMMA.search(text) is not None
    found: set[Fraction] = set()
    for match in _NUMBER.finditer(text):
        power = match["power"] or ""
        for value in _readings(match["digits"], commas):
            exact = value * Fraction(10) ** int(power[1:]) if power else value
            found |= {exact, value, -exact} if match["sign"] in ("-", "\u2212") else {exact, value}
    return frozenset(found)


def _readings(digits: str, commas: bool) -> Iterator[Fraction]:
    """What digits with separators may mean, as one number or as several side by side."""
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
    if whole.isdigit() or (inner and inner["by"] != point):
        yield Fraction(f"{re.sub('[^0-9]', '', whole)}.{parted['part']}")


# The first letters of the months' names in English, German, French, Spanish, Italian and Dutch.
_MONTHS = {
    "jan": 1, "ene": 1, "gen": 1, "feb": 2, "fév": 2, "fev": 2, "mar": 3, "mär": 3, "maa": 3,
    "mrt": 3, "apr": 4, "avr": 4, "abr": 4, "may": 5, "mai": 5, "mei": 5, "mag": 5, "jun": 6,
    "juin": 6, "giu": 6, "jul": 7, "juil": 7, "lug": 7, "aug": 8, "aoû": 8, "ago": 8, "sep": 9,
    "set": 9, "oct": 10, "okt": 10, "ott": 10, "nov": 11, "dec": 12, "dez": 12, "déc": 12,
    "dic": 12,
}  # fmt: skip
_NAME = rf"(?P<month>(?:{'|'.join(sorted(_MONTHS, key=len, reverse=True))})[^\W\d_]{{0,7}})\.?"
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
    name = match["month"].lower()
    month = int(name) if name.isdigit() else _MONTHS.get(name[:4]) or _MONTHS[name[:3]]
    try:
        yield date(int(match["year"]), month, int(match["day"])).isoformat()
    except ValueError:
        return
