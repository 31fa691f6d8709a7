"""Numbers within bounds: what is begun can be completed, in time, and for little work."""

from __future__ import annotations

import json
import random
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from agentrt.schema import Vocabulary, compile_schema
from agentrt.schema.machine.digits import NumberText
from agentrt.schema.machine.numbers import number_text
from agentrt.schema.values.numbers import Numbers

SCHEMAS: list[dict[str, Any]] = [
    {"minimum": 1e-35, "maximum": 2e-35},
    {"exclusiveMinimum": 0, "maximum": 1e-50},
    {"minimum": -1e-40, "exclusiveMaximum": 0},
    {"minimum": 0.5, "maximum": 0.5000001},
    {"exclusiveMinimum": 0},
    {"minimum": 1e300},
    {"minimum": -3, "maximum": 100},
    {"multipleOf": 0.25, "minimum": 1},
    {"multipleOf": 7, "minimum": 1_000_000, "maximum": 1_000_010},
    {"multipleOf": 7},
    {"multipleOf": 1e-40, "exclusiveMinimum": 0, "maximum": 1e-38},
    {"not": {"multipleOf": 1}, "minimum": 99.9999, "maximum": 100},
]


def _exact(value: Any) -> Any:
    if isinstance(value, float):
        return Fraction(repr(value))
    if isinstance(value, dict):
        return {key: _exact(each) for key, each in value.items()}  # pyright: ignore[reportUnknownVariableType]
    return value


def _holds(schema: dict[str, Any], text: str) -> bool:
    value, told = Fraction(text), _exact(schema)
    multiple, other = told.get("multipleOf"), told.get("not")
    return (
        told.get("minimum", value) <= value <= told.get("maximum", value)
        and (value > told["exclusiveMinimum"] if "exclusiveMinimum" in told else True)
        and (value < told["exclusiveMaximum"] if "exclusiveMaximum" in told else True)
        and (multiple is None or (value / multiple).denominator == 1)
        and (other is None or (value / other["multipleOf"]).denominator != 1)
    )


@pytest.mark.parametrize("schema", SCHEMAS, ids=json.dumps)
@pytest.mark.parametrize("plain", ["none", "all"])
def test_max_tokens_never_cuts_a_number(
    schema: dict[str, Any], plain: Any, vocabulary: Vocabulary
) -> None:
    whole = {
        "type": "object",
        "properties": {"a": {"type": "number", **schema}},
        "required": ["a"],
        "additionalProperties": False,
    }
    grammar = compile_schema(whole, vocabulary, plain_numbers=plain)
    zero = vocabulary.tokens.index(b"0")
    rng = random.Random(0)
    for extra in range(16 if grammar.min_tokens < 100 else 1):
        for greedy in (True, False):
            matcher, budget = grammar.matcher(jump=False), grammar.min_tokens + extra
            while not matcher.is_finished and len(matcher.token_ids) < budget:
                mask = matcher.next(budget - len(matcher.token_ids)).mask
                bits = np.unpackbits(mask.view(np.uint8), bitorder="little")[: vocabulary.size]
                choices = np.flatnonzero(bits).tolist()
                likes = greedy and zero in choices
                matcher.accept(zero if likes else rng.choice(choices))
            text = matcher.text.decode()
            assert matcher.is_complete, (budget, text)
            # exactly as written: a float may be rounded across a bound
            assert _holds(schema, json.loads(text, parse_float=str, parse_int=str)["a"]), text


def _sets(rng: random.Random) -> Numbers:
    def some() -> Fraction:
        scale = Fraction(10) ** (rng.choice((0, 1, 5, 16, 33, 50, 300)) * rng.choice((1, -1)))
        return rng.choice((0, 1, -1, 15, -99, 12345678901234567)) * scale

    lo, hi = sorted((some(), some()))
    return Numbers(
        rng.choice((lo, None)),
        rng.random() < 0.5,
        rng.choice((hi, None)),
        rng.random() < 0.5,
        rng.choice((None, None, Fraction(1), Fraction(7), Fraction(5, 2), Fraction(1, 10**40))),
        rng.choice((frozenset(), frozenset({Fraction(2)}))),
        rng.choice((frozenset(), frozenset({lo, Fraction(0)}))),
    )


@pytest.mark.parametrize("seed", range(40))
def test_every_beginning_has_an_end(seed: int) -> None:
    rng = random.Random(seed)
    numbers = _sets(rng)
    text = number_text(numbers, rng.choice((3, 15, 32)), plain=rng.random() < 0.4)
    if numbers.is_empty or not isinstance(text, NumberText):
        return
    for _ in range(4):
        state = text.start()
        for length in range(rng.choice((3, 20, 45))):
            end, reached = text.end(state), state
            assert end is not None, state
            for c in end:
                following = text.step(reached, ord(c))
                assert following is not None, (state, end)
                reached = following
            assert text.may_end(reached), (state, end)
            assert not length or len(end) <= text.longest_end
            following = [s for c in b"0123456789-+.eE" if (s := text.step(state, c)) is not None]
            if not following:
                break
            state = rng.choice((rng.choice(following), following[0], following[-1]))


@pytest.mark.parametrize(
    ("written", "plain"), [("0.", True), ("0." + "0" * 40, True), ("1", False), ("5.000", False)]
)
def test_an_end_is_computed_without_trying_digits(
    written: str, plain: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = Numbers(Fraction(0), True, Fraction(1, 10**50), False)
    text = number_text(numbers, 32, plain=plain)
    assert isinstance(text, NumberText)
    state = text.start()
    for c in written:
        following = text.step(state, ord(c))
        assert following is not None, written
        state = following
    asked = 0
    contains = Numbers.contains

    def counted(self: Numbers, value: Fraction) -> bool:
        nonlocal asked
        asked += 1
        return contains(self, value)

    monkeypatch.setattr(Numbers, "contains", counted)
    monkeypatch.setattr(NumberText, "step", None)
    assert text.end(state) is not None
    assert asked <= 2


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"exclusiveMinimum": 0}, "64.5e-388"),
        ({"exclusiveMaximum": 0}, "-9e-390"),
        ({"not": {"const": 0}}, "1e-400"),
        ({"not": {"multipleOf": 3}}, "2e-398"),
    ],
)
def test_no_number_but_zero_is_read_as_zero(schema: dict[str, Any], text: str) -> None:
    """Doubles read the ones below their smallest as 0, of which these bounds hold nothing."""
    grammar = compile_schema({"type": "number", **schema})
    near = text[: text.index("e")]
    assert grammar.matches(near + "e-300")
    assert not grammar.matches(text)


def test_numbers_below_every_double_are_written_where_the_bounds_leave_no_others() -> None:
    grammar = compile_schema({"type": "number", "exclusiveMinimum": 0, "maximum": 1e-320})
    assert grammar.matches("5e-321")
    assert grammar.matches("1e-399")


@pytest.mark.parametrize("value", [2**53 + 1, -(2**53) - 1, 123456789012345678901234567890])
def test_an_integer_no_double_holds_is_not_written_as_one(value: int) -> None:
    for schema in ({"const": value}, {"enum": [value, "a"]}):
        grammar = compile_schema(schema)
        assert grammar.matches(str(value))
        assert not grammar.matches(f"{value}.0"), float(value)
    assert compile_schema({"const": 2**60}).matches(f"{2**60}.0")
