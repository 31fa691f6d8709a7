"""Masks, budgets, jumps and going back, against the machine itself and against jsonschema."""

from __future__ import annotations

import json
import pickle
import random
from typing import Any

import jsonschema
import numpy as np
import pytest

from agentrt.schema import (
    Grammar,
    GrammarMatcher,
    Vocabulary,
    compile_choices,
    compile_regex,
    compile_schema,
    fill_masks,
)
from agentrt.schema.regex.dfa import UNIVERSAL, Dfa
from agentrt.schema.tokens.costs import Costs
from agentrt.schema.tokens.leaves import Leaves

PERSON: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 6},
        "age": {"type": "integer", "minimum": 0, "maximum": 120},
        "kids": {"type": "array", "items": {"$ref": "#"}, "maxItems": 2},
        "code": {"type": "string", "pattern": "^[a-c]{1,3}$"},
        "tags": {"type": "array", "items": {"enum": ["a", "b", "ab", 1]}, "uniqueItems": True},
    },
    "required": ["name", "age"],
}
CLOSED = {**PERSON, "additionalProperties": False}
COUNTED = {
    "type": "array",
    "contains": {"type": "integer"},
    "minContains": 2,
    "maxContains": 3,
    "items": {"type": ["integer", "boolean", "string"]},
}
SEVERAL_STRINGS = {
    "anyOf": [
        {"type": "string", "minLength": 1},
        {"type": "string", "pattern": "^[a-m]*$"},
        {"type": "array", "items": {"anyOf": [{"type": "string"}, {"enum": ["a\n", "abc"]}]}},
    ]
}
"""Strings of which one may go on in any way."""
SEVERAL_NAMES = {
    "type": "object",
    "properties": {"name": True, 'a"b': {"enum": [1]}, "é": {"type": "null"}, "na\n": True},
    "patternProperties": {"^n": {"type": "integer"}, "^x-": {"type": "null"}},
    "required": ["é"],
}
EITHER_OBJECT = {
    "anyOf": [
        {"properties": {"name": {"type": "integer"}, "age": True}, "required": ["age"]},
        {"properties": {"name": {"type": "null"}}, "additionalProperties": {"type": "boolean"}},
    ],
    "type": "object",
}
CASES = [
    (SEVERAL_STRINGS, "any"),
    (SEVERAL_NAMES, "any"),
    (SEVERAL_NAMES, "declared"),
    (EITHER_OBJECT, "any"),
    (PERSON, "any"),
    (PERSON, "declared"),
    (CLOSED, "any"),
    (COUNTED, "declared"),
    ({"type": "array", "items": {"enum": [1, 12]}, "uniqueItems": True}, "declared"),
    ({"type": "array", "items": {"enum": ["a", "b", 1]}, "uniqueItems": True}, "declared"),
    ({"type": "object", "propertyNames": {"pattern": "^[0-9a-f]{30}$"}}, "declared"),
    ({"type": "object", "minProperties": 2, "maxProperties": 3}, "any"),
    ({"oneOf": [{"required": ["a"]}, {"required": ["b"]}], "type": "object"}, "any"),
    (True, "declared"),
]


def allowed(mask: np.ndarray, size: int) -> set[int]:
    bits = np.unpackbits(mask.view(np.uint8), bitorder="little")[:size]
    return set(np.flatnonzero(bits).tolist())


def choose(matcher: GrammarMatcher, left: int | None, rng: random.Random) -> int:
    following = matcher.next(left)
    choices = sorted(allowed(following.mask, matcher.grammar.engine.vocabulary.size))
    assert choices, matcher.text
    if following.likely and following.likely[0] in choices and rng.random() < 0.7:
        return following.likely[0]
    return rng.choice(choices)


def walk(grammar: Grammar, rng: random.Random, budget: int, *, jump: bool = True) -> bytes:
    matcher = grammar.matcher(jump=jump)
    while not matcher.is_finished and len(matcher.token_ids) < budget:
        matcher.accept(choose(matcher, budget - len(matcher.token_ids), rng))
    assert len(matcher.token_ids) <= budget
    assert matcher.is_complete, matcher.text
    return matcher.text


