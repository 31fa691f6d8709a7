"""Masks inside strings, against the string's own automaton stepped token by token."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from agentrt.schema import compile_regex, compile_schema
from agentrt.schema.machine.states import InText
from agentrt.schema.machine.texts import StringText, Within
from agentrt.schema.tokens.leaves import Leaves

if TYPE_CHECKING:
    from agentrt.schema import Grammar, Vocabulary

PATTERNS = [
    {},
    {"minLength": 2},
    {"maxLength": 3},
    {"minLength": 2, "maxLength": 3},
    {"pattern": "^[a-m]+$"},
    {"pattern": "^[a-m]*e$", "maxLength": 3},
    {"pattern": "^(na|me|ab)*$", "minLength": 3, "maxLength": 5},
    {"pattern": "^[^a]*$", "minLength": 1},
    {"pattern": "[^\\u0000-\\uffff]", "maxLength": 2},
    {"format": "date"},
]


def start_of(grammar: Grammar, first: bytes) -> tuple[StringText, Within]:
    machine = grammar.engine.machine
    reached = machine.run(machine.start, first)
    assert reached is not None
    state = reached.frames[0].state
    assert isinstance(state, InText)
    assert isinstance(state.text, StringText)
    assert isinstance(state.at, Within)
    return state.text, state.at


def brute(text: StringText, start: Within, vocabulary: Vocabulary) -> tuple[set[int], set[bytes]]:
    """The tokens that stay within, and what tokens that leave hold after the quote."""
    inside, after = set[int](), set[bytes]()
    for number, token in enumerate(vocabulary.tokens):
        state: Within | None = start
        for i, byte in enumerate(token or b""):
            state = text.step(state, byte)
            if state is None:
                break
            if text.is_closed(state):
                after.add((token or b"")[i + 1 :])
                break
        else:
            if token:
                inside.add(number)
    return inside, after


def texts_below(vocabulary: Vocabulary, node: Any, sofar: bytes = b"") -> set[bytes]:
    found = {sofar} if node.tokens else set[bytes]()
    for byte, child in node.children.items():
        found |= texts_below(vocabulary, child, sofar + bytes([byte]))
    return found


def check(text: StringText, start: Within, vocabulary: Vocabulary) -> None:
    leaf = Leaves(vocabulary).of(text, start)
    bits = np.unpackbits(leaf.inside.view(np.uint8), bitorder="little")[: vocabulary.size]
    inside, after = brute(text, start, vocabulary)
    assert set(np.flatnonzero(bits).tolist()) == inside
    assert (set() if leaf.after is None else texts_below(vocabulary, leaf.after)) == after


@pytest.mark.parametrize("schema", PATTERNS)
@pytest.mark.parametrize("ascii_only", [False, True])
def test_leaves_agree_with_the_automaton(
    schema: dict[str, Any], ascii_only: bool, vocabulary: Vocabulary
) -> None:
    grammar = compile_schema({"type": "string", **schema}, vocabulary, ascii_only=ascii_only)
    for first in (b'"', b'"a', b'"na', b'"\xf0\x9f\x98\x80', b'"\\n'):
        if grammar.accepts_prefix(first):
            check(*start_of(grammar, first), vocabulary)


@pytest.mark.parametrize("pattern", [r'[a-z" \\]*', r"\w+é?", r".{2,4}", r"(?s:.)*x"])
def test_texts_that_are_no_json_hold_quotes_as_they_are(
    pattern: str, vocabulary: Vocabulary
) -> None:
    check(*start_of(compile_regex(pattern, vocabulary), b""), vocabulary)


def test_places_are_where_the_automaton_stands_after_a_token(vocabulary: Vocabulary) -> None:
    grammar = compile_schema({"type": "string", "pattern": "^(na|me|ab)*$"}, vocabulary)
    text, start = start_of(grammar, b'"')
    tokens, states, read = Leaves(vocabulary).places(text, start)
    assert len(tokens) > 0
    for token, state, count in zip(tokens.tolist(), states.tolist(), read.tolist(), strict=True):
        spelled = vocabulary.tokens[token]
        assert spelled is not None
        within: Within | None = start
        for byte in spelled:
            assert within is not None
            within = text.step(within, byte)
        assert within is not None
        assert (within.dfa, len(spelled.decode())) == (state, count)
