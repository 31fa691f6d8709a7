"""A short way to end an object, and a key."""

from __future__ import annotations

import json
from itertools import islice
from typing import TYPE_CHECKING

from agentrt.schema.algebra.objects import bits
from agentrt.schema.cache import Cache
from agentrt.schema.machine import states as at
from agentrt.schema.machine.new_names import NewNames
from agentrt.schema.machine.shortest import LONGEST, shortest_text, written

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from agentrt.schema.algebra.space import Expr
    from agentrt.schema.machine.closing import Closing
    from agentrt.schema.machine.frames import Configuration, Frame

_MOST_KEPT = 50_000
_NONE: frozenset[str] = frozenset()
_TRIED_KEYS = 16
LEAST_MEMBER = len('"":0,')


class ObjectEnds:
    """Ends objects, for a closing."""

    def __init__(self, closing: Closing) -> None:
        self.closing = closing
        self.machine = closing.machine
        self._known: Cache[at.InObject, tuple[bytes | None, bool]] = Cache(_MOST_KEPT)

    def of(self, state: at.InObject) -> bytes | None:
        """What completes an object: the same whichever other names were taken, unless it writes
        such a name itself."""
        bare = state._replace(others=_NONE)
        found = self._known.get(bare)
        if found is None:
            found = self._end(bare)
            if not self.closing.is_within:  # inside a recursion it may not be the shortest
                self._known.keep(bare, found)
        text, writes_names = found
        return self._end(state)[0] if writes_names and state.others else text

    def _end(self, state: at.InObject) -> tuple[bytes | None, bool]:
        """What completes an object, and whether it writes names that are not known."""
        parts, size = list[bytes](), (state.node.plan.shape.lo - state.members) * LEAST_MEMBER
        names = _Names(state)
        while size <= LONGEST:
            if state.phase != "next" and self.machine.members.may_end(state):
                return b"".join((*parts, b"}")), names.some
            if state.phase == "after":
                parts.append(self.closing.comma)
            best = self._best_member(state, names)
            if best is None:
                return None, names.some
            name, text, state = best
            names.take(name)
            parts.append(text)
            size += len(text) - LEAST_MEMBER
        return None, names.some

    def _best_member(
        self, state: at.InObject, names: _Names
    ) -> tuple[str, bytes, at.InObject] | None:
        plan = state.node.plan
        missing = plan.missing(state.seen)
        members: list[tuple[int, bytes, at.InObject, str]] = []
        for name, value, following in self._members(state, missing, names):
            text = self.closing.value(value)
            if text is not None:
                progress = (following.met & ~state.met).bit_count()
                text = _quoted(name) + self.closing.colon + text
                members.append((-progress, text, following, name))
        if plan.all_some & ~state.met and not any(progress for progress, *_ in members):
            # no other member brings one nearer that meets a rule
            members = [member for member in members if member[2].seen & missing]
        if not members:
            return None
        _, text, following, name = min(members, key=lambda m: (m[0], len(m[1]), m[1]))
        return name, text, following

    def _members(
        self, state: at.InObject, missing: int, names: _Names
    ) -> Iterator[tuple[str, Expr, at.InObject]]:
        """The members that may come next: only those that must, if some must and no rule pends."""
        machine, plan = self.machine, state.node.plan
        pending = plan.all_some & ~state.met
        allowed = machine.members.known_names(state)
        must = allowed & missing if not pending else 0
        # all of these come, in whichever order
        for i in bits(must & -must or allowed):
            for value, following in machine.members.after_known(state, i):
                yield plan.names[i], value, following
        if must:
            return
        for number, name in enumerate(names.free()):
            if name is not None:
                # that it is taken then is noted once it is chosen, and not in each of many states
                for value, following in machine.members.after_other(state, number, None):
                    yield name, value, following

    def keys(
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
        names = NewNames(state.automaton.strings, begun, within.dfa)
        name = names.free(state.node.names | parent.others)
        if name is None:
            return None
        return name, rest + written(state.automaton, name[len(begun) :]) + b'"'


class _Names:
    """The names taken while an object is ended, and those that are still free."""

    def __init__(self, state: at.InObject) -> None:
        self._taken = {*state.node.names, *state.others}
        self._first = len(self._taken)
        self._classes = [NewNames(cls.names) for cls in state.node.plan.usable_classes]

    @property
    def some(self) -> bool:
        """Whether any was taken that is not known."""
        return len(self._taken) > self._first

    def free(self) -> list[str | None]:
        """A free name of each class, None where there is none."""
        return [names.free(self._taken) for names in self._classes]

    def take(self, name: str) -> None:
        self._taken.add(name)


def _quoted(name: str) -> bytes:
    return json.dumps(name, ensure_ascii=False).encode()