@pytest.mark.parametrize(("schema", "order"), CASES)
def test_masks_are_exactly_what_the_machine_allows(
    schema: Any, order: Any, vocabulary: Vocabulary
) -> None:
    grammar = compile_schema(schema, vocabulary, key_order=order)
    rng = random.Random(0)
    for _ in range(6):
        matcher = grammar.matcher(jump=False)
        while not matcher.is_finished and len(matcher.token_ids) < 40:
            following = matcher.next()
            found = allowed(following.mask, vocabulary.size)
            assert found == {
                i for i, t in enumerate(vocabulary.tokens) if t and _accepts(matcher, i)
            } | (set(vocabulary.eos_ids) if matcher.is_complete else set())
            matcher.accept(rng.choice(sorted(found)))


def _accepts(matcher: GrammarMatcher, token: int) -> bool:
    try:
        matcher.accept(token)
    except ValueError:
        return False
    matcher.rollback(1)
    return True


@pytest.mark.parametrize(("schema", "order"), CASES)
@pytest.mark.parametrize("jump", [True, False])
def test_random_walks_validate_and_are_never_cut(
    schema: Any, order: Any, jump: bool, vocabulary: Vocabulary
) -> None:
    grammar = compile_schema(schema, vocabulary, key_order=order)
    rng = random.Random(1)
    for extra in (0, 1, 5, 30, 0, 1, 5, 30):
        text = walk(grammar, rng, grammar.min_tokens + extra, jump=jump)
        jsonschema.validate(json.loads(text), schema)


def test_min_tokens_suffice(vocabulary: Vocabulary) -> None:
    grammar = compile_schema({"const": {"name": "abc"}}, vocabulary)
    close = grammar.matcher().shortest_close
    assert b"".join(vocabulary.tokens[i] or b"" for i in close) == b'{"name":"abc"}'
    assert grammar.min_tokens == len(close)


def test_rollback_goes_back_exactly(vocabulary: Vocabulary) -> None:
    grammar = compile_schema(PERSON, vocabulary, key_order="any")
    rng = random.Random(2)
    matcher = grammar.matcher(jump=False)
    seen = [matcher.next()]
    for _ in range(12):
        matcher.accept(choose(matcher, None, rng))
        seen.append(matcher.next())
    for expected in reversed(seen[:-1]):
        matcher.rollback(1)
        now = matcher.next()
        assert (now.mask == expected.mask).all()
    with pytest.raises(ValueError, match="take back"):
        matcher.rollback(1)


def test_special_tokens_never_match_text(vocabulary: Vocabulary) -> None:
    grammar = compile_regex(r"[\s\S]*", vocabulary)
    following = grammar.matcher().next()
    found = allowed(following.mask, vocabulary.size)
    assert vocabulary.size - 2 not in found
    assert vocabulary.eos_ids <= found


def likely(matcher: GrammarMatcher) -> list[bytes]:
    """The pieces of text that are told ahead."""
    vocabulary = matcher.grammar.engine.vocabulary
    return [vocabulary.tokens[i] or b"" for i in matcher.next().likely]


def accept(matcher: GrammarMatcher, *pieces: bytes) -> None:
    for piece in pieces:
        matcher.accept(matcher.grammar.engine.vocabulary.tokens.index(piece))


def test_text_that_can_only_be_one_thing_is_told_ahead(vocabulary: Vocabulary) -> None:
    grammar = compile_schema(
        {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"],
         "additionalProperties": False}, vocabulary,
    )  # fmt: skip
    matcher = grammar.matcher()
    assert likely(matcher) == [b"{", b'"', b"name", b'":', b'"']
    accept(matcher, b'{"')
    assert likely(matcher) == [b"name", b'":', b'"']
    accept(matcher, b"name", b'":', b'"')
    assert likely(matcher) == []


def test_an_end_token_ends(vocabulary: Vocabulary) -> None:
    matcher = compile_regex("ab*", vocabulary).matcher()
    end = min(vocabulary.eos_ids)
    with pytest.raises(ValueError, match="before the text is complete"):
        matcher.accept(end)
    matcher.accept(vocabulary.tokens.index(b"a"))
    assert matcher.is_complete
    assert not matcher.is_finished
    matcher.accept(end)
    assert matcher.is_finished


def test_choices_finish_by_themselves(vocabulary: Vocabulary) -> None:
    matcher = compile_choices(["abc", "abd"], vocabulary).matcher()
    for token in matcher.shortest_close:
        matcher.accept(token)
    assert matcher.is_finished


