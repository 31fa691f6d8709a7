"""Hostile and broken schemas: a clear error or a result, soon."""

from __future__ import annotations

from typing import Any

import pytest

from agentrt.errors import SchemaError, SchemaTooLarge, UnsatisfiableSchema
from agentrt.schema import CompileCancelled, compile_schema


def nested(keyword: str, depth: int) -> Any:
    schema: Any = {"type": "integer"}
    for _ in range(depth):
        schema = {keyword: schema if keyword in ("not", "items") else [schema, {"type": "string"}]}
    return schema


@pytest.mark.parametrize(
    "schema",
    [
        {"enum": [f"value-{i}" for i in range(20_000)]},
        {"type": "string", "maxLength": 10**6},
        {"type": "string", "pattern": "^[a-z]+(-[a-z]+)*$", "minLength": 5 * 10**5},
        {"type": "array", "items": {"type": "integer"}, "minItems": 10**6, "maxItems": 10**6},
        nested("items", 300),
    ],
)
def test_large_but_plain_compiles(schema: Any) -> None:
    compile_schema(schema, size=500_000)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "pattern": "^((a{1,100}){1,100}){1,100}$"},
        {"type": "string", "pattern": "(a.{20}|b.{25})c"},
        {
            "oneOf": [
                {"properties": {f"k{j}": {"maxLength": i + j} for j in range(12)}}
                for i in range(12)
            ]
        },
    ],
)
def test_what_explodes_is_refused_by_size(schema: Any) -> None:
    with pytest.raises(SchemaTooLarge):
        compile_schema(schema, size=20_000, deadline=None)


@pytest.mark.parametrize(
    ("schema", "pointer", "said"),
    [
        ({"$ref": "#"}, "", "back to itself"),
        ({"anyOf": [{"$ref": "#"}, {"type": "null"}]}, "/anyOf/0", "back to itself"),
        ({"$ref": "http://example.com/x.json"}, "", "nothing is fetched"),
        ({"$ref": "#/$defs/none"}, "", "leads to nothing"),
        ({"properties": {"a": {"required": True}}}, "/properties/a/required", "list of property"),
        ({"type": "strin"}, "/type", "unknown type"),
        ({"pattern": "("}, "/pattern", "missing"),
        ({"pattern": r"(a)\1"}, "/pattern", "back-reference"),
        ({"minLength": -1}, "/minLength", "no count"),
        ({"const": "\ud800"}, "", "surrogate"),
        ("[" * 100_000, "", "no JSON"),
    ],
)  # fmt: skip
def test_what_is_broken_is_named(schema: Any, pointer: str, said: str) -> None:
    with pytest.raises(SchemaError, match=said) as caught:
        compile_schema(schema)
    assert caught.value.pointer == pointer


def test_deep_combination_is_an_error_not_a_crash() -> None:
    for keyword in ("allOf", "not", "anyOf"):
        with pytest.raises(SchemaError):
            compile_schema(nested(keyword, 400))


def test_a_contradiction_names_both_parts() -> None:
    with pytest.raises(UnsatisfiableSchema, match="/allOf/0 and /allOf/1"):
        compile_schema({"allOf": [{"type": "string"}, {"type": "integer"}]})


def test_endless_nesting_is_unsatisfiable() -> None:
    with pytest.raises(UnsatisfiableSchema):
        compile_schema({"type": "object", "properties": {"x": {"$ref": "#"}}, "required": ["x"]})


def test_cancelling_stops_the_work() -> None:
    with pytest.raises(CompileCancelled):
        compile_schema({"type": "string", "pattern": "a.{18}b"}, cancelled=lambda: True)


def test_recursive_alternatives_told_apart_by_a_required_kind() -> None:
    """The kind contradicts at once; what stands beside it leads back into the alternatives."""
    kinds = {"void": [], "list": ["element"], "map": ["key", "value"], "set": ["element", "order"]}
    alternatives = [
        {
            "type": "object",
            "properties": {
                "type": {"enum": [kind]},
                **{name: {"$ref": "#/$defs/type"} for name in names},
            },
            "required": ["type", *names],
        }
        for kind, names in kinds.items()
    ]
    union = {"allOf": [{"type": "object"}, {"oneOf": alternatives}]}
    shared = {"properties": {"name": {"type": "string"}}, "required": ["name"]}
    schema = {
        "$defs": {"type": union},
        "type": "object",
        "properties": {
            "fields": {"items": {"allOf": [shared, {"$ref": "#/$defs/type"}]}},
            "arguments": {"items": {"allOf": [{"$ref": "#/$defs/type"}, shared]}},
        },
    }
    grammar = compile_schema(schema, size=30_000, deadline=None, key_order="any")
    assert grammar.matches('{"fields":[{"type":"list","name":"x","element":{"type":"void"}}]}')
    assert not grammar.matches('{"fields":[{"type":"list","name":"x"}]}')
    assert not grammar.matches('{"fields":[{"type":"map","name":"x","key":{"type":"void"}}]}')
