"""Masks, budgets, jumps and going back, against the machine itself and against jsonschema."""

from __future__ import annotations

import json
import pickle
import random
from typing import Any

import jsonschema
import numpy as np
import pytest

from agentrt.matching import Allowed, Forced
from agentrt.schema import (
    Grammar,
    GrammarMatcher,
    Vocabulary,
    compile_choices,
    compile_regex,
    compile_schema,
    fill_masks,
)

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
CASES = [
    (PERSON, "any"),
    (PERSON, "declared"),
    (CLOSED, "any"),
    (COUNTED, "declared"),
    ({"type": "object", "minProperties": 2, "maxProperties": 3}, "any"),
    ({"oneOf": [{"required": ["a"]}, {"required": ["b"]}], "type": "object"}, "any"),
    (True, "declared"),
]


def allowed(mask: np.ndarray, size: int) -> set[int]:
    bits = np.unpackbits(mask.view(np.uint8), bitorder="little")[:size]
    return set(np.flatnonzero(bits).tolist())


def choose(matcher: GrammarMatcher, left: int | None, rng: random.Random) -> tuple[int, ...]:
    following = matcher.next(left)
    if isinstance(following, Forced):
        return following.token_ids
    choices = sorted(allowed(following.mask, matcher.grammar.engine.vocabulary.size))
    assert choices, matcher.text
    return (rng.choice(choices),)


def walk(grammar: Grammar, rng: random.Random, budget: int, *, jump: bool = True) -> bytes:
    matcher = grammar.matcher(jump=jump)
    while not matcher.is_finished and len(matcher.token_ids) < budget:
        for token in choose(matcher, budget - len(matcher.token_ids), rng):
            matcher.accept(token)
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
            assert isinstance(following, Allowed)
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
        matcher.accept(choose(matcher, None, rng)[0])
        seen.append(matcher.next())
    for expected in reversed(seen[:-1]):
        matcher.rollback(1)
        now = matcher.next()
        assert isinstance(now, Allowed)
        assert isinstance(expected, Allowed)
        assert (now.mask == expected.mask).all()
    with pytest.raises(ValueError, match="take back"):
        matcher.rollback(1)


def test_special_tokens_never_match_text(vocabulary: Vocabulary) -> None:
    grammar = compile_regex(r"[\s\S]*", vocabulary)
    following = grammar.matcher().next()
    assert isinstance(following, Allowed)
    found = allowed(following.mask, vocabulary.size)
    assert vocabulary.size - 2 not in found
    assert vocabulary.eos_ids <= found


def test_jump_stops_where_a_token_could_bridge(vocabulary: Vocabulary) -> None:
    grammar = compile_schema(
        {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"],
         "additionalProperties": False}, vocabulary,
    )  # fmt: skip
    matcher = grammar.matcher()
    matcher.accept(vocabulary.tokens.index(b'{"'))
    following = matcher.next()
    assert isinstance(following, Forced)
    text = b"".join(vocabulary.tokens[i] or b"" for i in following.token_ids)
    # '":"' and '""' could take along the quote that opens the string, so the model chooses there
    assert text == b"name"


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
    chooses = fill_masks([g.matcher() for g in grammars], out, [None, None])
    assert chooses == [True, False]
    assert out[0].any()
    assert not out[1].any()


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
            for token in choose(m, 60 - len(m.token_ids), rng):
                m.accept(token)
        jsonschema.validate(json.loads(m.text), PERSON)


def test_jump_stops_where_white_space_often_stands(vocabulary: Vocabulary) -> None:
    schema = {"const": {"name": {"na": [True]}}}
    matcher = compile_schema(schema, vocabulary).matcher()

    def forced() -> bytes:
        following = matcher.next()
        ids = following.token_ids if isinstance(following, Forced) else ()
        return b"".join(vocabulary.tokens[i] or b"" for i in ids)

    # all of it is certain as text; but a model may write '{' and '"' where there is '{"' as well
    assert forced() == b""
    matcher.accept(vocabulary.tokens.index(b"{"))
    assert forced() == b'"name'  # '":{"' goes on beyond the colon
    for piece in (b'"', b"name", b'":', b'{"', b"na"):
        matcher.accept(vocabulary.tokens.index(piece))
    assert forced() == b'":[true]}}'
    grammar = compile_schema({"const": "a,{}b"}, vocabulary)
    matcher = grammar.matcher()
    # within a string they are text like any other
    assert forced() == b'"a,{}b"'


def test_without_jumps_nothing_is_forced(vocabulary: Vocabulary) -> None:
    grammar = compile_schema({"const": "abc"}, vocabulary)
    off = grammar.without_jumps()
    assert isinstance(grammar.matcher().next(), Forced)
    assert isinstance(off.matcher().next(), Allowed)
    assert isinstance(off.matcher(jump=True).next(), Forced)
    assert off.without_jumps() is off
    assert off.engine is grammar.engine
    assert not pickle.loads(pickle.dumps(off)).jumps
    assert compile_schema({"const": "abc"}, vocabulary).jumps


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
