"""Hostile and broken schemas: a clear error or a result, soon."""

from __future__ import annotations

from typing import Any

import pytest

from agentrt.errors import SchemaError, SchemaTooLarge, UnsatisfiableSchema
from agentrt.schema import CompileCancelled, Vocabulary, compile_schema, limits
from agentrt.schema.limits import Limits


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
        {"type": "array", "items": {"type": "integer"}, "minItems": 10**6, "uniqueItems": True},
        {
            "oneOf": [
                {"properties": {f"k{i}": {"type": "integer"}}, "required": [f"k{i}"]}
                for i in range(24)
            ]
        },
        {
            "$ref": "#/$defs/d0",
            "$defs": {"d60": {}}
            | {f"d{i}": {"allOf": [{"$ref": f"#/$defs/d{i + 1}"}] * 2} for i in range(60)},
        },
        {
            "$ref": "#/$defs/d0",
            "$defs": {
                f"d{i}": {
                    "type": "object",
                    "properties": {"x": {"$ref": f"#/$defs/d{(i + 1) % 1000}"}},
                }
                for i in range(1000)
            },
        },
        {"type": "integer", "allOf": [{"multipleOf": n} for n in (7919, 7907, 7901, 7883, 7879)]},
    ],
    ids=lambda schema: str(schema)[:40],
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
        {"patternProperties": {f"{c}.*{d}": {"minimum": i} for i, (c, d) in
                               enumerate(zip("abcdefghijkl", "lkjihgfedcba", strict=True))}},
        {"type": "array", "contains": {"type": "integer"}, "minContains": 10**5},
    ],
    ids=lambda schema: str(schema)[:40],
)  # fmt: skip
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
        ({"properties": 3}, "/properties", "no dict"),
        ({"type": ["string", []]}, "/type", "unknown type"),
        ({"dependentRequired": {"a": [[]]}}, "/dependentRequired/a", "list of property names"),
        ({"dependentSchemas": {"a": 1}}, "/dependentSchemas/a", "object or a boolean"),
        ({"dependentSchemas": 1}, "/dependentSchemas", "is an object"),
        ({"const": "\ud800"}, "", "surrogate"),
        ("[" * 100_000, "", "no JSON"),
        ('{"items":' * 10_000 + "{}" + "}" * 10_000, "", "no JSON"),
        ('{"const":"\\uZZZZ"}', "", "no JSON"),
        ('{"required":["\\udfff"]}', "", "surrogate"),
        ('{"minimum":1e400}', "/minimum", "no JSON number"),
        ('{"minimum":' + "9" * 5000 + "}", "", "no JSON"),
        ({"pattern": "(" * 5000 + ")" * 5000}, "/pattern", "nested more than"),
    ],
)  # fmt: skip
def test_what_is_broken_is_named(schema: Any, pointer: str, said: str) -> None:
    with pytest.raises(SchemaError, match=said) as caught:
        compile_schema(schema)
    assert caught.value.pointer == pointer


def test_long_chains_of_requirements_are_refused(vocabulary: Vocabulary) -> None:
    def chain(n: int) -> Any:
        return {"dependentRequired": {f"a{i}": [f"a{i + 1}"] for i in range(n)}}

    with pytest.raises(SchemaTooLarge, match="require of each other"):
        compile_schema(chain(100), vocabulary)
    assert compile_schema(chain(40), vocabulary).matches('{"a39":1,"a40":2}')


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


def test_only_the_work_of_compiling_counts_against_its_deadline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Others may use the machine: its own seconds count, up to four times as many by the clock."""
    clock = {"monotonic": 0.0, "thread_time": 0.0}
    for name in clock:
        monkeypatch.setattr(limits.time, name, lambda name=name: clock[name])
    given = Limits(deadline=10)
    clock |= {"monotonic": 39.0, "thread_time": 9.0}
    given.spend()
    for late in ({"monotonic": 41.0, "thread_time": 9.0}, {"monotonic": 12.0, "thread_time": 11.0}):
        clock |= late
        with pytest.raises(SchemaTooLarge, match="deadline of 10 s"):
            given.spend()


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
