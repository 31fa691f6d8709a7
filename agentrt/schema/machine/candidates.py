"""The few bytes that may come next at most places, so that not all 256 need to be tried."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentrt.schema.machine import states as at
from agentrt.schema.machine.numbers import NumberText
from agentrt.schema.machine.texts import LiteralText, StringText, Within

if TYPE_CHECKING:
    from agentrt.schema.machine.frames import Configuration, Frame
    from agentrt.schema.machine.machine import Machine

_NUMERIC = frozenset(b"0123456789+-.eE")
_SPACES = frozenset(b" \t\n\r")


def candidates(machine: Machine, configuration: Configuration) -> tuple[int, ...] | None:
    """Bytes among which all that may come next are; None where they are many."""
    found = configuration.candidates
    if found is None:
        some = _of_all(machine, configuration)
        found = configuration.candidates = () if some is None else tuple(sorted(some))
    # the empty tuple stands for many: where nothing may follow, nothing is lost by trying
    return found or None


def _of_all(machine: Machine, configuration: Configuration) -> set[int] | None:
    out: set[int] = set()
    for frame in configuration.frames:
        some = _of(machine, frame)
        if some is None:
            return None
        out |= some
    return out


def _of(machine: Machine, frame: Frame) -> set[int] | frozenset[int] | None:
    state, parents = frame.state, frame.parents
    if isinstance(state, at.InText):
        found = _in_text(state)
        if found is None or parents is None or not state.text.may_end(state.at):
            return found
        after = _of_all(machine, parents)
        return None if after is None else found | after
    if isinstance(state, at.InKnownKey):
        return state.node.tree.first_bytes(state.at)
    if isinstance(state, at.InOtherKey):
        return None if state.at.pending else state.automaton.few(state.at)
    return _structural(machine, state)


def _structural(machine: Machine, state: object) -> set[int] | frozenset[int] | None:
    spaces = _SPACES if machine.options.whitespace == "free" else frozenset[int]()
    match state:
        case at.Start():
            return spaces | frozenset(machine.openings(state.value))
        case at.BeforeColon():
            return spaces | {0x3A}
        case at.Expect():
            return {state.byte}
        case at.InObject():
            return spaces | frozenset(b",}" if state.phase == "after" else b'"}')
        case at.InArray():
            if state.phase == "after":
                return spaces | frozenset(b",]")
            ways = machine.items.next_items(state)
            return spaces | {0x5D} | {b for value, _ in ways for b in machine.openings(value)}
        case at.Spaces():
            return _structural(machine, state.inner)
        case at.Done():
            return set()
        case _:
            return None


def _in_text(state: at.InText) -> set[int] | frozenset[int] | None:
    text = state.text
    if isinstance(text, LiteralText):
        assert isinstance(state.at, int)
        return set(text.text[state.at : state.at + 1])
    if isinstance(text, NumberText):
        return _NUMERIC
    if isinstance(text, StringText) and isinstance(state.at, Within) and not state.at.pending:
        return text.few(state.at)
    return None
