"""What a frame can be at. Tuples, for speed of hashing: no two kinds may be equal as such."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from agentrt.schema.algebra.arrays import Counts
    from agentrt.schema.algebra.space import Expr
    from agentrt.schema.machine.items import ArrayNode
    from agentrt.schema.machine.keys import AtName
    from agentrt.schema.machine.members import ObjectNode
    from agentrt.schema.machine.texts import StringText, TextAutomaton, Within


class Done(NamedTuple):
    """After the whole value."""


class Start(NamedTuple):
    """Before a value."""

    value: Expr


class InText(NamedTuple):
    """In a value that holds no others."""

    text: TextAutomaton
    at: object


class InArray(NamedTuple):
    """Between items. `phase`: after the bracket, after a comma, or after an item.

    `seen` are the values so far where they must differ; `unread`: the last one is yet to be read
    back from the tape.
    """

    node: ArrayNode
    phase: str
    position: int
    counts: Counts
    seen: tuple[Expr, ...] = ()
    unread: bool = False


class InObject(NamedTuple):
    """Between members. `phase`: after the brace, after a comma, in a key, or after a value.

    `seen` holds the known names taken, or in declared order those passed by; `others` the names
    taken that were not known.
    """

    node: ObjectNode
    phase: str
    seen: int
    passed: int
    members: int
    met: int
    others: frozenset[str]


class InKnownKey(NamedTuple):
    """In a key, among the known names."""

    node: ObjectNode
    at: AtName


class InOtherKey(NamedTuple):
    """In a key of a class of names: `text` was read of it, None where it does not matter."""

    node: ObjectNode
    automaton: StringText
    cls: int
    at: Within
    text: str | None


class BeforeColon(NamedTuple):
    """After a key, before the colon and a value."""

    value: Expr
    colon: bool = True  # tells it from Start, which tuples alone would not


class Spaces(NamedTuple):
    """After so many bytes of white space at a place where it may stand."""

    inner: object
    spaces: int


class Expect(NamedTuple):
    """Before one byte that must come."""

    byte: int
    inner: object


def bare(state: object) -> object:
    """A state without the spaces before it."""
    # not as a union: that would be made anew each time
    return state.inner if isinstance(state, (Spaces, Expect)) else state
