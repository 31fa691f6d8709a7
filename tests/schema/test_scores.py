"""Log-probabilities by field, and a grammar's figures."""

from __future__ import annotations

import pytest

from agentrt.errors import InvalidRequest
from agentrt.generation import Completion, FinishReason, TokenLogprob
from agentrt.schema import (
    Span,
    Vocabulary,
    compile_choices,
    compile_regex,
    compile_schema,
    field_scores,
)

ANY = {"type": "object"}
# what each token writes, and its log-probability
WRITTEN = [
    ("{\"", None), ("na", None), ("me", -1.0), ("\":\"", -0.5), ("ab", -2.0), ("\",\"", -0.25),
    ("a", None), ("\":", None), ("[", None), ("1", -0.125), ("2", -4.0), (",", -8.0),
    ("true", -1.0), ("]", -0.5), ("}", None),
]  # fmt: skip


def completion(vocabulary: Vocabulary, written: list[tuple[str, float | None]]) -> Completion:
    ids = [vocabulary.tokens.index(text.encode()) for text, _ in written]
    ids.append(min(vocabulary.eos_ids))
    scores = [p for _, p in written] + [-16.0]
    logprobs = tuple(TokenLogprob(i, p) for i, p in zip(ids, scores, strict=True))
    text = "".join(text for text, _ in written)
    return Completion(text, tuple(ids), FinishReason.STOP, logprobs=logprobs)


def test_each_value_has_the_tokens_that_write_it(vocabulary: Vocabulary) -> None:
    found = field_scores(completion(vocabulary, WRITTEN), compile_schema(ANY, vocabulary))
    assert list(found) == ["/name", "/a/0", "/a/1", "/a", ""]
    name = found["/name"]
    assert (name.span, name.tokens) == (Span(8, 12), range(3, 6))
    assert (name.logprob, name.chosen, name.mean_logprob) == (-2.75, 3, -2.75 / 3)
    assert (found["/a/0"].tokens, found["/a/0"].logprob) == (range(9, 11), -4.125)
    # the bracket was forced: it is part of the array, and certain
    assert (found["/a"].tokens, found["/a"].chosen) == (range(8, 14), 5)
    # the end token is no part of any value
    assert found[""].logprob == sum(p for _, p in WRITTEN if p is not None)


def test_a_value_with_nothing_to_choose_is_certain(vocabulary: Vocabulary) -> None:
    found = field_scores(completion(vocabulary, [("true", None)]), compile_schema(True, vocabulary))
    assert (found[""].chosen, found[""].mean_logprob) == (0, 0.0)


def test_of_a_text_that_was_cut_the_complete_values_are_scored(vocabulary: Vocabulary) -> None:
    found = field_scores(completion(vocabulary, WRITTEN[:12]), compile_schema(ANY, vocabulary))
    assert list(found) == ["/name", "/a/0"]


def test_what_is_no_json_is_one_value(vocabulary: Vocabulary) -> None:
    written = completion(vocabulary, [("ab", -1.0), ("a", -2.0)])
    for grammar in (compile_regex("[ab]+", vocabulary), compile_choices(["aba"], vocabulary)):
        assert {p: s.logprob for p, s in field_scores(written, grammar).items()} == {"": -3.0}


def test_without_log_probabilities_there_is_nothing_to_tell(vocabulary: Vocabulary) -> None:
    bare = Completion("1", (vocabulary.tokens.index(b"1"),), FinishReason.STOP)
    with pytest.raises(InvalidRequest, match="logprobs=True"):
        field_scores(bare, compile_schema(True, vocabulary))
    with pytest.raises(InvalidRequest, match="without a vocabulary"):
        field_scores(completion(vocabulary, [("a", -1.0)]), compile_regex("a"))


def test_figures_of_a_grammar(vocabulary: Vocabulary) -> None:
    schema = {
        "type": "object",
        "properties": {"name": {"const": "abc"}, "age": {"type": "integer", "minimum": 7}},
        "required": ["name", "age"],
        "additionalProperties": False,
    }
    grammar = compile_schema(schema, vocabulary)
    before = grammar.statistics()
    assert (before.kind, before.vocabulary) == ("schema", vocabulary.size)
    assert before.shortest == '{"name":"abc","age":7}'
    assert before.min_tokens == len(vocabulary.segment(before.shortest.encode()))
    # at least the names are certain, at most all but the number and what follows it
    assert 3 <= before.forced_tokens < before.shortest_tokens
    assert before.forced_share == before.forced_tokens / before.shortest_tokens
    assert (before.objects, before.arrays, before.masks, before.mask_bytes) == (1, 0, 0, 0)
    matcher = grammar.matcher(jump=False)
    matcher.next()
    after = grammar.statistics()
    assert after.masks == 1
    assert after.mask_bytes == vocabulary.words * 4
