"""What completing costs near the end of a budget, against each token tried alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from agentrt.schema import Vocabulary, compile_schema
from benchmarks.schema_walks import wrong_walks

DIGITS = [f"{i:0{width}d}".encode() for width in (2, 3) for i in range(10**width)]
TOKENS = [
    *(bytes([b]) for b in range(256)),
    *DIGITS,
    *(b'":', b'{"', b'"}', b"0,", b"1]", b".5", b"5e"),
]
NUMBERS = [
    {"type": "integer"},
    {"type": "number"},
    {"type": "integer", "minimum": 0, "maximum": 1_000_000},
    {"type": "integer", "multipleOf": 7, "minimum": 3, "maximum": 9_999},
    {"type": "number", "minimum": -1.5, "exclusiveMaximum": 17.25},
    {"type": "array", "items": {"type": "integer", "minimum": 120, "maximum": 123_456}},
    {"type": "array", "items": {"enum": [1, 12, 1234, "1"]}, "uniqueItems": True},
]


@pytest.fixture(scope="module")
def digits() -> Vocabulary:
    """A vocabulary that has every run of up to three digits."""
    return Vocabulary([*TOKENS, None], [len(TOKENS)])


@pytest.mark.parametrize("schema", NUMBERS)
@pytest.mark.parametrize("left", [1, 2, 3])
def test_with_few_tokens_left_those_remain_that_lead_to_an_end_in_time(
    schema: dict[str, Any], left: int, digits: Vocabulary
) -> None:
    engine = compile_schema(schema, digits).engine
    begun = engine.machine.run(engine.machine.start, b"[1" if schema["type"] == "array" else b"1")
    assert begun is not None
    wanted = set[int]()
    for number, token in enumerate(digits.tokens):
        reached = None if token is None else engine.machine.run(begun, token)
        if reached is not None and engine.budget.cost(reached) <= left - 1:
            wanted.add(number)
    if engine.machine.may_end(begun):
        wanted |= digits.eos_ids
    mask = engine.budget.mask(begun, left)
    found = set[int]()
    if mask is not None:
        bits = np.unpackbits(mask.view(np.uint8), bitorder="little")
        found = set(np.flatnonzero(bits).tolist())
    assert found == wanted


def test_a_thousand_digit_tokens_are_priced_without_a_thousand_places(digits: Vocabulary) -> None:
    schema = {"type": "integer", "minimum": 0, "maximum": 10**12}
    engine = compile_schema(schema, digits).engine
    begun = engine.machine.run(engine.machine.start, b"1")
    assert begun is not None
    engine.masks.of(begun)
    before = engine.machine.store.places
    assert engine.budget.mask(begun, 2) is not None
    assert engine.machine.store.places - before < 50


PARTS = b'ab abab a1 0- xxxxxx a" ", "," "] a\xe2 \\u \\n'.split()
STRINGS = [
    {"type": "string", "minLength": 30},
    {"type": "string", "minLength": 10, "maxLength": 14},
    {"type": "string", "maxLength": 5},
    {"type": "string", "pattern": "^[a-f]{2,6}$", "maxLength": 9},
    {"type": "string", "pattern": "(ab)+", "minLength": 7, "maxLength": 12},
    {"type": "array", "items": {"type": "string", "minLength": 12, "maxLength": 20}},
    {"type": "array", "items": {"type": "string", "minLength": 3}, "uniqueItems": True},
    {"anyOf": [{"type": "string", "minLength": 9}, {"type": "string", "pattern": "^é+$"}]},
]


@pytest.mark.parametrize("schema", STRINGS)
@pytest.mark.parametrize("begun", ["", "a", "ab", "abab"])
def test_strings_keep_the_tokens_from_which_they_end_in_time(
    schema: dict[str, Any], begun: str
) -> None:
    tokens = [*(bytes([b]) for b in range(256)), *PARTS]
    engine = compile_schema(schema, Vocabulary([*tokens, None], [len(tokens)])).engine
    opening = '["' if schema.get("type") == "array" else '"'
    place = engine.machine.run(engine.machine.start, f"{opening}{begun}".encode())
    if place is None:
        pytest.skip("no text of this schema begins so")
    prices = dict[int, int]()
    for number, token in enumerate(tokens):
        reached = engine.machine.run(place, token)
        if reached is not None:
            prices[number] = engine.budget.cost(reached)
    least = engine.budget.cost(place)
    for left in range(least, least + 8):
        mask = engine.budget.mask(place, left)
        bits = b"" if mask is None else mask.tobytes()
        found = {n for n in range(len(tokens)) if bits and bits[n // 8] >> n % 8 & 1}
        assert found == {number for number, price in prices.items() if price <= left - 1}


@pytest.mark.parametrize("others", [{"type": "integer"}, {"type": "object", "minProperties": 2}])
def test_names_that_are_taken_leave_room_for_dearer_ones(others: dict[str, Any]) -> None:
    tokens = [*(bytes([b]) for b in range(256)), b'"a":', b'"b":', b'":', b'{"', b"}}"]
    vocabulary = Vocabulary([*tokens, None], [len(tokens)])
    schema = {"type": "object", "minProperties": 4, "additionalProperties": others}
    grammar = compile_schema(schema, vocabulary, key_order="any")
    assert wrong_walks(schema, grammar, count=120) == []


def test_of_several_readings_the_one_of_fewest_tokens_is_counted() -> None:
    """`":0` is shorter in bytes than `":null`, and takes more tokens."""
    tokens = [*(bytes([b]) for b in range(256)), b'":null}', b'"a']
    vocabulary = Vocabulary([*tokens, None], [len(tokens)])
    by_kind = [{"additionalProperties": {"type": kind}} for kind in ("integer", "null")]
    schema = {"type": "object", "minProperties": 1, "anyOf": by_kind}
    grammar = compile_schema(schema, vocabulary, key_order="any")
    engine = grammar.engine
    place = engine.machine.run(engine.machine.start, b'{"a')
    assert place is not None
    assert engine.budget.cost(place) == 1
    assert engine.budget.plan(place) == [tokens.index(b'":null}')]
    assert wrong_walks(schema, grammar, count=60) == []


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array", "contains": {"type": "string", "maxLength": 0}},
        {"type": "array", "contains": {"maxLength": 2}, "maxItems": 3, "items": {"type": "string"}},
        {
            "type": "object",
            "properties": {"abcdef": {"type": "string", "minLength": 9}},
            "propertyNames": {"anyOf": [{"maxLength": 2}, {"const": "abcdef"}]},
            "additionalProperties": {"type": "null"},
            "minProperties": 1,
        },
    ],
)
def test_the_length_of_one_reading_does_not_price_another(schema: dict[str, Any]) -> None:
    tokens = [*(bytes([b]) for b in range(256)), b'","', b'"]', b'["', b',"', b"abc", b"de"]
    vocabulary = Vocabulary([*tokens, None], [len(tokens)])
    grammar = compile_schema(schema, vocabulary, key_order="any")
    assert wrong_walks(schema, grammar, count=150) == []
