"""A short way to complete the text from where it stands.

Values are the shortest found by looking through their shapes; objects take the members they must
have, arrays the items. What comes out always completes the text; where members can be chosen freely
it may not be the very shortest.
"""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING

from agentrt.schema.cache import Cache
from agentrt.schema.machine import states as at
from agentrt.schema.machine.array_ends import ArrayEnds
from agentrt.schema.machine.object_ends import LEAST_MEMBER, ObjectEnds
from agentrt.schema.machine.shortest import by_length, joined, least, shortest_text

if TYPE_CHECKING:
    from agentrt.schema.algebra.space import Expr
    from agentrt.schema.machine.frames import Configuration, Frame
    from agentrt.schema.machine.machine import Machine

_MOST_KEPT = 50_000
_MOST_WAYS = 8


class Closing:
    """Finds and keeps the shortest completions of one machine."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        spaced = machine.options.whitespace == "spaced"
        self.comma = b", " if spaced else b","
        self.colon = b": " if spaced else b":"
        self._values: Cache[Expr, bytes] = Cache(_MOST_KEPT)
        self._open: set[Expr] = set()
        self._frames: Cache[int, bytes | None] = Cache(_MOST_KEPT)
        self._doubts: Cache[int, int] = Cache(_MOST_KEPT)
        self._ways: Cache[int, list[tuple[bytes, int]]] = Cache(_MOST_KEPT)
        self.arrays = ArrayEnds(self)
        self.objects = ObjectEnds(self)

    @property
    def is_within(self) -> bool:
        """Whether it is looking into a value: what is found may not be the shortest, where that
        leads back to it."""
        return bool(self._open)

    def of(self, configuration: Configuration) -> bytes | None:
        """What completes the text, but for `doubt`; None where it is longer than LONGEST."""
        known = configuration.closing
        if known is ...:
            found = [f for f in map(self._frame, configuration.frames) if f is not None]
            known = configuration.closing = least(found)
        return known

    def doubt(self, configuration: Configuration) -> int:
        """The most tokens that completing takes beyond those of `of`: where items must differ, what
        the one begun will be is not known."""
        if not self.machine.tells_items_apart:
            return 0
        found = self._doubts.get(configuration.number)
        if found is None:
            found = max(map(self._frame_doubt, configuration.frames))
            self._doubts.keep(configuration.number, found)
        return found

    def _frame_doubt(self, frame: Frame) -> int:
        return self._own_doubt(frame.state) + (self.doubt(frame.parents) if frame.parents else 0)

    def _own_doubt(self, state: object) -> int:
        """That of ending the value that a state is in; 0 where items need not differ."""
        bare = at.bare(state)
        return self.arrays.doubt(bare) if isinstance(bare, at.InArray) else 0

    def each(self, configuration: Configuration) -> list[tuple[bytes, int]]:
        """What completes the text in the ways to read it, some of the shortest, each with its
        doubt: the shortest in bytes need not be so in tokens."""
        found = self._ways.get(configuration.number)
        if found is None:
            ways = {way: None for frame in configuration.frames for way in self._each(frame)}
            found = sorted(ways, key=lambda way: (len(way[0]), way))[:_MOST_WAYS]
            self._ways.keep(configuration.number, found)
        return found

    def _each(self, frame: Frame) -> list[tuple[bytes, int]]:
        state, parents = frame.state, frame.parents
        if parents is None or isinstance(state, at.InKnownKey | at.InOtherKey):
            text = self._frame(frame)
            return [] if text is None else [(text, self._frame_doubt(frame))]
        local, own = self._local(state), self._own_doubt(state)
        ways = [(joined(local, rest), own + doubt) for rest, doubt in self.each(parents)]
        return [(text, doubt) for text, doubt in ways if text is not None]

    def completion(self, configuration: Configuration, text: bytes | None) -> bytes | None:
        """What completes the text, beginning as one of `each`; None for more than LONGEST bytes."""
        done = b""
        while text and configuration.tape is not None:
            # what comes is asked anew after each item: by then it is known
            configuration, read = self._read(configuration, text[: text.find(b",") + 1] or text)
            if not read:
                break
            done, text = done + text[:read], self.of(configuration)
        return None if text is None else done + text

    def _read(self, configuration: Configuration, text: bytes) -> tuple[Configuration, int]:
        """What a text leads to as far as it is allowed, and how far that is."""
        for i, byte in enumerate(text):
            following = self.machine.step(configuration, byte)
            if following is None:
                return configuration, i
            configuration = following
        return configuration, len(text)

    def value(self, expr: Expr) -> bytes | None:
        """A short value of an expression; None inside a recursion that does not end there."""
        found = self._values.get(expr)
        if found is not None or expr in self._open:
            return found
        self._open.add(expr)
        openings = self.machine.openings(expr).items()
        begun = [(_least_size(state), byte, state) for byte, states in openings for state in states]
        for size, byte, state in sorted(begun, key=itemgetter(0)):
            if found is not None and size >= len(found):
                break  # no shorter one is left; what is may be deep
            rest = self._local(state)
            if rest is not None:
                text = bytes([byte]) + rest
                found = text if found is None else min(found, text, key=by_length)
        self._open.discard(expr)
        if found is not None:
            self._values.keep(expr, found)
        return found

    def _frame(self, frame: Frame) -> bytes | None:
        if frame.number in self._frames:
            return self._frames[frame.number]
        found = None
        if frame.parents is None:
            found = b""
        elif isinstance(frame.state, at.InKnownKey | at.InOtherKey):
            found = self._in_key(frame)
        else:
            local = self._local(frame.state)
            rest = None if local is None else self.of(frame.parents)
            found = joined(local, rest)
        return self._frames.keep(frame.number, found)

    def _local(self, state: object) -> bytes | None:
        """What completes the value that a state is in, or before."""
        match state:
            case at.InText():
                return shortest_text(state.text, state.at)
            case at.Start():
                return self.value(state.value)
            case at.BeforeColon():
                value = self.value(state.value)
                return None if value is None else self.colon + value
            case at.InArray():
                return self.arrays.of(state)
            case at.InObject():
                return self.objects.of(state)
            case at.Spaces():
                return self._local(state.inner)
            case at.Expect():
                rest = self._local(state.inner)
                return None if rest is None else bytes([state.byte]) + rest
            case _:
                return None

    def _in_key(self, frame: Frame) -> bytes | None:
        """The rest of the key, its value, and what must follow."""
        assert frame.parents is not None
        state = frame.state
        found: list[bytes] = []
        for rest, members in self.objects.keys(state, frame.parents):
            for parent, value, following in members:
                text = self.value(value)
                end = None if text is None else self._local(following)
                beyond = None if parent.parents is None else self.of(parent.parents)
                whole = joined(rest, self.colon, text, end, beyond)
                if whole is not None:
                    found.append(whole)
        return least(found)


def _least_size(state: object) -> int:
    """Bytes that a value beginning with a state has at the least, its first included."""
    if isinstance(state, at.InArray):
        return max(2, 2 * state.node.plan.lo + 1)
    if isinstance(state, at.InObject):
        plan = state.node.plan
        return max(2, LEAST_MEMBER * max(plan.shape.lo, plan.required.bit_count()) + 1)
    return 1
