"""Items that must differ, beside rules that count them: against all arrays of a few values."""

from __future__ import annotations

import json
import random
from itertools import product
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from agentrt.errors import SchemaError, UnsatisfiableSchema
from agentrt.schema import Vocabulary, compile_schema
from benchmarks.schema_walks import walk, wrong_walks
from tests.schema.all_arrays import judged_alike

VALUES = [True, False, None, 1, "a"]
RULES: list[dict[str, Any]] = [
    {"contains": {"type": "boolean"}},
    {"contains": {"type": "boolean"}, "minContains": 2},
    {"contains": {"type": "boolean"}, "minContains": 0, "maxContains": 1},
    {"contains": {"const": 1}, "minItems": 3},
    {"contains": {"enum": [1, "a", "b"]}, "minContains": 3},
    {"contains": {"type": "boolean"}, "maxContains": 1, "minItems": 3},
    {"contains": {"type": "boolean"}, "maxContains": 1, "minItems": 4},
    {"contains": {"type": "null"}, "minContains": 2},
]
ITEMS: list[Any] = [True, {"enum": VALUES}, {"type": ["boolean", "null"]}]


@pytest.mark.parametrize("items", ITEMS, ids=str)
@pytest.mark.parametrize("rule", RULES, ids=str)
def test_rules_that_count_them(rule: dict[str, Any], items: Any, vocabulary: Vocabulary) -> None:
    schema = {"type": "array", "uniqueItems": True, "items": items, **rule}
    grammar, _ = judged_alike(schema, vocabulary, values=VALUES, longest=3)
    if grammar is None:
        return
    assert not wrong_walks(schema, grammar, count=2)


PLACES: list[list[Any]] = [
    [{"const": 2}, {"const": True}, {"const": "a"}],
    [{"const": 1}, {"const": 1}],
    [{"enum": [1, 2]}, {"enum": [1, 2]}, {"type": "string"}],
    [{"enum": [1, 2]}, {"enum": [1, 2]}, {"enum": [1, 2]}, {"type": "string"}],
    [{"type": "integer"}, {"type": "string"}],
]


@pytest.mark.parametrize("places", PLACES, ids=str)
def test_values_that_differ_by_place(places: list[Any], vocabulary: Vocabulary) -> None:
    schema = {"type": "array", "uniqueItems": True, "prefixItems": places, "items": False,
              "minItems": len(places)}  # fmt: skip
    judge = Draft202012Validator(schema)
    values = product([1, 2, True, "a"], repeat=len(places))
    fitting = [list(each) for each in values if judge.is_valid(list(each))]
    if not fitting:
        with pytest.raises(UnsatisfiableSchema):
            compile_schema(schema)
        return
    grammar = compile_schema(schema, vocabulary)
    assert all(grammar.matches(json.dumps(each, separators=(",", ":"))) for each in fitting)
    assert not wrong_walks(schema, grammar, count=4)


def test_the_last_kind_is_of_every_item_that_follows() -> None:
    schema = {"type": "array", "uniqueItems": True, "prefixItems": [{"const": "a"}],
              "items": {"type": "boolean"}}  # fmt: skip
    assert compile_schema({**schema, "minItems": 3}).matches('["a",true,false]')
    with pytest.raises(UnsatisfiableSchema):
        compile_schema({**schema, "minItems": 4})


def test_few_values_shared_between_places_are_refused() -> None:
    with pytest.raises(SchemaError, match="differ by position"):
        compile_schema({"type": "array", "uniqueItems": True, "minItems": 2,
                        "prefixItems": [{"type": "integer"}, {"const": 1}]})  # fmt: skip


def test_two_rules_over_few_values_are_refused() -> None:
    rules = [{"contains": {"const": value}} for value in VALUES]
    with pytest.raises(SchemaError, match="rules count apart"):
        compile_schema({"type": "array", "uniqueItems": True, "allOf": rules})
    endless = [{"contains": {"type": kind}} for kind in ("string", "number")]
    schema = {"type": "array", "uniqueItems": True, "maxItems": 2, "allOf": endless,
              "items": {"type": ["string", "number"]}}  # fmt: skip
    assert compile_schema(schema).matches('["a",1]')


# "null," is one token and "null]" is not: a short text may take more tokens than a long one
WITH_COMMAS = [*(bytes([b]) for b in range(256)), b"null,", b"[true,", b",true", b"false", b'","']


@pytest.mark.parametrize(
    "rules",
    [
        {"items": {"type": ["boolean", "null"]}, "minItems": 3},
        {"items": {"enum": [1, 12, "a", None, True]}, "minItems": 4},
        {"contains": {"enum": [12, "a long text", "true", None]}, "minContains": 3},
        {"items": {"type": "string"}, "minItems": 3},
    ],
    ids=str,
)
def test_the_item_begun_may_take_the_place_of_a_cheaper_one(rules: dict[str, Any]) -> None:
    vocabulary = Vocabulary([*WITH_COMMAS, None], [len(WITH_COMMAS)])
    schema = {"type": "array", "uniqueItems": True, **rules}
    grammar = compile_schema(schema, vocabulary)
    chooser = random.Random(0)
    judge = Draft202012Validator(schema)
    for spare in [0, 1, 2, 3] * 8:
        text = walk(grammar, chooser, grammar.min_tokens + spare)
        assert judge.is_valid(json.loads(text))
