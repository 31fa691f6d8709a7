"""The syntax tree of a regular expression."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING

from agentrt.schema.charset import ANY, CharSet, chars

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class At(Enum):
    """A place between two characters that an assertion of no width asks for."""

    START = auto()
    END = auto()
    LINE_START = auto()
    LINE_END = auto()
    WORD_BOUNDARY = auto()
    NOT_WORD_BOUNDARY = auto()
    ASCII_WORD_BOUNDARY = auto()
    NOT_ASCII_WORD_BOUNDARY = auto()
    NOT_EMPTY = auto()


@dataclass(frozen=True, slots=True)
class Chars:
    """One character of a set."""

    set: CharSet


@dataclass(frozen=True, slots=True)
class Cat:
    """One part after the other; none is the empty text."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Alt:
    """Any one of the parts; none is no text at all."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """From `lo` to `hi` (None: any number) repetitions."""

    body: Node
    lo: int
    hi: int | None


@dataclass(frozen=True, slots=True)
class Assertion:
    """Matches the empty text at certain places."""

    at: At


@dataclass(frozen=True, slots=True)
class Look:
    """Look-ahead or look-behind: what follows (precedes) starts (ends) with the body, or not."""

    body: Node
    ahead: bool
    negated: bool


Node = Chars | Cat | Alt | Repeat | Assertion | Look

EMPTY = Cat(())
ANY_TEXT = Repeat(Chars(ANY), 0, None)


def literal(text: str) -> Node:
    """Exactly this text."""
    return cat([Chars(chars(c)) for c in text])


def cat(parts: Sequence[Node]) -> Node:
    return parts[0] if len(parts) == 1 else Cat(tuple(parts))


def alt(parts: Sequence[Node]) -> Node:
    return parts[0] if len(parts) == 1 else Alt(tuple(parts))


def within(node: Node) -> Iterator[Node]:
    """The node and every node inside it."""
    stack = [node]
    while stack:
        found = stack.pop()
        yield found
        match found:
            case Cat(parts) | Alt(parts):
                stack.extend(parts)
            case Repeat(body) | Look(body):
                stack.append(body)
            case Chars() | Assertion():
                pass


def search(node: Node) -> Node:
    """Texts in which the expression matches somewhere."""
    return Cat((ANY_TEXT, node, ANY_TEXT))


# Python's `$`: the end, or before a newline that ends the text
END_OR_FINAL_NEWLINE = Alt(
    (Assertion(At.END), Look(Cat((Chars(chars("\n")), Assertion(At.END))), True, False))
)