def test_batch_fills_rows(vocabulary: Vocabulary) -> None:
    grammars = [compile_regex("[ab]+", vocabulary), compile_choices(["abc"], vocabulary)]
    out = np.zeros((2, vocabulary.words), dtype=np.uint32)
    fill_masks([g.matcher() for g in grammars], out, [None, 3])
    letters = [vocabulary.tokens.index(letter) for letter in (b"a", b"b")]
    assert allowed(out[0], vocabulary.size) >= set(letters)
    assert letters[0] in allowed(out[1], vocabulary.size)
    assert letters[1] not in allowed(out[1], vocabulary.size)


def test_pickled_grammar_matches_alike(vocabulary: Vocabulary) -> None:
    grammar = compile_schema(PERSON, vocabulary, key_order="any")
    again = pickle.loads(pickle.dumps(grammar))
    for text in ('{"age":1,"name":"x"}', '{"age":1}'):
        assert again.matches(text) == grammar.matches(text)


def test_a_matcher_outlives_what_the_grammar_forgets(
    vocabulary: Vocabulary, monkeypatch: pytest.MonkeyPatch
) -> None:
    grammar = compile_schema(PERSON, vocabulary, key_order="any", max_spaces=1)
    matcher = grammar.matcher()
    matcher.accept(vocabulary.tokens.index(b'{"'))
    monkeypatch.setattr("agentrt.schema.machine.machine._MOST_INTERNED", 0)
    fresh = grammar.matcher()
    assert grammar.engine.machine.store.size < 10
    rng = random.Random(5)
    for m in (matcher, fresh):
        while not m.is_finished:
            m.accept(choose(m, 60 - len(m.token_ids), rng))
        jsonschema.validate(json.loads(m.text), PERSON)


def test_where_the_model_did_not_cut_the_next_guess_does_not_either(
    vocabulary: Vocabulary,
) -> None:
    matcher = compile_schema({"const": {"name": {"na": {"na": [1]}}}}, vocabulary).matcher()
    assert likely(matcher)[:4] == [b"{", b'"', b"name", b'":']
    accept(matcher, b"{", b'"', b"name", b'":')
    assert likely(matcher)[:2] == [b"{", b'"']
    accept(matcher, b'{"', b"na", b'":')
    assert likely(matcher)[0] == b'{"'
    accept(matcher, b"{")
    assert likely(matcher)[0] == b'"'
    other = compile_schema({"const": {"name": {"na": 1}}}, vocabulary).matcher()
    assert likely(other)[:2] == [b"{", b'"']  # what one text was seen to do is not another's


def test_what_is_told_ahead_may_all_be_accepted(vocabulary: Vocabulary) -> None:
    matcher = compile_schema({"const": {"a": ["b,{}", {"c": None}]}}, vocabulary).matcher()
    for token in matcher.next().likely:
        matcher.accept(token)
    assert matcher.is_finished
    assert json.loads(matcher.text) == {"a": ["b,{}", {"c": None}]}


def test_without_jumps_nothing_is_told_ahead(vocabulary: Vocabulary) -> None:
    grammar = compile_schema({"const": "abc"}, vocabulary)
    off = grammar.without_jumps()
    assert grammar.matcher().next().likely
    assert not off.matcher().next().likely
    assert off.matcher(jump=True).next().likely
    assert off.without_jumps() is off
    assert off.engine is grammar.engine
    assert not pickle.loads(pickle.dumps(off)).jumps
    assert compile_schema({"const": "abc"}, vocabulary).jumps


def test_costs_are_the_fewest_tokens(vocabulary: Vocabulary) -> None:
    rng = random.Random(3)
    costs = Costs(vocabulary)
    ends = ['"}', '"},{"name":"a"}]}', "true,null]", '"' + "na" * 250 + '"']
    for _ in range(300):
        text = ("".join(rng.choices('{"name:,}a', k=rng.randrange(12))) + rng.choice(ends)).encode()
        assert costs.of(text) == len(vocabulary.segment(text))
    with pytest.raises(ValueError, match="spell"):
        Costs(Vocabulary([b"ab", None], [1])).of(b"aba")


