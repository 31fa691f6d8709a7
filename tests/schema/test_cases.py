"""Schemas and regexes on which structured decoders failed their users."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from agentrt.errors import SchemaError
from agentrt.schema import compile_regex, compile_schema

if TYPE_CHECKING:
    from agentrt.schema.grammar import Grammar

ROOT = Path(__file__).parents[2]
CASES = next(
    (
        p
        for p in (r / "shared" / "cases" / "schema_cases.json" for r in ROOT.parents[:2])
        if p.exists()
    ),
    ROOT,
)


def cases() -> list[Any]:
    return json.loads(CASES.read_text()) if CASES.is_file() else []


def compiled(case: dict[str, Any]) -> Grammar:
    if case["regex"] is not None:
        return compile_regex(case["regex"])
    return compile_schema(case["schema"], whitespace="free", key_order="any")


@pytest.mark.skipif(not cases(), reason=f"{CASES} is absent")
@pytest.mark.parametrize("case", cases(), ids=lambda c: c["id"])
def test_case(case: dict[str, Any]) -> None:
    start = time.process_time()
    if case["expect_error"]:
        with pytest.raises(SchemaError):
            compiled(case)
        return
    grammar = compiled(case)
    for text in case["accept"]:
        assert grammar.matches(text), text
    for text in case["reject"]:
        assert not grammar.matches(text), text
    if case["limit_s"]:
        assert time.process_time() - start < case["limit_s"]
