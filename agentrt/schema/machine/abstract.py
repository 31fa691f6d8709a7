"""Configurations stripped of what token masks rarely depend on, so that masks can be shared.

Three things are left out: how far a length bound is once no token reaches it, which names and items
were taken already, and the text of the key begun. The first never matters; `Exceptions` lists the
tokens for which the others may, to be tried one by one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentrt.schema.cache import Cache
from agentrt.schema.machine import states as at
from agentrt.schema.machine.texts import StringText, Within

if TYPE_CHECKING:
    from agentrt.schema.machine.frames import Configuration, Frame
    from agentrt.schema.machine.machine import Machine

_NONE: frozenset[str] = frozenset()
_MOST_KEPT = 200_000


class Abstraction:
    """Strips configurations. `reach` is the most characters that one token can write; without it
    the bounds stay."""

    def __init__(self, machine: Machine, reach: int | None) -> None:
        self.machine = machine
        self.reach = reach
        self._known: Cache[int, Configuration] = Cache(_MOST_KEPT)

    def of(self, configuration: Configuration) -> Configuration:
        """The configuration that the mask is worked out for."""
        found = self._known.get(configuration.number)
        if found is None:
            frames = [self.frame(f) for f in configuration.frames]
            found = self.machine.store.configuration(frames)
            self._known.keep(configuration.number, found)
        return found

    def frame(self, frame: Frame) -> Frame:
        parents = frame.parents
        stripped = None if parents is None else self.of(parents)
        state = self.state(frame.state)
        if stripped is parents and state is frame.state:
            return frame
        return self.machine.store.frame(state, stripped)

    def state(self, state: object) -> object:
        if isinstance(state, at.InText) and isinstance(state.text, StringText):
            within = self.within(state.text, state.at)
            return state if within is state.at else state._replace(at=within)
        if isinstance(state, at.InOtherKey):
            return state._replace(at=self.within(state.automaton, state.at), text=None)
        if isinstance(state, at.InObject) and state.others and state.node.free:
            return state._replace(others=_NONE)
        return state

    def within(self, text: StringText, state: object) -> Within:
        assert isinstance(state, Within)
        lo, hi = state.lo, state.hi
        if self.reach is None:
            return state
        if text.dfa is None:
            lo = min(lo, self.reach + 1)
            hi = None if hi is None or hi > lo + self.reach else hi
        elif lo == 0 and hi is not None and hi > self.reach + text.dfa.farthest:
            # from wherever a token leads, an end is near enough
            hi = None
        return state if (lo, hi) == (state.lo, state.hi) else state._replace(lo=lo, hi=hi)
