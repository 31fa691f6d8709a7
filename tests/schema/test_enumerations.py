"""Long lists of values: as small as they can be told, and the same whichever way they are kept."""

from __future__ import annotations

import json
import random
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest
from jsonschema import Draft202012Validator

from agentrt.errors import SchemaTooLarge
from agentrt.schema import Vocabulary, compile_schema
from agentrt.schema.algebra import consts
from agentrt.schema.algebra.space import Space
from agentrt.schema.regex import words as made
from agentrt.schema.regex.words import of_word, of_words
from benchmarks.schema_walks import wrong_walks

if TYPE_CHECKING:
    from agentrt.schema.regex.dfa import Dfa

TEXTS = ["", "a", "ab", "abc", "b", "bc", "\0", "é", "日本", "日", "a\nb"]


def sparse(texts: list[str], monkeypatch: pytest.MonkeyPatch) -> Dfa:
    with monkeypatch.context() as patch:
        patch.setattr(made, "_MOST_CELLS", 0)
        return of_words(texts)


def test_the_automaton_of_one_text_is_that_of_a_set_of_one() -> None:
    chooser = random.Random(0)
    for _ in range(300):
        text = "".join(chooser.choices("ab\0\ud7ff\ue000\U0010ffff", k=chooser.randrange(6)))
        assert of_word(text) == of_words([text])


def test_sparse_rows_hold_the_same_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    chooser = random.Random(0)
    for _ in range(50):
        texts = chooser.sample(TEXTS, chooser.randint(1, len(TEXTS)))
        dense, few = of_words(texts), sparse(texts, monkeypatch)
        assert few.is_sparse
        assert few == sparse(texts[::-1], monkeypatch)
        assert {t for t in TEXTS if few.matches(t)} == {t for t in TEXTS if dense.matches(t)}
        assert set(few.words()) == set(texts)
        assert few.longest == dense.longest
        assert few.count_words(99) == len(texts)
        assert few.all_infinite == dense.all_infinite
        others = chooser.sample(TEXTS, 4)
        both, left = few.intersection(of_words(others)), of_words(others).difference(few)
        assert set(both.words()) == {*texts} & {*others}
        assert set(left.words()) == {*others} - {*texts}


def test_masks_of_sparse_rows(monkeypatch: pytest.MonkeyPatch, vocabulary: Vocabulary) -> None:
    monkeypatch.setattr(made, "_MOST_CELLS", 0)
    chooser = random.Random(0)
    texts = ["".join(chooser.choices("abcdé日", k=chooser.randint(0, 9))) for _ in range(300)]
    schema = {"enum": texts}
    grammar = compile_schema(schema, vocabulary)
    assert all(grammar.matches(json.dumps(text)) for text in texts)
    assert not grammar.matches('"none of them"')
    assert not wrong_walks(schema, grammar, count=20)


def test_what_differs_in_one_place_is_one_shape() -> None:
    space = Space()
    lines = [{"a": i, "b": [i % 3, "x"]} for i in range(3)]
    grid = [{"a": a, "b": b} for a, b in product(range(40), "xyz")]
    assert len(space.normal(consts.one_of(space, [[i] for i in range(500)], "")).arrays) == 1
    assert len(space.normal(consts.one_of(space, grid, "")).objects) == 1
    assert len(space.normal(consts.one_of(space, lines, "")).objects) == 3


def test_joined_values_are_the_values_listed() -> None:
    chooser = random.Random(0)
    parts: list[Any] = [0, 1, True, None, "a", [1], {"b": 1}]
    every = [
        *map(list, product(parts, parts)),
        *({"a": a, "b": b} for a, b in product(parts, parts)),
    ]
    for _ in range(20):
        schema = {"enum": chooser.sample(every, 40)}
        grammar, judge = compile_schema(schema), Draft202012Validator(schema)
        for value in every:
            text = json.dumps(value, separators=(",", ":"))
            assert grammar.matches(text) == judge.is_valid(value), (schema, value)


def test_too_many_side_by_side_are_refused() -> None:
    with pytest.raises(SchemaTooLarge):
        compile_schema({"enum": [[i, i] for i in range(5000)]})


def test_lengths_of_too_many_states_are_refused() -> None:
    texts = ["".join(random.Random(i).choices("abcdefgh", k=9)) for i in range(10_000)]
    compile_schema({"enum": texts}, size=120_000)
    with pytest.raises(SchemaTooLarge):
        compile_schema({"enum": texts, "minLength": 3}, size=120_000)
