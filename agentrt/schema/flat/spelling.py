"""Characters and runs of digits as parts of a regex."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Interval = tuple[int, int]

_DECIMAL = "0123456789"
_HEX = "0123456789abcdef"
# Written as they are where code points are told apart: printable ASCII, and what is beyond it.
_RAW: tuple[Interval, ...] = (
    (0x20, 0x21), (0x23, 0x5B), (0x5D, 0xD7FF), (0xE000, 0x10FFFF)
)  # fmt: skip
_SHORT = {0x22: '"', 0x5C: r"\\", 8: "b", 9: "t", 10: "n", 12: "f", 13: "r"}
_UNICODE_ESCAPE: tuple[Interval, ...] = ((0, 0x1F), (0x7F, 0xD7FF), (0xE000, 0xFFFF))

# One character of a string whose every spelling is allowed.
_ESCAPE = (
    r'\\(?:["\\/bfnrt]|u(?:[0-9a-cA-CefEF][0-9a-fA-F]{3}|[dD][0-7][0-9a-fA-F]{2}'
    r"|[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}))"
)
ANY_CHARACTER = rf'(?:[^"\\\x00-\x1f]|{_ESCAPE})'
ANY_ASCII_CHARACTER = rf"(?:[ !#-\[\]-\x7f]|{_ESCAPE})"


def characters(intervals: Iterable[Interval], *, json: bool, ascii_only: bool) -> list[str]:
    """Regexes of one character out of these, as `Codec` writes plain strings; alternatives."""
    listed = list(intervals)
    if not json:
        return [_char_class(listed)]
    raw = _clipped(listed, ((0x20, 0x21), (0x23, 0x5B), (0x5D, 0x7F)) if ascii_only else _RAW)
    out = [_char_class(raw)] if raw else []
    short = [letter for c, letter in _SHORT.items() if any(lo <= c <= hi for lo, hi in listed)]
    out += [rf"\\{letter}" for letter in short]
    for lo, hi in _clipped(listed, _UNICODE_ESCAPE):
        out += [rf"\\u{digits}" for digits in digit_runs(lo, hi, 4, _HEX)]
    for lo, hi in _clipped(listed, ((0x10000, 0x10FFFF),)):
        out += _pairs(lo - 0x10000, hi - 0x10000)
    return out


def _clipped(intervals: list[Interval], to: tuple[Interval, ...]) -> list[Interval]:
    found = ((max(a, lo), min(b, hi)) for a, b in intervals for lo, hi in to)
    return [(a, b) for a, b in found if a <= b]


def _pairs(lo: int, hi: int) -> Iterator[str]:
    """Surrogate pairs, by the 20 bits that they carry."""
    while lo <= hi:
        # as many whole blocks of one high half as there are, else what is within one
        whole = not lo & 0x3FF and hi - lo >= 0x3FF
        last = (hi + 1 & ~0x3FF) - 1 if whole else min(hi, lo | 0x3FF)
        low = (0xDC00, 0xDFFF) if whole else (0xDC00 | lo & 0x3FF, 0xDC00 | last & 0x3FF)
        for first in digit_runs(0xD800 | lo >> 10, 0xD800 | last >> 10, 4, _HEX):
            for second in digit_runs(*low, 4, _HEX):
                yield rf"\\u{first}\\u{second}"
        lo = last + 1


def _char_class(intervals: Iterable[Interval]) -> str:
    parts: list[str] = []
    for lo, hi in intervals:
        parts += [_shown(lo)] if lo == hi else [_shown(lo), "-" if hi > lo + 1 else "", _shown(hi)]
    body = "".join(parts)
    return body if len(parts) == 1 else f"[{body}]"


def _shown(code_point: int) -> str:
    if 0x20 <= code_point < 0x7F:
        return re.escape(chr(code_point))
    if code_point < 0x10000:
        return rf"\u{code_point:04x}"
    return rf"\U{code_point:08x}"


def digit_runs(lo: int, hi: int, width: int, digits: str = _DECIMAL) -> Iterator[str]:
    """Regexes of the numerals of exactly `width` digits from lo to hi, together all of them."""
    base = len(digits)
    if width == 0:
        yield ""
        return
    unit = base ** (width - 1)
    first, last = lo // unit, hi // unit
    if first == last:
        for rest in digit_runs(lo % unit, hi % unit, width - 1, digits):
            yield _digit(first, first, digits) + rest
        return
    if lo % unit:
        for rest in digit_runs(lo % unit, unit - 1, width - 1, digits):
            yield _digit(first, first, digits) + rest
        first += 1
    cut = hi % unit != unit - 1
    if first <= last - cut:
        every = _digit(0, base - 1, digits)
        repeat = every + (f"{{{width - 1}}}" if width > 2 else "") if width > 1 else ""
        yield _digit(first, last - cut, digits) + repeat
    if cut:
        for rest in digit_runs(0, hi % unit, width - 1, digits):
            yield _digit(last, last, digits) + rest


def _digit(lo: int, hi: int, digits: str) -> str:
    found = digits[lo : hi + 1]
    if len(digits) == len(_HEX):
        found += "".join(c.upper() for c in found if c.isalpha())
    if len(found) == 1:
        return found
    if len(digits) == len(_DECIMAL):
        return f"[{found[0]}-{found[-1]}]"
    return "[0-9a-fA-F]" if hi - lo == 15 else f"[{found}]"
