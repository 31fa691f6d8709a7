"""Values copied from a text: spans, numbers and dates, against brute force."""

from __future__ import annotations

import json
import pickle
import random
import re
from datetime import date
from decimal import Decimal
from fractions import Fraction
from typing import Annotated, Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from agentrt.errors import SchemaError, UnsatisfiableSchema
from agentrt.matching import Allowed
from agentrt.schema import (
    Grammar,
    Verbatim,
    Vocabulary,
    compile_schema,
    schema_of,
    verbatim,
)
from agentrt.schema.copying.mentions import dates_in, numbers_in
from agentrt.schema.copying.spans import span_automaton
from agentrt.schema.values.strings import Strings

PAGE = """Blue Harbor "Catering" Ltd.
7 Quay Street, Falmouth\tUK
Invoice number: BH-5521, a\\b; caf\u00e9, na\u00efve \u4f60\u597d \U0001f600
Amount due: GBP 1,255.50 on 14 March 2025"""


def spans_of(text: str, least: int = 1, most: int = 80) -> set[str]:
    """Every span of a text, by trying them all: neither end is a space, nor between two word
    characters (as `re` knows them; Han has no spaces between words), and the first is before no
    mark that closes the word before it."""
    line = " ".join(text.split())
    cuts = [
        at
        for at in range(len(line) + 1)
        if not (0 < at < len(line) and re.match("[^\\W\u4e00-\u9fff]{2}", line[at - 1 : at + 1]))
    ]
    firsts = [at for at in cuts if not re.match(r"\S[.,;:!?)\]}\u00bb]", line[max(at - 1, 0) :])]
    firsts = [0, *firsts] if line else []
    found = {line[a:b] for a in firsts for b in cuts if least <= b - a <= most}
    return {span for span in found if span == span.strip() != ""}


def walk(grammar: Grammar, rng: random.Random, budget: int | None = None) -> str:
    """A text written by choosing at random among the allowed tokens."""
    matcher, out = grammar.matcher(), b""
    vocabulary = grammar.vocabulary
    assert vocabulary is not None
    for step in range(400):
        following = matcher.next(None if budget is None else budget - step)
        if isinstance(following, Allowed):
            bits = np.unpackbits(following.mask.view(np.uint8), bitorder="little")
            tokens = [int(rng.choice(np.flatnonzero(bits[: vocabulary.size]).tolist()))]
        else:
            tokens = list(following.token_ids)
        for token in tokens:
            if token in vocabulary.eos_ids:
                return out.decode()
            matcher.accept(token)
            out += vocabulary.tokens[token] or b""
    raise AssertionError(f"no end after {out!r}")


class Bill(BaseModel):
    seller: str
    number: Annotated[str, Verbatim, Field(pattern=r"^[A-Z]{2}-[0-9]+$")]
    total: float
    note: str | None
    short: str = Field(max_length=9)


def test_every_walk_copies(vocabulary: Vocabulary) -> None:
    grammar = compile_schema(verbatim(Bill, PAGE), vocabulary)
    spans, numbers = spans_of(PAGE), {float(n) for n in numbers_in(PAGE)}
    seen: set[str] = set()
    for seed in range(60):
        budget = None if seed % 2 else grammar.min_tokens + seed
        bill = Bill.model_validate_json(walk(grammar, random.Random(seed), budget))
        assert bill.seller in spans
        assert bill.number == "BH-5521"
        assert bill.total in numbers
        assert bill.note is None or bill.note in spans
        assert bill.short in spans
        assert len(bill.short) <= 9
        seen.add(bill.seller)
    assert len(seen) > 10


def test_exactly_the_spans_are_taken() -> None:
    grammar = compile_schema({"type": "string", "x-verbatim": True, "x-source": PAGE})
    spans = spans_of(PAGE)
    line = " ".join(PAGE.split())
    for a in range(len(line)):
        for b in range(a, min(a + 90, len(line)) + 1):
            text = json.dumps(line[a:b], ensure_ascii=False)
            assert grammar.matches(text) == (line[a:b] in spans), text


