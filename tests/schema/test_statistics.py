"""A grammar's figures, and its flat view: a regex of exactly the same texts."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from pydantic import BaseModel

from agentrt.schema import Grammar, compile_regex, compile_schema
from agentrt.schema.statistics import count_states
from agentrt.testing import ByteCodec

VOCABULARY = ByteCodec().vocabulary


class Mixed(BaseModel):
    a: Literal["x", "y"]
    b: bool | None = None
    c: int | None = 3
    e: Literal[5]


class Optional(BaseModel):
    a: bool = True
    b: bool = True
    c: bool = True


class Nested(BaseModel):
    first: Optional
    n: int


def difference(one: Grammar, other: Grammar) -> bytes | None:
    """The beginning of a text that one takes and the other does not: both walked side by side."""
    a, b = one.engine.machine, other.engine.machine
    reached: dict[Any, bytes] = {(a.start, b.start): b""}
    waiting = list(reached)
    while waiting:
        x, y = pair = waiting.pop()
        if a.may_end(x) != b.may_end(y):
            return reached[pair]
        for byte in range(256):
            following = a.step(x, byte), b.step(y, byte)
            text = reached[pair] + bytes([byte])
            if (following[0] is None) != (following[1] is None):
                return text
            if following[0] is not None and following not in reached:
                reached[following] = text
                waiting.append(following)
    return None


@pytest.mark.parametrize("kind", [Mixed, Optional, Nested, int, bool, Literal["a.b", "c*"]])
def test_the_view_matches_what_the_grammar_does(kind: Any) -> None:
    grammar = compile_schema(kind, VOCABULARY)
    assert difference(grammar, compile_regex(grammar.regex(), VOCABULARY)) is None


def test_the_walk_sees_a_difference() -> None:
    grammar = compile_schema(bool, VOCABULARY)
    assert difference(grammar, compile_regex("true|fals", VOCABULARY)) is not None


def test_figures_count_states_and_what_is_forced() -> None:
    grammar = compile_schema(Mixed, VOCABULARY)
    found = grammar.statistics()
    assert count_states(grammar)[1] is True
    assert found.shortest == '{"a":"x","e":5}'
    # x or y, then , and "b, "c or "e are chosen
    assert (found.shortest_tokens, found.forced_tokens) == (15, 12)
    assert count_states(compile_schema(str, VOCABULARY), most=3) == (3, False)
