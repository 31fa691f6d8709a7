"""Character classes: \\d \\w \\s, Unicode properties, case."""

from __future__ import annotations

import unicodedata
from functools import lru_cache
from typing import TYPE_CHECKING

from agentrt.schema.charset import ANY, MAX_CODE_POINT, NOTHING, CharSet, chars, charset

if TYPE_CHECKING:
    from collections.abc import Callable

ASCII_DIGIT = charset([(0x30, 0x39)])
ASCII_WORD = charset([(0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)])
ASCII_SPACE = chars(" \t\n\r\f\v")
# ECMA-262 WhiteSpace and LineTerminator
ECMA_SPACE = charset(
    [
        *ASCII_SPACE.intervals,
        (0xA0, 0xA0),
        (0x1680, 0x1680),
        (0x2000, 0x200A),
        (0x2028, 0x2029),
        (0x202F, 0x202F),
        (0x205F, 0x205F),
        (0x3000, 0x3000),
        (0xFEFF, 0xFEFF),
    ]
)
# the property White_Space
WHITE_SPACE = charset([*(i for i in ECMA_SPACE.intervals if i[0] != 0xFEFF), (0x85, 0x85)])
ECMA_DOT = chars("\n\r\u2028\u2029").complement()
PYTHON_DOT = chars("\n").complement()

_POSIX_LIKE = {
    "any": ANY,
    "ascii": charset([(0, 0x7F)]),
    "ascii_hex_digit": charset([(0x30, 0x39), (0x41, 0x46), (0x61, 0x66)]),
}
_LONG_CATEGORIES = {
    "letter": "L",
    "uppercase_letter": "Lu",
    "lowercase_letter": "Ll",
    "titlecase_letter": "Lt",
    "cased_letter": "LC",
    "modifier_letter": "Lm",
    "other_letter": "Lo",
    "mark": "M",
    "nonspacing_mark": "Mn",
    "spacing_mark": "Mc",
    "enclosing_mark": "Me",
    "number": "N",
    "decimal_number": "Nd",
    "digit": "Nd",
    "letter_number": "Nl",
    "other_number": "No",
    "punctuation": "P",
    "punct": "P",
    "connector_punctuation": "Pc",
    "dash_punctuation": "Pd",
    "open_punctuation": "Ps",
    "close_punctuation": "Pe",
    "initial_punctuation": "Pi",
    "final_punctuation": "Pf",
    "other_punctuation": "Po",
    "symbol": "S",
    "math_symbol": "Sm",
    "currency_symbol": "Sc",
    "modifier_symbol": "Sk",
    "other_symbol": "So",
    "separator": "Z",
    "space_separator": "Zs",
    "line_separator": "Zl",
    "paragraph_separator": "Zp",
    "other": "C",
    "control": "Cc",
    "cntrl": "Cc",
    "format": "Cf",
    "unassigned": "Cn",
    "private_use": "Co",
}
_CATEGORIES = {*_LONG_CATEGORIES.values(), "Cs"}


def _where(holds: Callable[[str], bool]) -> CharSet:
    return charset((cp, cp) for cp in range(MAX_CODE_POINT + 1) if holds(chr(cp)))


@lru_cache(maxsize=1)
def unicode_digit() -> CharSet:
    return _where(str.isdecimal)


@lru_cache(maxsize=1)
def unicode_word() -> CharSet:
    return _where(lambda c: c.isalnum() or c == "_")


@lru_cache(maxsize=1)
def unicode_space() -> CharSet:
    return _where(str.isspace)


@lru_cache(maxsize=64)
def unicode_property(name: str) -> CharSet | None:
    """The characters of `\\p{name}`: a general category by its short or long name, or a few binary
    properties and scripts told by character names. None for a name that is not known."""
    value = name.partition("=")[2] if "=" in name else name
    folded = value.lower().replace(" ", "_").replace("-", "_")
    if folded in _POSIX_LIKE:
        return _POSIX_LIKE[folded]
    if name.lower().startswith(("script=", "sc=", "script_extensions=", "scx=")):
        return _script(value)
    if folded in ("alphabetic", "alpha"):
        return _where(str.isalpha)
    if folded in ("uppercase", "upper"):
        return _where(str.isupper)
    if folded in ("lowercase", "lower"):
        return _where(str.islower)
    if folded in ("white_space", "space"):
        return WHITE_SPACE
    if folded == "word":
        return _where(_is_word)
    category = _LONG_CATEGORIES.get(folded, value)
    if category not in _CATEGORIES:
        return None
    if category == "LC":
        return _where(lambda c: unicodedata.category(c) in ("Lu", "Ll", "Lt"))
    return _where(lambda c: unicodedata.category(c).startswith(category))


def _is_word(c: str) -> bool:
    """Unicode Technical Standard 18, annex C."""
    if unicodedata.category(c) in ("Nl", "Nd", "Pc") or c.isalpha() or c in "\u200c\u200d":
        return True
    return unicodedata.category(c)[0] == "M" or "CIRCLED LATIN" in unicodedata.name(c, "")


def _script(script: str) -> CharSet | None:
    known = {"latin", "greek", "cyrillic", "hebrew", "arabic", "hiragana", "katakana", "thai"}
    if script.lower() not in known:
        return None
    prefix = script.upper() + " "
    return _where(lambda c: c.isalpha() and unicodedata.name(c, "").startswith(prefix))


@lru_cache(maxsize=1)
def _case_variants() -> dict[int, frozenset[int]]:
    groups: dict[str, set[int]] = {}
    for cp in range(MAX_CODE_POINT + 1):
        c = chr(cp)
        low, up = c.lower(), c.upper()
        if low == up == c:
            continue
        # of one character only: for İ that is i, without the dot that the full mapping adds
        up = low[0].upper()
        groups.setdefault((up if len(up) == 1 else low[0]).casefold(), set()).add(cp)
    return {cp: frozenset(group) for group in groups.values() for cp in group}


def ignoring_case(given: CharSet, *, ascii_only: bool = False) -> CharSet:
    """The set and every case variant of its members."""
    if given == NOTHING:
        return given
    variants = _case_variants()
    extra: set[int] = set()
    for cp, group in variants.items():
        if cp in given and not (ascii_only and cp > 0x7F):
            extra.update(v for v in group if not (ascii_only and v > 0x7F))
    return given.union(charset((cp, cp) for cp in extra))