@given(st.text("ab \n.1", max_size=30), st.integers(0, 5), st.integers(1, 12))
def test_lengths_hold(text: str, least: int, more: int) -> None:
    most = least + more
    dfa = span_automaton(" ".join(text.split()), least=max(least, 1), most=most)
    taken = Strings(dfa, 0, most)
    spans = spans_of(text, max(least, 1), most)
    assert taken.is_empty == (not spans)
    assert all(taken.contains(span) for span in spans)
    assert {w for w in dfa.words() if len(w) <= most} == spans


def test_scripts_without_spaces_are_cut_at_every_character_but_not_within_one() -> None:
    grammar = compile_schema(verbatim({"type": "string"}, "\u4f60\u597d e\u0301te\u0301"))
    taken = ["\u4f60", "\u597d", "\u4f60\u597d", "e\u0301te\u0301"]
    assert all(grammar.matches(f'"{text}"') for text in taken)
    assert not any(grammar.matches(f'"{text}"') for text in ["e", "e\u0301", "\u0301te\u0301"])


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("1,234.50", ["1234.5"]),
        ("1.234,50 EUR", ["1234.5"]),
        ("12 345,6 und 7", ["12345.6", "12", "345.6", "7"]),
        ("1'000 CHF", ["1000"]),
        ("29,000", ["29000"]),
        ("12,5 or 1,234", ["12.5", "1234", "1.234"]),
        ("1.234", ["1.234", "1234"]),
        ("v1.2.3", ["1", "2", "3"]),
        ("A-5 or -5 or (-7)", ["5", "-5", "7", "-7"]),
        ("2024-03-05", ["2024", "3", "5"]),
        ("1.5e3", ["1.5", "1500"]),
        ("none", []),
        ("odds of .25, then -.5%", ["0.25", "0.5", "-0.5"]),
        ("1\u00bd cups, \u00bc spoon, \u2153", ["1.5", "0.25"]),
        ("1,23,456.78 rupees", ["123456.78"]),
        ("\u2013 5, \u20135, 3\u20134", ["5", "-5", "3", "4"]),
        ("\u0661\u0662\u066b\u0665", ["12.5"]),
        ("7" * 5000, []),
        ("1,234," * 2000, ["1", "234"]),
        ("1e999", ["1"]),
    ],
)
def test_numbers_are_read_as_people_write_them(text: str, numbers: list[str]) -> None:
    assert numbers_in(text) == {Fraction(n) for n in numbers}


@pytest.mark.parametrize(
    ("text", "dates"),
    [
        ("2024-03-05 and 2024/3/6", ["2024-03-05", "2024-03-06"]),
        ("5.3.2024", ["2024-03-05"]),
        ("3/5/2024", ["2024-03-05", "2024-05-03"]),
        ("the 5th of March 2021; March 7, 2022", ["2021-03-05", "2022-03-07"]),
        ("12. Mai 2020, 1 de enero de 2019", ["2020-05-12", "2019-01-01"]),
        ("30 February 2020, 12345-01-01", []),
        ("5 \u017fep 2024, 6 ma\u0131 2024", ["2024-09-05", "2024-05-06"]),
        ("7 D\u00c9C. 2024", ["2024-12-07"]),
        ("marchand 5 2024, 5 ma 2024", []),
    ],
)  # fmt: skip
def test_dates_are_read_as_people_write_them(text: str, dates: list[str]) -> None:
    assert dates_in(text) == set(dates)


def test_a_date_is_one_that_is_named_or_any_where_none_is() -> None:
    class Day(BaseModel):
        day: date

    named = compile_schema(verbatim(Day, "on 14 March 2025"))
    assert named.matches('{"day":"2025-03-14"}')
    assert not named.matches('{"day":"2025-03-15"}')
    assert compile_schema(verbatim(Day, "on Monday")).matches('{"day":"2025-03-15"}')


