"""A schema of arrays, held to jsonschema on all arrays of a few values."""

from __future__ import annotations

import json
from itertools import product
from typing import TYPE_CHECKING, Any

from jsonschema import Draft202012Validator

from agentrt.errors import UnsatisfiableSchema
from agentrt.schema import compile_schema

if TYPE_CHECKING:
    from agentrt.schema import Grammar, Vocabulary


def judged_alike(
    schema: dict[str, Any], vocabulary: Vocabulary, *, values: list[Any], longest: int
) -> tuple[Grammar | None, list[list[Any]]]:
    """The grammar, None where nothing fits, and the arrays of up to `longest` values that fit."""
    judge = Draft202012Validator(schema)
    given = [list(array) for n in range(longest + 1) for array in product(values, repeat=n)]
    fitting = [array for array in given if judge.is_valid(array)]
    try:
        grammar = compile_schema(schema, vocabulary)
    except UnsatisfiableSchema:
        assert not fitting
        return None, []
    matched = [a for a in given if grammar.matches(json.dumps(a, separators=(",", ":")))]
    assert matched == fitting
    return grammar, fitting