def test_going_back_leads_to_the_same_choices(vocabulary: Vocabulary) -> None:
    rng = random.Random(11)
    grammar = compile_schema(PERSON, vocabulary, key_order="any")
    for left in (grammar.min_tokens, grammar.min_tokens + 3):
        matcher = grammar.matcher()
        seen: list[np.ndarray] = []
        while not matcher.is_finished:
            seen.append(matcher.next(left - len(seen)).mask)
            matcher.accept(choose(matcher, left - len(matcher.token_ids), rng))
        tokens = matcher.token_ids
        for at in range(len(seen)):
            matcher.rollback(len(matcher.token_ids) - at)
            for i in range(at, len(seen)):
                assert (matcher.next(left - i).mask == seen[i]).all()
                matcher.accept(tokens[i])


@pytest.mark.parametrize(
    ("schema", "digits"),
    [
        ({"minimum": 950}, 3),
        ({"minimum": 50}, 2),
        ({"maximum": -9_500_000}, 8),
        ({"minimum": 7_654_321}, 7),
        ({"minimum": 1000, "multipleOf": 7}, 4),
        ({"minimum": 5_000, "maximum": 6_000, "multipleOf": 250}, 4),
        ({"exclusiveMinimum": 9}, 2),
    ],
)
def test_the_shortest_integer_is_found(
    schema: dict[str, Any], digits: int, vocabulary: Vocabulary
) -> None:
    grammar = compile_schema({"type": "integer", **schema}, vocabulary, plain_numbers="integers")
    assert len(grammar.statistics().shortest) == digits


def test_values_that_items_must_differ_from_are_forgotten(
    vocabulary: Vocabulary, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}
    grammar = compile_schema(schema, vocabulary)
    monkeypatch.setattr("agentrt.schema.machine.machine._MOST_GROWN", 50)
    space = grammar.engine.machine.space
    begun = grammar.matcher()
    accept(begun, b"[", b"7", b",")
    for first in range(100, 200):
        accept(grammar.matcher(), b"[", *(bytes([b]) for b in b"%d,%d" % (first, first + 1)), b",")
        assert space.grown < 70
    for matcher in (begun, grammar.matcher()):
        if matcher is not begun:
            accept(matcher, b"[", b"7", b",")
        accept(matcher, b"7")
        assert not has(matcher, b"]")
        accept(matcher, b"8")
        assert has(matcher, b"]")


def test_a_string_that_may_be_any_covers_the_others(
    vocabulary: Vocabulary, monkeypatch: pytest.MonkeyPatch
) -> None:
    swept: list[object] = []
    sweep = Leaves._sweep  # pyright: ignore[reportPrivateUsage]

    def counted(self: Leaves, dfa: Dfa, *rest: Any) -> Any:
        swept.append(dfa)
        return sweep(self, dfa, *rest)

    monkeypatch.setattr(Leaves, "_sweep", counted)
    pattern = {"type": "string", "pattern": "^(covered|by|[q-z]+)*$"}
    grammar = compile_schema({"anyOf": [{"type": "string"}, pattern]}, vocabulary)
    matcher = grammar.matcher()
    for piece in (b'"', b"b", b"y", b"q"):
        accept(matcher, piece)
        assert has(matcher, b"a")
    assert all(dfa is UNIVERSAL for dfa in swept)


def has(matcher: GrammarMatcher, piece: bytes) -> bool:
    """Whether a token may come next."""
    token = matcher.grammar.engine.vocabulary.tokens.index(piece)
    return token in allowed(matcher.next().mask, matcher.grammar.engine.vocabulary.size)


@pytest.mark.parametrize(
    ("item", "goes_on"),
    [
        ({"properties": {"a": {"enum": [1, 2]}}, "required": ["a"]}, False),
        ({"properties": {"a": {"enum": [1, 2]}}}, True),  # {} is a third
        ({"properties": {"a": {"enum": [1, 2]}, "b": {"type": "string"}}}, True),
        ({"properties": {"a": {}, "b": {"type": "string"}}, "maxProperties": 1}, True),
        ({"properties": {"a": {"enum": [1, 2]}, "b": False}, "required": ["a"]}, False),
    ],
)
def test_another_item_may_come_while_there_are_others(
    vocabulary: Vocabulary, item: dict[str, object], goes_on: bool
) -> None:
    closed = {"type": "object", "additionalProperties": False} | item
    schema = {"type": "array", "items": closed, "uniqueItems": True}
    matcher = compile_schema(schema, vocabulary).matcher()
    for byte in b'[{"a":1},{"a":2}':
        accept(matcher, bytes([byte]))
    assert has(matcher, b",") is goes_on