def test_only_what_is_free_is_copied_unless_it_is_marked() -> None:
    class Row(BaseModel):
        kind: Literal["a", "b"]
        code: str = Field(pattern="^[0-9]{3}$")
        state: Annotated[Literal["In stock", "Sold out"], Verbatim]
        mark: Annotated[Literal["new"], Verbatim] | None
        tags: list[str]
        price: Decimal = Field(ge=10)

    grammar = compile_schema(verbatim(Row, "Kettle, 9.50 or 12.50 EUR: Sold out"))
    row = {"kind": "b", "code": "123", "state": "Sold out", "mark": None, "tags": ["Kettle"]}
    assert grammar.matches(json.dumps({**row, "price": 12.5}, separators=(",", ":")))
    for other in [{"state": "In stock"}, {"mark": "new"}, {"tags": ["Pan"]}, {"price": 9.5}]:
        changed = {**row, "price": 12.5, **other}
        assert not grammar.matches(json.dumps(changed, separators=(",", ":")))
    marked = compile_schema(verbatim(Row, "Kettle: Sold out", every=False))
    assert marked.matches(json.dumps({**row, "tags": ["Pan"], "price": 11}, separators=(",", ":")))


def test_what_cannot_be_copied_is_an_error_only_where_it_must_be() -> None:
    class Strict(BaseModel):
        total: float

    class Loose(BaseModel):
        total: float | None
        name: str = ""

    with pytest.raises(UnsatisfiableSchema, match="nothing that could be copied") as caught:
        compile_schema(verbatim(Strict, "free of charge"))
    assert caught.value.pointer == "/properties/total"
    with pytest.raises(UnsatisfiableSchema, match="make the field optional"):
        compile_schema(verbatim(Strict, ""))
    grammar = compile_schema(verbatim(Loose, ""))
    assert grammar.matches('{"total":null}')
    assert not grammar.matches('{"total":null,"name":"x"}')


def test_a_mark_without_a_text_or_without_a_value_is_refused() -> None:
    class Marked(BaseModel):
        name: Annotated[str, Verbatim]

    with pytest.raises(SchemaError, match="none is given") as caught:
        compile_schema(Marked)
    assert caught.value.pointer == "/properties/name"
    with pytest.raises(SchemaError, match="mark its fields"):
        schema_of(Annotated[Marked, Verbatim])


def test_recursive_types_and_schemas_and_pickles(vocabulary: Vocabulary) -> None:
    class Node(BaseModel):
        name: str
        below: list[Node] = []

    grammar = compile_schema(verbatim(Node, "root leaf"), vocabulary)
    for each in (grammar, pickle.loads(pickle.dumps(grammar))):
        assert each.matches('{"name":"root","below":[{"name":"leaf"}]}')
        assert not each.matches('{"name":"root","below":[{"name":"le"}]}')
    schema: dict[str, Any] = {"properties": {"n": {"type": "integer"}}, "type": "object"}
    assert not compile_schema(verbatim(schema, "4 or 5")).matches('{"n":6}')


def test_refused_spans_can_be_left_out() -> None:
    """As field repair asks for it."""
    asked = schema_of(verbatim(str, PAGE))
    source = asked.pop("x-source")
    schema = {"x-source": source, "allOf": [asked, {"not": {"enum": ["Falmouth", "UK"]}}]}
    grammar = compile_schema(schema)
    assert grammar.matches('"Falmouth UK"')
    assert not grammar.matches('"Falmouth"')


def test_what_a_page_takes_grows_with_its_length_and_not_faster() -> None:
    """States, whatever repeats; subset construction without sharing would be quadratic."""
    many = [span_automaton("a b " * n + "c", least=1, most=80) for n in (500, 1000)]
    assert all(len(dfa.rows) < 400 for dfa in many)
    words = " ".join(f"w{n * 7919 % 1000}" for n in range(1000))
    assert len(span_automaton(words, least=1, most=80).rows) < 2 * len(words)
