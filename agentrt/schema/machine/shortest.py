"""The shortest way to end a string, a number or a literal; and how short ways are compared."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING

from agentrt.schema.machine.digits import Digits, NumberText
from agentrt.schema.machine.texts import LiteralText, StringText, TextAutomaton, Within
from agentrt.schema.values.strings import lengths

if TYPE_CHECKING:
    from agentrt.schema.regex.dfa import Dfa

# What ends a character that is begun, the likeliest first: in UTF-8, after a backslash, after \\u.
_LIKELY = bytes((*range(0xBF, 0x7F, -1), *b'"\\/bfnrt0D'))
_ENDINGS = _LIKELY + bytes(b for b in range(256) if b not in _LIKELY)
LONGEST = 1 << 15
"""The most bytes that are worked out: what takes more to complete, no model completes."""
_PREFERRED = tuple("a0 A1_-.:/")


def by_length(text: bytes) -> tuple[int, bytes]:
    return len(text), text


def least(texts: list[bytes]) -> bytes | None:
    return min(texts, key=by_length, default=None)


def joined(*parts: bytes | None) -> bytes | None:
    """All of them, one after the other; None where one is, or where they are too long."""
    found = [part for part in parts if part is not None]
    is_whole = len(found) == len(parts) and sum(map(len, found)) <= LONGEST
    return b"".join(found) if is_whole else None


def shortest_text(text: TextAutomaton, state: object) -> bytes | None:
    """What ends the value, without what follows it; None where it cannot be found."""
    if isinstance(text, LiteralText):
        assert isinstance(state, int)
        return text.text[state:]
    if isinstance(text, StringText):
        assert isinstance(state, Within)
        return _string(text, state)
    assert isinstance(text, NumberText)
    assert isinstance(state, Digits)
    end = text.end(state)
    return None if end is None else end.encode()


def _string(text: StringText, state: Within) -> bytes | None:
    out = b""
    while state.pending is not None:
        # any way to end the character begun
        for byte in _ENDINGS:
            following = text.step(state, byte)
            if following is not None:
                state, out = following, out + bytes([byte])
                break
        else:
            return None
    rest = _characters(text.dfa, state.dfa, state.lo, state.hi)
    if rest is None:
        return None
    closing = b'"' if text.codec.json else b""
    return out + written(text, rest) + closing


def written(text: StringText, characters: str) -> bytes:
    """Characters within a text, as its codec writes them."""
    if not text.codec.json:
        return characters.encode()
    return json.dumps(characters, ensure_ascii=text.codec.ascii_only)[1:-1].encode()


@lru_cache(maxsize=512)
def _characters(dfa: Dfa | None, state: int, lo: int, hi: int | None) -> str | None:
    """A shortest text of the automaton from a state on, of `lo` to `hi` characters. Kept, as many
    tokens lead to one place."""
    if lo > LONGEST:
        return None
    if dfa is None:
        return "a" * lo
    if lo == 0:
        return _nearest(dfa, state, hi)
    known = lengths(dfa)
    bound = hi if hi is not None else lo + 2 * len(known.layers) + 1
    for size in range(lo, bound + 1):
        if known.within(size, size) >> state & 1:
            return spelling(dfa, state, size)
    return None


def _nearest(dfa: Dfa, state: int, hi: int | None) -> str | None:
    """A shortest text that is accepted, of at most `hi` characters."""
    if not dfa.ends_within(state, hi):
        return None
    out, distances = "", dfa.distances
    for left in range(distances[state] - 1, -1, -1):
        character, state = next(way for way in _ways(dfa, state) if distances.get(way[1]) == left)
        out += character
    return out


@lru_cache(maxsize=2048)
def _ways(dfa: Dfa, state: int) -> list[tuple[str, int]]:
    """A character of each class and where it leads, the easiest first."""
    samples = _samples(dfa)
    ways = [(samples[cls], target) for cls, target in dfa.ways(state)]
    return sorted(ways, key=lambda way: (ord(way[0]) >= 0x7F, way[0]))


def spelling(dfa: Dfa, state: int, size: int) -> str:
    """A text of exactly so many characters that is accepted."""
    known, out = lengths(dfa), ""
    for left in range(size - 1, -1, -1):
        alive = known.within(left, left)
        character, state = next(way for way in _ways(dfa, state) if alive >> way[1] & 1)
        out += character
    return out


@lru_cache(maxsize=512)
def _samples(dfa: Dfa) -> tuple[str, ...]:
    """A character of each class, an easy one if there is one."""
    symbols = dfa.alphabet
    out = [chr(c) for c in symbols.samples()]
    ends = (*symbols.starts[1:], 0x110000)
    for lo, hi, cls in zip(symbols.starts, ends, symbols.classes, strict=True):
        printable = range(max(lo, 0x20), min(hi, 0x7F))
        if len(printable) and not 0x20 <= ord(out[cls]) < 0x7F:
            out[cls] = chr(printable[0])
    for c in reversed(_PREFERRED):
        out[symbols.class_of(ord(c))] = c
    return tuple(out)


def has_dear_characters(dfa: Dfa) -> bool:
    """Whether a character may have to be written that is no printable ASCII."""
    return any(not 0x20 <= ord(c) < 0x7F for c in _samples(dfa))
