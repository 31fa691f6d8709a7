"""Dates at the ends of what the calendar and a datetime type hold, as jsonschema judges them."""

from __future__ import annotations

import json

import pytest
from jsonschema import Draft202012Validator

from agentrt.schema import compile_schema

DATES = [
    "0000-01-01", "0000-02-29", "0001-01-01", "0004-02-29", "0100-02-29", "0400-02-29",
    "1900-02-29", "2000-02-29", "2023-02-29", "2024-02-29", "2024-04-31", "9999-12-31",
    "10000-01-01", "2024-00-10", "2024-13-01", "2024-1-01", "-001-01-01",
]  # fmt: skip


@pytest.mark.parametrize("name", ["date", "date-time"])
def test_what_a_calendar_holds(name: str) -> None:
    schema = {"type": "string", "format": name}
    grammar = compile_schema(schema)
    judge = Draft202012Validator(schema, format_checker=Draft202012Validator.FORMAT_CHECKER)
    for date in DATES:
        value = date if name == "date" else f"{date}T00:00:00Z"
        assert grammar.matches(json.dumps(value)) == judge.is_valid(value), value
