"""A short way to complete the text from where it stands.

Values are the shortest found by looking through their shapes; objects take the members they must
have, arrays the items. What comes out always completes the text; where members can be chosen freely
it may not be the very shortest.
"""

from __future__ import annotations

import json
from itertools import count, islice
from typing import TYPE_CHECKING

from agentrt.schema.algebra import consts
from agentrt.schema.cache import Cache
from agentrt.schema.machine import states as at
from agentrt.schema.machine.shortest import shortest_text, written

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from agentrt.schema.algebra.space import Expr
    from agentrt.schema.machine.frames import Configuration, Frame
    from agentrt.schema.machine.machine import Machine
    from agentrt.schema.values.strings import Strings

_MOST_MEMBERS = 100_000
_MOST_KEPT = 50_000
_NONE: frozenset[str] = frozenset()
_TRIED_KEYS = 16


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
        self._objects: Cache[at.InObject, tuple[bytes | None, bool]] = Cache(_MOST_KEPT)

    def of(self, configuration: Configuration) -> bytes:
        """A text as long as what completes it, at the least: where items must differ, that of the
        item begun is not known, and a next one may be the same."""
        if configuration.closing is None:
            found = [f for f in map(self._frame, configuration.frames) if f is not None]
            configuration.closing = _least(found) or b""
        return configuration.closing

    def completion(self, configuration: Configuration) -> bytes:
        """What completes the text."""
        done, text = b"", self.of(configuration)
        while configuration.tape is not None and b"," in text:
            configuration, read = self._read(configuration, text)
            if read in (0, len(text)):
                break
            # an item would be one that is there already: by now it is known
            done, text = done + text[:read], self.of(configuration)
        return done + text

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
        openings = self.machine.openings(expr)
        texts = [
            bytes([byte]) + rest
            for byte, states in openings.items()
            for state in states
            if (rest := self._local(state)) is not None
        ]
        self._open.discard(expr)
        found = _least(texts)
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
            if local is not None:
                found = local + self.of(frame.parents)
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
                return self._array(state)
            case at.InObject():
                return self._whichever_names(state)
            case at.Spaces():
                return self._local(state.inner)
            case at.Expect():
                rest = self._local(state.inner)
                return None if rest is None else bytes([state.byte]) + rest
            case _:
                return None

    def _array(self, state: at.InArray) -> bytes | None:
        """Where an item is begun that the others may not be, it is taken to be the next best."""
        best = self._best_item(state) if state.unread and not self._may_end(state) else None
        careful = None if best is None else self._items(self._seeing(state, best[0]))
        return careful or self._items(state)

    @staticmethod
    def _may_end(state: at.InArray) -> bool:
        return state.phase != "next" and state.node.plan.may_end(state.position, state.counts)

    def _items(self, state: at.InArray) -> bytes | None:
        out = b""
        for _ in range(_MOST_MEMBERS):
            if self._may_end(state):
                return out + b"]"
            best = self._best_item(state)
            if best is None:
                return None
            text, following = best
            out += (self.comma if state.phase == "after" else b"") + text
            state = self._seeing(following, text) if following.unread else following
        return None

    def _best_item(self, state: at.InArray) -> tuple[bytes, at.InArray] | None:
        """One that is counted where such are still needed, else the shortest; and the state after
        it."""
        plan = state.node.plan
        ways = [
            (
                sum(a > b for a, b in zip(following.counts, state.counts, strict=True)),
                text,
                following,
            )
            for value, following in self.machine.items.next_items(state)
            if (text := self.value(value)) is not None
        ]
        if not plan.satisfied(state.counts):
            most = max((progress for progress, _, _ in ways), default=0)
            # no other item brings one nearer that matches, unless a place does
            if not most and state.position >= plan.uniform_from:
                return None
            ways = [way for way in ways if way[0] == most]
        if not ways:
            return None
        _, text, following = min(ways, key=lambda way: (len(way[1]), way[1]))
        return text, following

    def _seeing(self, state: at.InArray, text: bytes) -> at.InArray:
        """The state with an item among those that were seen."""
        value = consts.one_of(self.machine.space, [json.loads(text)], "")
        return state._replace(seen=tuple(sorted({*state.seen, value})), unread=False)

    def _whichever_names(self, state: at.InObject) -> bytes | None:
        """What completes an object: the same whichever other names were taken, unless it writes
        such a name itself."""
        bare = state._replace(others=_NONE)
        found = self._objects.get(bare)
        if found is None:
            text, last = self._object(bare)
            found = text, bool(last.others)
            if not self._open:  # inside a recursion it may not be the shortest
                self._objects.keep(bare, found)
        text, writes_names = found
        return self._object(state)[0] if writes_names and state.others else text

    def _object(self, state: at.InObject) -> tuple[bytes | None, at.InObject]:
        """What completes an object, and the state before its end."""
        out = b""
        for _ in range(_MOST_MEMBERS):
            if state.phase != "next" and self.machine.members.may_end(state):
                return out + b"}", state
            if state.phase == "after":
                out += self.comma
            best = self._best_member(state)
            if best is None:
                return None, state
            text, state = best
            out += text
        return None, state

    def _best_member(self, state: at.InObject) -> tuple[bytes, at.InObject] | None:
        plan = state.node.plan
        missing = plan.missing(state.seen)
        members: list[tuple[int, bytes, at.InObject]] = []
        for key, value, following in self._members(state, missing):
            text = self.value(value)
            if text is not None:
                progress = (following.met & ~state.met).bit_count()
                members.append((-progress, key + self.colon + text, following))
        if plan.all_some & ~state.met and not any(progress for progress, _, _ in members):
            # no other member brings one nearer that meets a rule
            members = [member for member in members if member[2].seen & missing]
        if not members:
            return None
        _, text, following = min(members, key=lambda m: (m[0], len(m[1]), m[1]))
        return text, following

    def _members(
        self, state: at.InObject, missing: int
    ) -> Iterator[tuple[bytes, Expr, at.InObject]]:
        """The members that may come next: only those that must, if some must and no rule pends."""
        machine, plan = self.machine, state.node.plan
        pending = plan.all_some & ~state.met
        allowed = machine.members.known_names(state)
        chosen = allowed & missing if allowed & missing and not pending else allowed
        if plan.ordered and chosen:
            chosen = chosen & -chosen if not pending else chosen
        for i in range(len(plan.names)):
            if chosen >> i & 1:
                for value, following in machine.members.after_known(state, i):
                    yield _quoted(plan.names[i]), value, following
        if allowed & missing and not pending:
            return
        for number, cls in enumerate(plan.usable_classes):
            name = self._new_name(cls.names, state.node.names | state.others)
            if name is not None:
                for value, following in machine.members.after_other(state, number, name):
                    yield _quoted(name), value, following

    def _new_name(
        self, names: Strings, taken: frozenset[str], begun: str = "", state: int = 0
    ) -> str | None:
        """One that is not taken and begins so, which leads to this state of the automaton."""
        # a name may come twice, as one of its kind and as one of all
        some = islice(_some_names(names, begun, state), 2 * len(taken) + 64)
        return next((name for name in some if name not in taken), None)

    def _in_key(self, frame: Frame) -> bytes | None:
        """The rest of the key, its value, and what must follow."""
        assert frame.parents is not None
        state = frame.state
        found: list[bytes] = []
        for rest, members in self._key_ends(state, frame.parents):
            for parent, value, following in members:
                text = self.value(value)
                end = None if text is None else self._local(following)
                if text is not None and end is not None and parent.parents is not None:
                    found.append(rest + self.colon + text + end + self.of(parent.parents))
        return _least(found)

    def _key_ends(
        self, state: object, parents: Configuration
    ) -> Iterator[tuple[bytes, Iterable[tuple[Frame, Expr, at.InObject]]]]:
        machine = self.machine
        if isinstance(state, at.InKnownKey):
            for index, rest in islice(state.node.tree.completions(state.at), _TRIED_KEYS):
                yield (
                    rest,
                    [
                        (parent, value, following)
                        for parent in parents.frames
                        if isinstance(parent.state, at.InObject)
                        for value, following in machine.members.after_known(parent.state, index)
                    ],
                )
        elif isinstance(state, at.InOtherKey):
            for parent in parents.frames:
                if isinstance(parent.state, at.InObject):
                    end = self._other_end(state, parent.state)
                    if end is not None:
                        ways = machine.members.after_other(parent.state, state.cls, end[0])
                        yield end[1], [(parent, value, following) for value, following in ways]

    def _other_end(
        self, state: at.InOtherKey, parent: at.InObject
    ) -> tuple[str | None, bytes] | None:
        """A name not yet taken that the key begun can become, and what is left of it to write."""
        end = shortest_text(state.automaton, state.at)
        if end is None or state.text is None:
            return None if end is None else (None, end)
        within, rest, begun = state.at, b"", state.text
        while within.pending is not None:  # a character begun ends as in the shortest text
            byte = end[len(rest)]
            found = state.automaton.codec.step(within.pending, byte)
            following = state.automaton.step(within, byte)
            assert following is not None
            within, rest = following, rest + bytes([byte])
            begun += chr(found) if isinstance(found, int) else ""
        name = self._new_name(
            state.automaton.strings, state.node.names | parent.others, begun, within.dfa
        )
        if name is None:
            return None
        return name, rest + written(state.automaton, name[len(begun) :]) + b'"'


