"""When a generation ends and what of its text is certain, against one scan of the whole text."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agentrt.generation import FinishReason, SamplingParams
from agentrt.runtime.stopping import StopChecker

EOS = 99
STOP, LENGTH = FinishReason.STOP, FinishReason.LENGTH


def checker(*, max_tokens: int = 100, **params) -> StopChecker:
    params = SamplingParams(**params)
    return StopChecker(params, max_tokens=max_tokens, eos_token_ids=frozenset({EOS}))


def feed(stops: StopChecker, *tokens: str | tuple[int, str]) -> StopChecker:
    """Pushes tokens, given as texts or (id, text), up to the one that ends the generation."""
    for token in tokens:
        stops.push(*((0, token) if isinstance(token, str) else token))
        if stops.finish_reason is not None:
            stops.close("")
            break
    return stops


def outcome(stops: StopChecker) -> tuple[str, FinishReason | None, str | int | None]:
    return stops.text, stops.finish_reason, stops.stopped_by


# The ways to end


def test_a_stop_string_ends_it_and_is_cut():
    assert outcome(feed(checker(stop=("END",)), "one ", "END two")) == ("one ", STOP, "END")


def test_a_stop_string_may_straddle_tokens():
    stops = feed(checker(stop=("\n\nQ:",)), "a\n", "\n", "Q", ": b")
    assert outcome(stops) == ("a", STOP, "\n\nQ:")


def test_an_end_token_ends_it_without_its_own_text():
    assert outcome(feed(checker(), "a", (EOS, "</s>"), "b")) == ("a", STOP, EOS)


def test_a_stop_token_ends_it():
    assert outcome(feed(checker(stop_token_ids=(7,)), "a", (7, "b"))) == ("a", STOP, 7)


def test_an_ignored_end_token_is_text():
    stops = feed(checker(ignore_eos=True, max_tokens=2), (EOS, "</s>"), "a")
    assert outcome(stops) == ("</s>a", LENGTH, None)


def test_ignoring_end_tokens_spares_stop_tokens():
    stops = feed(checker(ignore_eos=True, stop_token_ids=(EOS,)), "a", (EOS, ""))
    assert outcome(stops) == ("a", STOP, EOS)


def test_the_limit_ends_it_and_releases_what_was_held_back():
    assert outcome(feed(checker(stop=("abc",), max_tokens=2), "a", "b")) == ("ab", LENGTH, None)


# Which of several


def test_a_stop_on_the_last_allowed_token_is_a_stop():
    assert outcome(feed(checker(stop=("b",), max_tokens=2), "a", "b")) == ("a", STOP, "b")
    assert outcome(feed(checker(max_tokens=2), "a", (EOS, ""))) == ("a", STOP, EOS)


def test_a_stop_past_the_limit_is_length():
    assert outcome(feed(checker(stop=("c",), max_tokens=2), "a", "b", "c")) == ("ab", LENGTH, None)


def test_a_stop_string_beats_a_later_end_token():
    assert outcome(feed(checker(stop=("b",)), "a", "b", (EOS, ""))) == ("a", STOP, "b")


def test_a_stop_string_completed_by_a_stop_token_beats_it():
    stops = feed(checker(stop=("ab",), stop_token_ids=(7,)), "xa", (7, "b"))
    assert outcome(stops) == ("x", STOP, "ab")


def test_the_stop_string_completed_first_wins():
    for tokens in (["abcdef"], list("abcdef")):
        assert outcome(feed(checker(stop=("abcdef", "cd")), *tokens)) == ("ab", STOP, "cd")


def test_of_those_completed_together_the_longest_wins():
    assert outcome(feed(checker(stop=("d", "bcd", "cd")), "abcd")) == ("a", STOP, "bcd")


# min_tokens


def test_nothing_stops_before_min_tokens():
    params = {"stop": ("b",), "stop_token_ids": (7,), "min_tokens": 4}
    stops = feed(checker(**params), "b", (7, "c"), (EOS, "d"), "b", "e")
    assert outcome(stops) == ("bcd", STOP, "b")


def test_the_limit_counts_before_min_tokens():
    assert outcome(feed(checker(min_tokens=5, max_tokens=2), "a", "b")) == ("ab", LENGTH, None)


def test_a_stop_string_begun_before_min_tokens_counts_where_it_is_completed():
    assert outcome(feed(checker(stop=("aa",), min_tokens=3), *"aaaa")) == ("a", STOP, "aa")


# Streaming


def test_only_what_may_begin_a_stop_string_is_held_back():
    stops = checker(stop=("abc", "bd"))
    certain = []
    for char in "xabxabd":
        feed(stops, char)
        certain.append(stops.text)
    assert certain == ["x", "x", "x", "xabx", "xabx", "xabx", "xabxa"]
    assert stops.stopped_by == "bd"


def test_nothing_is_held_back_without_stop_strings():
    assert feed(checker(), "a").text == "a"


def test_an_unfinished_character_comes_with_the_end():
    stops = checker(max_tokens=1)
    stops.push(0, "")
    stops.close("\ufffd")
    assert outcome(stops) == ("\ufffd", LENGTH, None)


def test_nothing_follows_a_stop_string():
    stops = checker(stop=("b",))
    stops.push(0, "ab")
    stops.close("\ufffd")
    assert outcome(stops) == ("a", STOP, "b")


def test_an_end_decided_elsewhere_releases_the_text():
    stops = feed(checker(stop=("abc",)), "xab")
    assert stops.text == "x"
    stops.close("", STOP)
    assert outcome(stops) == ("xab", STOP, None)


def test_the_first_reason_stands():
    stops = feed(checker(max_tokens=1), "a")
    stops.close("", FinishReason.ABORT)
    assert stops.finish_reason is LENGTH


def test_no_tokens_at_all():
    stops = checker(max_tokens=0)
    stops.close("", LENGTH)
    assert outcome(stops) == ("", LENGTH, None)


def test_repr_tells_where_it_stands():
    stops = checker(stop=("abc",))
    assert repr(stops) == "<StopChecker 0/100 tokens, 0+0 characters, running>"
    feed(stops, "xab")
    assert repr(stops) == "<StopChecker 1/100 tokens, 1+2 characters, running>"
    feed(stops, "c")
    assert repr(stops) == "<StopChecker 2/100 tokens, 1+0 characters, stop by 'abc'>"


# Against a scan of the whole text

CHARS = "aab" * 3 + "c"  # few letters, so that stop strings overlap themselves and each other


@dataclass(frozen=True)
class Case:
    tokens: list[tuple[int, str]]
    stop: tuple[str, ...]
    min_tokens: int
    max_tokens: int


texts = st.text(st.sampled_from(CHARS), max_size=4)
cases = st.builds(
    Case,
    tokens=st.lists(st.tuples(st.sampled_from([0, 0, 0, 0, 0, 7, EOS]), texts), max_size=14),
    stop=st.lists(st.text(st.sampled_from(CHARS), min_size=1, max_size=6), max_size=3).map(tuple),
    min_tokens=st.integers(0, 6),
    max_tokens=st.integers(1, 16),
)


def scan(case: Case) -> tuple[str, FinishReason | None, str | int | None]:
    """What must come out: every prefix of the text is looked at, by its definition."""
    text = ""
    for count, (token_id, piece) in enumerate(case.tokens, start=1):
        armed = count >= case.min_tokens
        before = text
        for char in piece:
            text += char
            ends = [stop for stop in case.stop if text.endswith(stop)]
            if armed and ends:
                return text[: -len(max(ends, key=len))], STOP, max(ends, key=len)
        if armed and token_id in (7, EOS):
            return before, STOP, token_id
        if count >= case.max_tokens:
            return text, LENGTH, None
    return text, None, None


@settings(max_examples=600, deadline=None)
@given(cases)
@example(Case([(0, "a")] * 9, ("aaab", "aaaa"), 6, 16))
def test_any_text_ends_as_one_scan_says(case: Case):
    text, reason, stopped_by = scan(case)
    stops = checker(
        stop=case.stop, stop_token_ids=(7,), min_tokens=case.min_tokens, max_tokens=case.max_tokens
    )
    read = ""
    for token in case.tokens:
        told, read = stops.text, read + token[1]
        feed(stops, token)
        assert stops.text.startswith(told)
        if stops.finish_reason is not None:
            break
        assert stops.text == certain_part(read, case.stop)
    if reason is None:
        stops.close("")
    assert outcome(stops) == (text, reason, stopped_by)


def certain_part(text: str, stop: tuple[str, ...]) -> str:
    """All of the text but its longest end with which a stop string begins and goes on."""
    begun = (start[:n] for start in stop for n in range(1, len(start)))
    return text[: len(text) - max((len(b) for b in begun if text.endswith(b)), default=0)]


def test_cost_does_not_grow_with_the_length():
    """A stop string's characters are compared at most twice per character of text."""
    compared = 0

    class Counting(str):
        __slots__ = ()

        def __ne__(self, other: object) -> bool:
            nonlocal compared
            compared += 1
            return str.__ne__(self, other)

        __hash__ = str.__hash__

    stops = checker(stop=("a" * 500 + "b",))
    length = 20_000
    for _ in range(length):
        assert not any(stop.advance(Counting("a")) for stop in stops._stops)
    assert compared <= 2 * length


@pytest.mark.parametrize("stop", ["a", "ab", "aab", "abab", "🙂", "é\n"])
def test_one_token_or_one_character_a_token(stop: str):
    text = f"xa abaa {stop}tail"
    at = text.index(stop)
    for tokens in ([text], list(text)):
        assert outcome(feed(checker(stop=(stop,)), *tokens)) == (text[:at], STOP, stop)
