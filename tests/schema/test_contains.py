"""Rules that count items: against all arrays of a few values, and what planning them costs."""

from __future__ import annotations

import json
from itertools import product
from typing import Any

import pytest

from agentrt.errors import SchemaTooLarge
from agentrt.schema import Vocabulary, compile_schema
from agentrt.schema.algebra import different
from agentrt.schema.algebra.arrays import ArrayPlan
from agentrt.schema.machine import items
from benchmarks.schema_walks import wrong_walks
from tests.schema.all_arrays import judged_alike

VALUES = [1, 2, 3, 4, 6, 12]
PRIMES = [2, 3, 5, 7, 11, 13]


def multiples(number: int, least: int, most: int | None = None) -> dict[str, Any]:
    rule = {"contains": {"multipleOf": number}, "minContains": least}
    return rule if most is None else {**rule, "maxContains": most}


def calls_of(owner: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What a function is given from now on, call by call."""
    asked, function = list[Any](), getattr(owner, name)

    def noted(*each: Any) -> Any:
        asked.append(each)
        return function(*each)

    monkeypatch.setattr(owner, name, noted)
    return asked


RULES: list[dict[str, Any]] = [
    {"allOf": [multiples(2, 2, 3), multiples(3, 1, 2)]},
    {"allOf": [multiples(2, 0, 1), multiples(3, 2), multiples(4, 1)], "minItems": 3},
    {"allOf": [multiples(2, 1, 2), multiples(4, 2, 3)], "maxItems": 3},
    {"allOf": [multiples(2, 1, 2), multiples(4, 3, 4)]},
    {"allOf": [multiples(2, 2, 2), multiples(3, 2, 2)], "maxItems": 3},
    {"allOf": [multiples(2, 1, 2), multiples(3, 1, 2)], "items": {"enum": [2, 3]}, "minItems": 4},
    {"allOf": [multiples(2, 1, 2), multiples(3, 1, 2)], "items": {"enum": [2, 3]}, "minItems": 5},
    {"allOf": [multiples(3, 2, 2), multiples(4, 1)], "prefixItems": [{"const": 12}, {"const": 6}]},
]


@pytest.mark.parametrize("rules", RULES, ids=str)
def test_rules_that_use_each_other_up(rules: dict[str, Any], vocabulary: Vocabulary) -> None:
    schema = {"type": "array", "items": {"enum": VALUES}, **rules}
    grammar, fitting = judged_alike(schema, vocabulary, values=VALUES, longest=4)
    assert (grammar is None) == (not fitting)
    if grammar is None:
        return
    begun = {tuple(value[:n]) for value in fitting for n in range(1, 3)}
    for value in product(VALUES, repeat=2):
        if value in begun:  # where there is a way on within four items
            assert grammar.accepts_prefix(json.dumps(value, separators=(",", ":"))[:-1] + ",")
    assert not wrong_walks(schema, grammar, count=4)


def test_many_items_that_count_are_ended_at_once(
    vocabulary: Vocabulary, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = calls_of(ArrayPlan, "after", monkeypatch)
    schema = {"type": "array", "allOf": [multiples(prime, 100, 150) for prime in PRIMES]}
    end = compile_schema(schema, vocabulary).matcher(jump=False).shortest_close
    assert json.loads(vocabulary.spelled(end)) == [0] * 100
    assert len(asked) < 20 * 2**6  # item by item: 100 * 2**6 at the least


def test_rules_without_room_for_each_other_are_refused(vocabulary: Vocabulary) -> None:
    rules = [multiples(2 ** (i + 1), 20 + 5 * i, 40) for i in range(6)]
    with pytest.raises(SchemaTooLarge, match="met together was not told") as caught:
        compile_schema({"type": "array", "allOf": rules}, vocabulary)
    assert "contains" in caught.value.pointer


def test_items_that_differ_by_place_are_told_apart_once(
    vocabulary: Vocabulary, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = calls_of(different, "count", monkeypatch)
    places = [{"const": i} for i in range(60)]
    schema = {"type": "array", "uniqueItems": True, "prefixItems": places, "minItems": 60}
    matcher = compile_schema(schema, vocabulary).matcher(jump=False)
    for token in matcher.shortest_close:
        matcher.accept(token)
    assert json.loads(matcher.text) == [*range(60)]
    assert len(asked) < 4 * 60  # of all places for each item: 60 * 60 / 2


def test_items_that_differ_are_not_ended_anew_after_each(
    vocabulary: Vocabulary, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = calls_of(items, "unlike", monkeypatch)
    places = [{"const": i} for i in range(60)]
    schema = {"type": "array", "uniqueItems": True, "prefixItems": places, "minItems": 60}
    matcher = compile_schema(schema, vocabulary).matcher(jump=False)
    matcher.accept(ord("["))
    assert len(vocabulary.spelled(matcher.shortest_close)) == 60 + 50 + 60
    assert len(asked) < 10 * 60  # by ending it anew after each item: 60 * 60 / 2
