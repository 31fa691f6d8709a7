"""A short close is found where one must go past members and items that bring it no nearer."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from agentrt.errors import UnsatisfiableSchema
from agentrt.schema import Vocabulary, compile_schema

ONLY_UNNAMED = {
    "type": "object",
    "not": {"propertyNames": {"minLength": 1}},
    "properties": {"": {"type": "integer"}, "b": {"type": "null"}},
}
COUNTED: dict[str, Any] = {"contains": {"$ref": "#"}, "minContains": 3, "maxContains": 3}


@pytest.mark.parametrize(
    ("schema", "begun"),
    [
        # what an item must be is the schema itself, which is being closed
        (COUNTED, "["),
        ({**COUNTED, "minItems": 4, "type": ["array", "null"]}, "["),
        # one name is all that meets the rule, and it is told by its length alone
        (ONLY_UNNAMED, "{"),
        (ONLY_UNNAMED, '{"'),
        ({"type": "object", "not": {"additionalProperties": {"not": {"enum": [1, {"a": 1}]}}}},
         "{"),
    ],
    ids=str,
)  # fmt: skip
def test_what_it_closes_with_fits(schema: Any, begun: str, vocabulary: Vocabulary) -> None:
    matcher = compile_schema(schema, vocabulary, key_order="any").matcher(jump=False)
    for byte in begun.encode():
        matcher.accept(byte)
    for token in matcher.shortest_close:
        matcher.accept(token)
    assert Draft202012Validator(schema).is_valid(json.loads(matcher.text))


def test_no_more_properties_than_there_are_names(vocabulary: Vocabulary) -> None:
    schema = {
        "type": "object",
        "propertyNames": {"pattern": "^[a-j][0-9]$"},
        "additionalProperties": {"type": "null"},
        "properties": {"a0": {"type": "null"}},
    }
    grammar = compile_schema({**schema, "minProperties": 100}, vocabulary, key_order="any")
    names = [f"{a}{b}" for a in "abcdefghij" for b in range(10)]
    assert grammar.matches(json.dumps(dict.fromkeys(names), separators=(",", ":")))
    matcher = grammar.matcher(jump=False)
    for token in matcher.shortest_close:
        matcher.accept(token)
    assert len(json.loads(matcher.text)) == 100
    with pytest.raises(UnsatisfiableSchema):
        compile_schema({**schema, "minProperties": 101})
