"""The flat regex: it takes the same texts as the grammar, or is refused with the reason."""

from __future__ import annotations

import datetime
import json
import random
import re
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from agentrt.errors import SchemaError
from agentrt.schema import Grammar, Vocabulary, compile_choices, compile_regex, compile_schema
from agentrt.schema.flat.spelling import digit_runs


class Address(BaseModel):
    street: str = Field(max_length=5)
    number: int = Field(ge=-12, le=1375)
    note: str | None = None


class Person(BaseModel):
    model_config = {"extra": "forbid"}
    name: str
    kind: Literal['a"b', "caf\u00e9", "\U0001f600"] = "caf\u00e9"
    born: datetime.date | None = None
    size: float = 1.0
    tags: list[bool] = Field(default=[], min_length=1, max_length=3)
    home: tuple[int, Literal["x"]] | None = None


CLOSED: dict[str, Any] = {"additionalProperties": False}
FLAT: list[tuple[Any, dict[str, Any]]] = [
    (Person, {}),
    (Person, {"whitespace": "spaced"}),
    (Person, {"ascii_only": True}),
    ({"properties": {"a": {"type": "null"}, "b": {}}, "required": ["b"], "type": "object", **CLOSED}
     | {"properties": {"a": {"type": "null"}, "b": {"type": "integer"}}}, {}),
    ({"enum": [1, "two", None, [3, {"four": 5.5}], True]}, {}),
    ({"type": "integer"}, {"max_digits": 4}),
    ({"type": "number"}, {"plain_numbers": "all", "max_digits": 3}),
    ({"type": "integer", "exclusiveMinimum": 7, "maximum": 123456}, {"plain_numbers": "all"}),
    ({"type": "integer", "minimum": 95}, {"plain_numbers": "integers", "max_digits": 4}),
    ({"type": "integer", "maximum": -3}, {"plain_numbers": "all", "max_digits": 3}),
    ({"type": "string", "pattern": "^[a-c]+[^a-z]?$", "minLength": 2, "maxLength": 6}, {}),
    ({"type": "string", "pattern": "^[\u0001-\u0003\u20ac-\u20af\U00010300-\U00012000]$"}, {}),
    ({"type": "array", "items": {"type": "boolean"}}, {}),
    ({"type": "array", "prefixItems": [{"const": 1}, {"const": 2}], "items": {"const": 3},
      "minItems": 1}, {}),
    ({"type": "array", "prefixItems": [{"const": 1}, {"const": 2}], "maxItems": 1}, {}),
]  # fmt: skip


def samples(grammar: Grammar, rng: random.Random) -> list[str]:
    """Texts that match, by choosing tokens at random."""
    out: list[str] = []
    for _ in range(25):
        matcher = grammar.matcher(jump=False)
        budget = grammar.min_tokens + rng.choice((0, 5, 40))
        while not matcher.is_finished and len(matcher.token_ids) < budget:
            mask = matcher.next(budget - len(matcher.token_ids)).mask  # type: ignore[union-attr]
            bits = [
                i for i in range(grammar.engine.vocabulary.size) if mask[i >> 5] >> (i & 31) & 1
            ]
            matcher.accept(rng.choice(bits))
        assert matcher.is_complete
        out.append(matcher.text.decode())
    return out


def mutated(text: str, rng: random.Random) -> str:
    at = rng.randrange(len(text) + 1)
    new = rng.choice(['"', "\\", "0", "9", "-", ",", "a", "}", " ", "\\u00e9", "\u00e9", ".", "\n"])
    cut = rng.choice((0, 0, 1, 2))
    return text[:at] + rng.choice((new, "")) + text[at + cut :]


@pytest.mark.parametrize(("schema", "options"), FLAT)
def test_the_regex_takes_what_the_grammar_takes(
    schema: Any, options: dict[str, Any], vocabulary: Vocabulary
) -> None:
    if isinstance(schema, type):
        schema = schema.model_json_schema()
        schema = json.loads(json.dumps(schema)) | CLOSED
        options = {"plain_numbers": "all", "max_digits": 5, **options}
    grammar = compile_schema(schema, vocabulary, **options)
    regex = re.compile(grammar.regex())
    rng = random.Random(3)
    refused = 0
    for text in samples(grammar, rng):
        assert regex.fullmatch(text), (regex.pattern, text)
        for _ in range(25):
            other = mutated(text, rng)
            assert bool(regex.fullmatch(other)) == grammar.matches(other), other
            refused += not grammar.matches(other)
    assert refused > 100


@pytest.mark.parametrize(
    ("schema", "options", "reason"),
    [
        ({"$ref": "#/$defs/a", "$defs": {"a": {"type": "array", "items": {"$ref": "#/$defs/a"}}}},
         {}, "recursive"),
        ({"type": "object", "properties": {"a": {"const": 1}}, **CLOSED}, {"key_order": "any"},
         "any order"),
        ({"type": "object"}, {}, "may not come twice"),
        ({"type": "object", "properties": {"a": {}, "b": {}}, "maxProperties": 1, **CLOSED}, {},
         "counted"),
        ({"type": "object", "properties": {"a": {}, "b": {}}, "dependentRequired": {"a": ["b"]},
          **CLOSED}, {}, "depends on one another"),
        ({"type": "number", "minimum": 0.5}, {"plain_numbers": "all"}, "exact arithmetic"),
        ({"type": "integer", "multipleOf": 7}, {"plain_numbers": "all"}, "multiples"),
        ({"type": "array", "items": {"type": "integer"}, "uniqueItems": True}, {}, "must differ"),
        ({"type": "integer"}, {"whitespace": "free"}, "white space"),
        ({"type": "string", "format": "uri"}, {}, "states"),
    ],
)  # fmt: skip
def test_what_is_not_flat_is_refused(schema: Any, options: dict[str, Any], reason: str) -> None:
    with pytest.raises(SchemaError, match=reason):
        compile_schema(schema, **options).regex()


def test_what_is_not_small_is_refused_with_its_place() -> None:
    long = {"type": "array", "prefixItems": [{"const": "alphabet"}] * 50, "items": False}
    schema = {"type": "object", "properties": {"a": long}}
    with pytest.raises(SchemaError) as caught:
        compile_schema({**schema, **CLOSED}).regex(most=400)
    assert caught.value.pointer.startswith("/properties/a")
    assert "400" in caught.value.reason


def test_regexes_and_choices_are_their_own_view() -> None:
    assert compile_regex(r"a\d+").regex() == r"a\d+"
    choices = re.compile(compile_choices(["a.c", "(", ""]).regex())
    assert [bool(choices.fullmatch(t)) for t in ("a.c", "(", "", "abc")] == [
        True,
        True,
        True,
        False,
    ]


@given(st.integers(0, 9999), st.integers(0, 9999))
def test_runs_of_digits_are_exactly_what_lies_between(a: int, b: int) -> None:
    lo, hi = min(a, b), max(a, b)
    regex = re.compile("|".join(digit_runs(lo, hi, 4)))
    for n in {
        0,
        9999,
        lo,
        hi,
        max(lo - 1, 0),
        min(hi + 1, 9999),
        (lo + hi) // 2,
        *range(0, 9999, 97),
    }:
        assert bool(regex.fullmatch(f"{n:04}")) == (lo <= n <= hi)