def _least(texts: list[bytes]) -> bytes | None:
    return min(texts, key=lambda t: (len(t), t), default=None)


def _quoted(name: str) -> bytes:
    return json.dumps(name, ensure_ascii=False).encode()


def _some_names(names: Strings, begun: str, state: int) -> Iterator[str]:
    """Names of a class that begin so, short ones first, as many as are asked for."""
    if names.dfa is None:
        for number in count():
            name = (begun + _lettered(number)).ljust(names.lo, "a")
            if names.contains(name):
                yield name
            elif names.hi is not None and len(name) > names.hi:
                return
        return
    frontier: list[tuple[int, str]] = [(state, begun)]
    samples = names.dfa.alphabet.samples()
    while frontier:
        following: list[tuple[int, str]] = []
        for place, text in frontier:
            if names.contains(text):
                yield text
            for cls, target in enumerate(names.dfa.rows[place]):
                if target in names.dfa.live and len(following) < 4096:
                    following.append((target, text + _printable(names, cls, samples[cls])))
        frontier = following
    # of finitely many, one of each kind may not be enough
    words = filter(names.contains, names.dfa.words())
    yield from (name for name in words if name.startswith(begun))


def _printable(names: Strings, cls: int, sample: int) -> str:
    assert names.dfa is not None
    symbols = names.dfa.alphabet
    for c in "a1A_-. ":
        if symbols.class_of(ord(c)) == cls:
            return c
    return chr(sample)


def _lettered(number: int) -> str:
    out = ""
    while number:
        number, digit = divmod(number - 1, 26)
        out = chr(0x61 + digit) + out
    return out
