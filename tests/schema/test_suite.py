"""The JSON Schema Test Suite 2020-12, required part: nothing judged wrong, little refused."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from jsonschema_specifications import REGISTRY

from agentrt.errors import SchemaError, UnsatisfiableSchema
from agentrt.schema import compile_schema

ROOT = Path(__file__).parents[2]
DATA = next(
    (p for r in ROOT.parents[:2] if (p := r / "shared" / "data").is_dir()), ROOT / "no-data"
)
SUITE = DATA / "json_schema_test_suite_2020-12.jsonl.gz"


def groups() -> list[dict[str, Any]]:
    with gzip.open(SUITE, "rt") as lines:
        return [g for g in map(json.loads, lines) if not g["keyword"].startswith("optional")]


def remotes() -> dict[str, Any]:
    with gzip.open(DATA / "json_schema_test_suite_remotes.json.gz", "rt") as file:
        found = json.load(file)
    metaschemas = {u: REGISTRY.contents(u) for u in REGISTRY if "2020-12" in u}
    return {**metaschemas, **found}


@pytest.mark.slow
@pytest.mark.skipif(not SUITE.exists(), reason=f"{SUITE} is absent")
def test_required_part() -> None:
    known, counts, wrong = remotes(), Counter[str](), list[str]()
    for group in groups():
        try:
            # the suite holds formats to be annotations, as 2020-12 has them by default
            grammar = compile_schema(
                group["schema"], key_order="any", formats="annotate", remotes=known, max_digits=400
            )
        except UnsatisfiableSchema:
            grammar = None
        except SchemaError:
            counts["refused"] += 1
            continue
        counts["compiled"] += 1
        for test in group["tests"]:
            text = json.dumps(test["data"], separators=(",", ":"))
            matches = grammar is not None and grammar.matches(text)
            if matches != test["valid"]:
                wrong.append(f"{group['keyword']}, {group['desc']}: {text}")
    assert not wrong
    assert counts["refused"] <= 1
