"""A short close is found where one must go past members and items that bring it no nearer."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from agentrt.errors import SchemaTooLarge, UnsatisfiableSchema
from agentrt.schema import Vocabulary, compile_regex, compile_schema
from agentrt.schema.machine import new_names, shortest
from agentrt.schema.regex.dfa import Dfa
from agentrt.schema.tokens.costs import Costs
from agentrt.schema.values.strings import Strings

ONLY_UNNAMED = {
    "type": "object",
    "not": {"propertyNames": {"minLength": 1}},
    "properties": {"": {"type": "integer"}, "b": {"type": "null"}},
}
COUNTED: dict[str, Any] = {"contains": {"$ref": "#"}, "minContains": 3, "maxContains": 3}


@pytest.mark.parametrize(
    ("schema", "begun"),
    [
        # what an item must be is the schema itself, which is being closed
        (COUNTED, "["),
        ({**COUNTED, "minItems": 4, "type": ["array", "null"]}, "["),
        # one name is all that meets the rule, and it is told by its length alone
        (ONLY_UNNAMED, "{"),
        (ONLY_UNNAMED, '{"'),
        ({"type": "object", "not": {"additionalProperties": {"not": {"enum": [1, {"a": 1}]}}}},
         "{"),
    ],
    ids=str,
)  # fmt: skip
def test_what_it_closes_with_fits(schema: Any, begun: str, vocabulary: Vocabulary) -> None:
    matcher = compile_schema(schema, vocabulary, key_order="any").matcher(jump=False)
    for byte in begun.encode():
        matcher.accept(byte)
    for token in matcher.shortest_close:
        matcher.accept(token)
    assert Draft202012Validator(schema).is_valid(json.loads(matcher.text))


def test_no_more_properties_than_there_are_names(vocabulary: Vocabulary) -> None:
    schema = {
        "type": "object",
        "propertyNames": {"pattern": "^[a-j][0-9]$"},
        "additionalProperties": {"type": "null"},
        "properties": {"a0": {"type": "null"}},
    }
    grammar = compile_schema({**schema, "minProperties": 100}, vocabulary, key_order="any")
    names = [f"{a}{b}" for a in "abcdefghij" for b in range(10)]
    assert grammar.matches(json.dumps(dict.fromkeys(names), separators=(",", ":")))
    matcher = grammar.matcher(jump=False)
    for token in matcher.shortest_close:
        matcher.accept(token)
    assert len(json.loads(matcher.text)) == 100
    with pytest.raises(UnsatisfiableSchema):
        compile_schema({**schema, "minProperties": 101})


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "minLength": 10**9},
        {"type": "string", "pattern": "^[a-z]+(-[a-z]+)*$", "minLength": 10**8},
        {"type": "string", "pattern": "^a{1000000000}$"},
        {"type": "array", "items": {"type": "integer"}, "minItems": 10**9},
        {"type": "object", "minProperties": 10**9},
    ],
    ids=str,
)
def test_what_no_model_writes_is_told_before_decoding(schema: Any, vocabulary: Vocabulary) -> None:
    grammar = compile_schema(schema, vocabulary)
    assert grammar.matcher().next().mask.any()
    with pytest.raises(SchemaTooLarge, match="no value was found that takes at most"):
        _ = grammar.min_tokens


def test_where_more_comes_than_any_model_writes_is_not_gone(vocabulary: Vocabulary) -> None:
    schema = {"anyOf": [{"type": "string", "minLength": 10**9}, {"type": "integer"}]}
    matcher = compile_schema(schema, vocabulary).matcher(jump=False)
    quote = vocabulary.tokenise(b'"')[0]
    assert matcher.next().mask[quote >> 5] >> (quote & 31) & 1
    assert not matcher.next(10**6).mask[quote >> 5] >> (quote & 31) & 1


def test_items_that_are_alike_are_counted_at_once(vocabulary: Vocabulary) -> None:
    items = {"type": "array", "prefixItems": [{"type": "string"}], "items": {"type": "integer"}}
    matcher = compile_schema({**items, "minItems": 2_000}, vocabulary).matcher(jump=False)
    for token in matcher.shortest_close:
        matcher.accept(token)
    assert json.loads(matcher.text) == ["", *[0] * 1_999]


def test_free_names_are_gone_through_once(
    vocabulary: Vocabulary, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, some_names = list[str](), new_names.some_names

    def counted(*asked: Any) -> Iterator[str]:
        for name in some_names(*asked):
            read.append(name)
            yield name

    monkeypatch.setattr(new_names, "some_names", counted)
    schema = {"type": "object", "minProperties": 300, "properties": {"a": {}, "c": {}}}
    matcher = compile_schema(schema, vocabulary, key_order="any").matcher(jump=False)
    for byte in b'{"b":0,"d":0,':
        matcher.accept(byte)
    for token in matcher.shortest_close:
        matcher.accept(token)
    assert len(json.loads(matcher.text)) == 300
    assert len(read) < 10 * 300  # by going through them for each member anew: 300 * 300 / 2


def test_names_taken_are_passed_over() -> None:
    free = new_names.NewNames(Strings(None, 1))
    assert free.free({"aa", "b"}) == free.free({"aa", "b"})
    taken, found = {"aa", "b"}, list[str]()
    while len(found) < 4:
        found.append(free.free(taken) or "")
        taken.add(found[-1])
    assert found == ["a", "c", "d", "e"]


@pytest.mark.parametrize("keyword", ["contains", "properties"])
def test_a_short_value_is_found_beside_deep_ones(keyword: str, vocabulary: Vocabulary) -> None:
    schema: Any = {"type": "integer"}
    for _ in range(180):
        inner = {"a": schema} if keyword == "properties" else schema
        schema = {keyword: inner, "required": ["a"]}
    assert compile_schema(schema, vocabulary).min_tokens == 1


def test_long_texts_cost_the_fewest_tokens_that_spell_them() -> None:
    chooser = random.Random(0)
    tokens = [bytes([c]) for c in b"abcdef"]
    tokens += {bytes(chooser.choices(b"abcdef", k=chooser.randint(2, 5))): 0 for _ in range(60)}
    vocabulary = Vocabulary([*tokens, None], [len(tokens)])
    costs = Costs(vocabulary)
    for _ in range(20):
        end = bytes(chooser.choices(b"abcdef", k=chooser.randint(0, 1500)))
        for _ in range(5):
            text = bytes(chooser.choices(b"abcdef", k=9)) + end[chooser.randint(0, len(end)) :]
            assert costs.of(text) == len(vocabulary.segment(text))
    with pytest.raises(ValueError, match="no tokens of the vocabulary spell"):
        costs.of(b"a" * 500 + b"x")


def test_what_spells_a_long_text_is_looked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = [*(bytes([c]) for c in b"abcdef"), b"ab", b"cab", b"fed"]
    vocabulary = Vocabulary([*tokens, None], [len(tokens)])
    costs, looked, prefixes = Costs(vocabulary), list[int](), vocabulary.trie.prefixes
    middle = bytes(random.Random(0).choices(b"abcdef", k=2000))

    def counted(text: bytes, start: int) -> Iterator[tuple[int, int]]:
        looked.append(start)
        return prefixes(text, start)

    texts = [middle, b"ab" + middle + b"a", middle[1:] + b"fe"]
    wanted = [len(vocabulary.segment(text)) for text in texts]
    monkeypatch.setattr(vocabulary.trie, "prefixes", counted)
    assert [costs.of(text) for text in texts] == wanted
    assert len(looked) <= 6**3 + 6**2 + 6  # as many as there are texts of the longest token's size


def test_a_long_end_is_found_once_for_the_tokens_that_lead_to_it(
    vocabulary: Vocabulary, monkeypatch: pytest.MonkeyPatch
) -> None:
    spelled, spell = list[int](), shortest.spelling

    def counted(dfa: Dfa, state: int, size: int) -> str:
        spelled.append(size)
        return spell(dfa, state, size)

    monkeypatch.setattr(shortest, "spelling", counted)
    pattern = {"type": "string", "pattern": "^(ab)+$", "minLength": 150}
    matcher = compile_schema(pattern, vocabulary).matcher(jump=False)
    matcher.accept(ord('"'))
    least = compile_schema(pattern, vocabulary).min_tokens
    for _ in range(2):
        assert matcher.next(least).mask.any()
        matcher.accept(ord("a"))
        matcher.accept(ord("b"))
    assert len(spelled) == len(set(spelled)) > 0


def test_forced_text_is_told_ahead_a_piece_at_a_time(vocabulary: Vocabulary) -> None:
    matcher = compile_regex("a{1000}", vocabulary).matcher()
    written = 0
    while not matcher.is_finished:
        likely = matcher.next().likely
        assert 0 < len(likely) < 500
        for token in likely:
            matcher.accept(token)
        written += len(likely)
    assert matcher.text == b"a" * 1_000
