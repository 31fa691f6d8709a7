"""A short text that leads to the same mask as another, with nothing in it that does not matter.

Texts that a model wrote are nobody else's business: what is kept of one is only what the schema
itself tells apart, such as which keys came. What leads from a place back to it is cut out, and
strings and numbers are replaced by the shortest that lead to the same place.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from agentrt.schema.machine import states as at
from agentrt.schema.machine.numbers import NumberText

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentrt.schema.machine.abstract import Abstraction
    from agentrt.schema.machine.closing import Closing
    from agentrt.schema.machine.frames import Configuration
    from agentrt.schema.machine.machine import Machine

_LONGEST = 512  # bytes of a text, once runs are cut out
_SCALAR = re.compile(rb'"(?:[^"\\]|\\.)*"|-?[0-9][0-9.eE+-]*', re.DOTALL)
_PLAIN_BYTES = b"a0A"
_PLAIN = bytes.maketrans(
    b"bcdefghijklmnopqrstuvwxyzBCDEFGHIJKLMNOPQRSTUVWXYZ123456789",
    b"aaaaaaaaaaaaaaaaaaaaaaaaaAAAAAAAAAAAAAAAAAAAAAAAAA000000000",
)


def is_lasting(configuration: Configuration) -> bool:
    """Whether other texts are likely to come here: not within one number, nor where what may follow
    depends on the items or the unknown names taken."""
    within_number = any(
        isinstance(frame.state, at.InText) and isinstance(frame.state.text, NumberText)
        for frame in configuration.frames
    )
    return configuration.tape is None and not within_number and not _holds_names(configuration)


def _holds_names(configuration: Configuration) -> bool:
    seen, stack = {configuration.number}, [configuration]
    while stack:
        for frame in stack.pop().frames:
            if isinstance(frame.state, at.InObject) and frame.state.others:
                return True
            if frame.parents is not None and frame.parents.number not in seen:
                seen.add(frame.parents.number)
                stack.append(frame.parents)
    return False


class Plain:
    """Makes texts plain. Two places are the same where their masks must be."""

    def __init__(self, machine: Machine, abstraction: Abstraction, closing: Closing) -> None:
        self.machine = machine
        self.abstraction = abstraction
        self.closing = closing

    def of(self, text: bytes) -> bytes | None:
        """A text whose mask is that of `text`; None where none is short."""
        short = self._without_runs(text)
        if short is None or len(short) > _LONGEST:
            return None
        plain = self._plain_scalars(short)
        places = self._places(text), self._places(plain)
        if places[0] is None or places[1] is None or places[0][-1] != places[1][-1]:
            return None
        return plain

    def _places(self, text: bytes) -> list[int] | None:
        """Where the text stands before each byte and at its end."""
        current: Configuration | None = self.machine.start
        out = [self.abstraction.of(current).number]
        for byte in text:
            current = self.machine.step(current, byte)
            if current is None:
                return None
            out.append(self.abstraction.of(current).number)
        return out

    def _without_runs(self, text: bytes) -> bytes | None:
        places = self._places(text)
        if places is None:
            return None
        last = {number: i for i, number in enumerate(places)}
        out, i = bytearray(), last[places[0]]
        while i < len(text):
            out.append(text[i])
            i = last[places[i + 1]]
        return bytes(out)

    def _plain_scalars(self, text: bytes) -> bytes:
        """Each whole string or number that something follows, replaced where that leads on."""
        places = self._places(text)
        current: Configuration | None = self.machine.start
        out, done = b"", 0
        for scalar in _SCALAR.finditer(text):
            start, end = scalar.span()
            if places is None or current is None or end == len(text):
                break
            current = self.machine.run(current, text[done:start])
            out += text[done:start]
            chosen = scalar[0]
            for other in () if current is None else self._candidates(current, chosen):
                reached = self._after(current, other + text[end : end + 1])
                if reached == places[end + 1]:
                    chosen = other
                    break
            current = None if current is None else self.machine.run(current, chosen)
            out, done = out + chosen, end
        tail = text[done:]
        if current is not None and places is not None:
            tail = self._plain_bytes(current, tail, places[-1])
        return out + tail

    def _plain_bytes(self, current: Configuration, text: bytes, goal: int) -> bytes:
        """What is begun: byte by byte."""
        for i in range(len(text)):
            for byte in _PLAIN_BYTES:
                other = text[:i] + bytes([byte]) + text[i + 1 :]
                if self._after(current, other) == goal:
                    text = other
                    break
        return text

    def _after(self, current: Configuration | None, text: bytes) -> int | None:
        reached = None if current is None else self.machine.run(current, text)
        return None if reached is None else self.abstraction.of(reached).number

    def _candidates(self, current: Configuration, scalar: bytes) -> Iterator[bytes]:
        """Short ones first, what is dear to find last."""
        plain = scalar.translate(_PLAIN)
        if scalar.startswith(b'"'):
            yield from (b'""', b'"a"', plain)
        else:
            yield from (b"0", b"1", b"-1", plain.replace(b"0", b"1"), scalar[:1] + plain[1:])
        shortest = _SCALAR.match(self.closing.of(current))
        if shortest is not None:
            yield shortest[0]
