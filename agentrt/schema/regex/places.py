"""What assertions ask of a place between two characters, and what of the characters tells it."""

from __future__ import annotations

from typing import NamedTuple

from agentrt.schema.charset import CharSet, chars
from agentrt.schema.regex import classes
from agentrt.schema.regex.alphabet import alphabet
from agentrt.schema.regex.nodes import Assertion, At, Chars, Node, within

_LINES = {At.LINE_START, At.LINE_END}
_WORDS = {At.WORD_BOUNDARY, At.NOT_WORD_BOUNDARY}
_ASCII_WORDS = {At.ASCII_WORD_BOUNDARY, At.NOT_ASCII_WORD_BOUNDARY}
SEES_BEFORE = {At.START, At.NOT_EMPTY, *_LINES, *_WORDS, *_ASCII_WORDS}


class Kind(NamedTuple):
    """What assertions may tell of a character; what no assertion asks for is left False."""

    word: bool
    ascii_word: bool
    newline: bool


class Place(NamedTuple):
    """The kinds of the characters around; None where the text begins or ends."""

    before: Kind | None
    after: Kind | None


class Symbols:
    """The classes of characters that a whole expression tells apart, its look-arounds included."""

    def __init__(self, node: Node) -> None:
        sets: set[CharSet] = set()
        guards: set[At] = set()
        for part in within(node):
            if isinstance(part, Chars):
                sets.add(part.set)
            elif isinstance(part, Assertion):
                guards.add(part.at)
        told = [
            given() if guards & asking else CharSet(())
            for asking, given in (
                (_WORDS, classes.unicode_word),
                (_ASCII_WORDS, lambda: classes.ASCII_WORD),
                (_LINES, lambda: chars("\n")),
            )
        ]
        self.alphabet = alphabet(sets.union(told))
        self.samples = self.alphabet.samples()
        self.kinds = [Kind(*(sample in given for given in told)) for sample in self.samples]


def holds(at: At, place: Place) -> bool:
    before, after = place
    match at:
        case At.START:
            return before is None
        case At.END:
            return after is None
        case At.NOT_EMPTY:
            return before is not None or after is not None
        case At.LINE_START:
            return before is None or before.newline
        case At.LINE_END:
            return after is None or after.newline
        case At.WORD_BOUNDARY | At.NOT_WORD_BOUNDARY:
            words = [kind is not None and kind.word for kind in place]
            return (words[0] != words[1]) == (at is At.WORD_BOUNDARY)
        case At.ASCII_WORD_BOUNDARY | At.NOT_ASCII_WORD_BOUNDARY:
            words = [kind is not None and kind.ascii_word for kind in place]
            return (words[0] != words[1]) == (at is At.ASCII_WORD_BOUNDARY)
