"""What a JSON text that is still growing says so far, and where in it each value stands.

A container is there from its bracket on, with the members that are complete; a string that is still
growing is given apart, so that nobody takes it for a whole one; a number counts as complete once
something follows it. A field that is not there is missing, which is not the same as null.
"""

from __future__ import annotations

import contextlib
import json
from bisect import bisect_right
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from agentrt.schema.load.resources import escaped

if TYPE_CHECKING:
    from collections.abc import Sequence

Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Span:
    """Bytes `start` to `end` (not included) of the text."""

    start: int
    end: int


@dataclass(slots=True)
class Partial:
    """`value` holds what is complete (`MISSING` if nothing is); `growing` the path and text so far
    of the string being written, if one is; `spans` the place of each complete value by JSON
    pointer.
    """

    value: Any
    growing: tuple[Path, str] | None = None
    spans: dict[str, Span] = field(default_factory=dict)


class Missing:
    """The type of `MISSING`: no value yet, as against null."""

    def __repr__(self) -> str:
        return "MISSING"

    def __bool__(self) -> bool:
        return False


MISSING = Missing()


def partial(text: bytes | str) -> Partial:
    """What a text that begins a JSON value says so far. Raises ValueError where it begins none."""
    return _Reader(text.encode() if isinstance(text, str) else text).read()


def token_spans(pieces: Sequence[bytes], spans: dict[str, Span]) -> dict[str, range]:
    """For each value, the tokens that write some of its bytes; `pieces` are the tokens' bytes."""
    ends = list(accumulate(len(p) for p in pieces))
    return {
        pointer: range(bisect_right(ends, span.start), bisect_right(ends, span.end - 1) + 1)
        for pointer, span in spans.items()
    }


class _Cut(Exception):
    """The text ends here."""


class _Reader:
    def __init__(self, text: bytes) -> None:
        self.text = text
        self.at = 0
        self.found = Partial(MISSING)

    def read(self) -> Partial:
        def place(value: Any) -> None:
            self.found.value = value

        with contextlib.suppress(_Cut):
            self.value((), "", place)
        return self.found

    def peek(self) -> int:
        while self.at < len(self.text) and self.text[self.at] in b" \t\n\r":
            self.at += 1
        if self.at >= len(self.text):
            raise _Cut
        return self.text[self.at]

    def expect(self, allowed: bytes) -> int:
        byte = self.peek()
        if byte not in allowed:
            raise ValueError(f"byte {self.at} is {chr(byte)!r}, not one of {allowed.decode()!r}")
        self.at += 1
        return byte

    def value(self, path: Path, pointer: str, place: Any) -> None:
        """Reads a value; `place` puts it where it belongs, a container as soon as it is open."""
        byte = self.peek()
        start = self.at
        if byte == 0x7B:
            members: dict[str, Any] = {}
            place(members)
            self.members(path, pointer, members)
        elif byte == 0x5B:
            items: list[Any] = []
            place(items)
            self.items(path, pointer, items)
        elif byte == 0x22:
            place(self.string(path))
        else:
            place(self.scalar())
        self.found.spans[pointer] = Span(start, self.at)

    def members(self, path: Path, pointer: str, members: dict[str, Any]) -> None:
        self.at += 1
        if self.peek() == 0x7D:
            self.at += 1
            return
        while True:
            if self.peek() != 0x22:
                self.expect(b'"')
            key = self.string(None)
            self.expect(b":")
            inner = f"{pointer}/{escaped(key)}"
            self.value((*path, key), inner, lambda v, key=key: members.__setitem__(key, v))
            if self.expect(b",}") == 0x7D:
                return

    def items(self, path: Path, pointer: str, items: list[Any]) -> None:
        self.at += 1
        if self.peek() == 0x5D:
            self.at += 1
            return
        while True:
            index = len(items)
            self.value((*path, index), f"{pointer}/{index}", items.append)
            if self.expect(b",]") == 0x5D:
                return

    def string(self, path: Path | None) -> str:
        """Reads a string; one that is cut is noted as growing at its path (None: it is a key)."""
        start = self.at
        self.at += 1
        while self.at < len(self.text):
            byte = self.text[self.at]
            self.at += 2 if byte == 0x5C else 1
            if byte == 0x22:
                return json.loads(self.text[start : self.at])
        if path is not None:
            self.found.growing = (path, _whole_characters(self.text[start + 1 :]))
        raise _Cut

    def scalar(self) -> Any:
        start = self.at
        while self.at < len(self.text) and self.text[self.at] not in b",]} \t\n\r":
            self.at += 1
        word = self.text[start : self.at]
        if self.at == len(self.text) and word not in (b"null", b"true", b"false"):
            # a number may go on, and a word that is cut says nothing
            raise _Cut
        return json.loads(word)


def _whole_characters(raw: bytes) -> str:
    """The characters of a cut string's inside, without the one that is not complete."""
    for cut in range(min(12, len(raw)) + 1):
        try:
            text: str = json.loads(b'"' + raw[: len(raw) - cut] + b'"')
        except ValueError:
            continue
        # half a surrogate pair is no character yet
        return text[:-1] if text and 0xD800 <= ord(text[-1]) < 0xDC00 else text
    return ""
