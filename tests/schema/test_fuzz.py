"""Random schemas and values: never a judgement that differs from jsonschema's."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentrt.errors import SchemaError, UnsatisfiableSchema
from agentrt.schema import compile_schema

NAMES = st.sampled_from(["a", "b", "ab"])
SCALARS = st.sampled_from([None, True, False, 0, 1, 2, 3.5, -1, "", "a", "ab", "b"])
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)


def keywords(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    small = st.integers(0, 3)
    types = st.sampled_from(["null", "boolean", "integer", "number", "string", "array", "object"])
    some = st.lists(inner, min_size=1, max_size=3)
    return st.fixed_dictionaries(
        {},
        optional={
            "type": types | st.lists(types, min_size=1, max_size=3, unique=True),
            "enum": st.lists(VALUES, min_size=1, max_size=3),
            "minimum": st.integers(-2, 2),
            "exclusiveMaximum": st.integers(-1, 3),
            "multipleOf": st.sampled_from([1, 2, 0.5]),
            "minLength": small,
            "maxLength": small,
            "pattern": st.sampled_from(["a", "^a", "b$", "^a*b?$"]),
            "properties": st.dictionaries(NAMES, inner, max_size=2),
            "patternProperties": st.dictionaries(st.sampled_from(["a", "^b"]), inner, max_size=2),
            "additionalProperties": inner,
            "propertyNames": st.sampled_from([{"minLength": 1}, {"pattern": "a"}, {"enum": ["a"]}]),
            "required": st.lists(NAMES, max_size=2, unique=True),
            "minProperties": small,
            "maxProperties": small,
            "dependentRequired": st.dictionaries(
                NAMES, st.lists(NAMES, max_size=2, unique=True), max_size=1
            ),
            "dependentSchemas": st.dictionaries(NAMES, inner, max_size=1),
            "prefixItems": some,
            "items": inner,
            "minItems": small,
            "maxItems": small,
            "contains": inner,
            "minContains": small,
            "maxContains": small,
            "allOf": some,
            "anyOf": some,
            "oneOf": some,
            "not": inner,
            "if": inner,
            "then": inner,
            "else": inner,
            "unevaluatedProperties": inner,
            "unevaluatedItems": inner,
        },
    )


SCHEMAS = st.recursive(st.booleans() | st.just({}), keywords, max_leaves=6)


@given(SCHEMAS, st.lists(VALUES, min_size=5, max_size=12))
@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
def test_agrees_with_jsonschema(schema: Any, values: list[Any]) -> None:
    try:
        grammar = compile_schema(schema, key_order="any", deadline=2)
    except UnsatisfiableSchema:
        grammar = None
    except SchemaError:
        return
    validator = jsonschema.Draft202012Validator(schema)
    for value in values:
        text = json.dumps(value, separators=(",", ":"))
        matches = grammar is not None and grammar.matches(text)
        assert matches == validator.is_valid(value), (schema, text)
