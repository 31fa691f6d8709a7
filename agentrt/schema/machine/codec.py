"""From bytes to characters: UTF-8 (RFC 3629), and the escapes of JSON strings (RFC 8259, section
7).

A character is one character however it is written: raw, as a short escape, as \\uXXXX or as a
surrogate pair. A surrogate escape alone is no character and is not allowed.
"""

from __future__ import annotations

from typing import NamedTuple

CLOSE = -1
"""What the closing quote gives instead of a code point."""

Ranges = tuple[tuple[int, int], ...]

_SHORT = {
    ord(k): ord(v)
    for k, v in {
        '"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"
    }.items()
}  # fmt: skip
_HIGH = range(0xD800, 0xDC00)
_LOW = range(0xDC00, 0xE000)
_PRINTABLE = range(0x20, 0x7F)
_EVERY: Ranges = ((0, 0xD7FF), (0xE000, 0x10FFFF))
# what has to be escaped, or may be although printable ASCII may not
_ESCAPED: Ranges = ((0, 0x1F), (0x22, 0x22), (0x5C, 0x5C), (0x7F, 0xD7FF), (0xE000, 0x10FFFF))


class Pending(NamedTuple):
    """Within a character: `ranges` are the code points that it may still become."""

    kind: str
    value: int
    left: int
    ranges: Ranges


class Codec:
    """Steps from byte to byte; None as a state is the place between two characters.

    `plain`: printable ASCII is written as it is wherever it may be, never as \\uXXXX or `\\/`, so
    that a known text has few spellings (and ASCII text one) and can be jumped over.
    """

    def __init__(self, *, json: bool, ascii_only: bool = False, plain: bool = False) -> None:
        self.json = json
        self.ascii_only = ascii_only
        self.plain = plain
        self._known: dict[tuple[Pending | None, int], Pending | int | None] = {}

    def step(self, pending: Pending | None, byte: int) -> Pending | int | None:
        """The code point that the byte completes (or CLOSE), the state within one, or None where
        the byte is not allowed."""
        key = (pending, byte)
        try:
            return self._known[key]
        except KeyError:
            found = self._known[key] = self._step(pending, byte)
            return found

    def _step(self, pending: Pending | None, byte: int) -> Pending | int | None:
        if pending is None:
            return self._first(byte)
        if pending.kind == "utf8":
            return _continued(pending, byte)
        if pending.kind == "escape":
            if byte == 0x75:
                return self._hex(0, 4)
            return None if self.plain and byte == 0x2F else _SHORT.get(byte)
        if pending.kind == "hex":
            return self._hex_digit(pending, byte)
        return _second_escape(pending, byte)

    def _first(self, byte: int) -> Pending | int | None:
        if byte < 0x80:
            if not self.json:
                return byte
            if byte == 0x22:
                return CLOSE
            if byte == 0x5C:
                return Pending("escape", 0, 0, _ESCAPED if self.plain else _EVERY)
            return byte if byte >= 0x20 else None
        if self.ascii_only:
            return None
        if 0xC2 <= byte < 0xE0:
            return _partial(byte & 0x1F, 1)
        if 0xE0 <= byte < 0xF0:
            return _partial(byte & 0x0F, 2)
        if 0xF0 <= byte < 0xF5:
            return _partial(byte & 0x07, 3)
        return None

    def _hex(self, value: int, left: int) -> Pending | None:
        """Within \\uXXXX, `left` digits missing."""
        lo, hi = value << 4 * left, (value + 1 << 4 * left) - 1
        ranges = [*_scalars(lo, hi)]
        if self.plain:
            ranges = [part for r in ranges for part in _unprintable(*r)]
        first, last = max(lo, _HIGH.start), min(hi, _HIGH.stop - 1)
        if first <= last:
            ranges.append((_paired(first, _LOW.start), _paired(last, _LOW.stop - 1)))
        return Pending("hex", value, left, tuple(ranges)) if ranges else None

    def _hex_digit(self, pending: Pending, byte: int) -> Pending | int | None:
        digit = _digit(byte)
        if digit is None:
            return None
        value = pending.value << 4 | digit
        if pending.left > 1:
            return self._hex(value, pending.left - 1)
        if value in _HIGH:
            return _low_half("backslash", value, 0, 4)
        if value in _LOW or (self.plain and value in _PRINTABLE):
            return None
        return value


def _unprintable(lo: int, hi: int) -> Ranges:
    """The interval without printable ASCII."""
    parts = ((lo, min(hi, _PRINTABLE.start - 1)), (max(lo, _PRINTABLE.stop), hi))
    return tuple((a, b) for a, b in parts if a <= b)


def _partial(value: int, left: int) -> Pending | None:
    """Within a UTF-8 sequence of which `left` bytes are missing; overlong forms are refused."""
    return _utf8(value, left, {1: 0x80, 2: 0x800, 3: 0x10000}[left])


def _utf8(value: int, left: int, least: int) -> Pending | None:
    lo, hi = value << 6 * left, (value + 1 << 6 * left) - 1
    ranges = _scalars(max(lo, least), min(hi, 0x10FFFF))
    # `least` travels in the high bits, so that equal states are equal
    return Pending("utf8", value | least << 32, left, ranges) if ranges else None


def _continued(pending: Pending, byte: int) -> Pending | int | None:
    if byte & 0xC0 != 0x80:
        return None
    value, least = pending.value & 0xFFFFFFFF, pending.value >> 32
    value = value << 6 | byte & 0x3F
    if pending.left > 1:
        return _utf8(value, pending.left - 1, least)
    allowed = any(lo <= value <= hi for lo, hi in pending.ranges)
    return value if allowed else None


def _scalars(lo: int, hi: int) -> Ranges:
    """The interval without surrogates."""
    parts = ((lo, min(hi, 0xD7FF)), (max(lo, 0xE000), hi))
    return tuple((a, b) for a, b in parts if a <= b)


def _paired(high: int, low: int) -> int:
    return 0x10000 + (high - _HIGH.start << 10) + low - _LOW.start


def _digit(byte: int) -> int | None:
    if 0x30 <= byte <= 0x39:
        return byte - 0x30
    folded = byte | 0x20
    return folded - 0x57 if 0x61 <= folded <= 0x66 else None


def _low_half(kind: str, high: int, value: int, left: int) -> Pending | None:
    """After a high surrogate: before its partner's backslash, its u, or `left` of its digits."""
    lo = max(value << 4 * left, _LOW.start)
    hi = min((value + 1 << 4 * left) - 1, _LOW.stop - 1)
    if lo > hi:
        return None
    return Pending(kind, high << 16 | value, left, ((_paired(high, lo), _paired(high, hi)),))


def _second_escape(pending: Pending, byte: int) -> Pending | int | None:
    high, value = pending.value >> 16, pending.value & 0xFFFF
    if pending.kind == "backslash":
        return _low_half("u", high, 0, 4) if byte == 0x5C else None
    if pending.kind == "u":
        return _low_half("low", high, 0, 4) if byte == 0x75 else None
    digit = _digit(byte)
    if digit is None:
        return None
    value = value << 4 | digit
    if pending.left > 1:
        return _low_half("low", high, value, pending.left - 1)
    return _paired(high, value) if value in _LOW else None
