"""Random outputs of real schemas: all parse, all validate with formats checked, none is cut."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from agentrt.schema import Vocabulary, compile_schema
from benchmarks.schema import sample
from benchmarks.schema_walks import wrong_walks

from .test_suite import DATA

if TYPE_CHECKING:
    from typing import Literal

MASKBENCH = DATA / "maskbench.jsonl.gz"
ORDER = {
    "type": "object",
    "properties": {
        "id": {"type": "string", "format": "uuid"},
        "at": {"type": "string", "format": "date-time"},
        "total": {"type": "number", "minimum": 0, "multipleOf": 0.01},
        "lines": {
            "type": "array",
            "minItems": 1,
            "uniqueItems": True,
            "items": {"enum": ["a", "b", 3, None]},
        },
        "note": {"type": "string", "maxLength": 9, "pattern": "^[^x]+$"},
    },
    "required": ["id", "lines"],
    "dependentRequired": {"total": ["at"]},
    "additionalProperties": {"type": ["integer", "boolean"]},
}


@pytest.mark.parametrize("order", ["declared", "any"])
def test_outputs_of_one_schema(order: Literal["declared", "any"], vocabulary: Vocabulary) -> None:
    grammar = compile_schema(ORDER, vocabulary, key_order=order)
    assert not wrong_walks(ORDER, grammar, count=25)


@pytest.mark.slow
@pytest.mark.skipif(not MASKBENCH.exists(), reason=f"{MASKBENCH} is absent")
def test_outputs_of_real_schemas(vocabulary: Vocabulary) -> None:
    wrong: dict[str, Any] = {}
    for row in sample(MASKBENCH, 1, 1):
        grammar = compile_schema(row["schema"], vocabulary, key_order="any")
        if found := wrong_walks(row["schema"], grammar, count=3):
            wrong[row["id"]] = found
    assert not wrong
