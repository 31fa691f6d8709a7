"""Select and prompt log-probabilities: what is asked, what is computed, what is remembered."""

from __future__ import annotations

import math
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt.errors import InvalidRequest
from agentrt.generation import TokenLogprob
from agentrt.runtime.runtime import Runtime
from agentrt.runtime.selecting import Normalisation, Scoring, TokenTrie, heal, plan_selection
from agentrt.testing import ByteCodec, ScriptedModel
from tests.runtime.serving import settled

pytestmark = pytest.mark.anyio

LIKELY, UNLIKELY = math.log(0.5), math.log(0.5 / 256)


def next_letter(prefix: list[int], prompt_length: int) -> int:
    """The scripted model's favourite: the alphabet goes on."""
    return prefix[-1] + 1


async def test_select_scores_each_choice_after_the_prompt() -> None:
    async with Runtime(ScriptedModel(next_letter)) as runtime:
        found = await runtime.select("abc", ["def", "dx", "xyz"])
        assert found.text == "def"
        logprobs = [[entry.logprob for entry in choice.logprobs] for choice in found.choices]
        assert logprobs[0] == pytest.approx([LIKELY] * 3)
        assert logprobs[1] == pytest.approx([LIKELY, UNLIKELY])
        assert logprobs[2] == pytest.approx([UNLIKELY, LIKELY, LIKELY])
        assert found.choices[1].score == pytest.approx((LIKELY + UNLIKELY) / 2)
        await settled(runtime)


async def test_the_prompt_of_a_selection_is_computed_once() -> None:
    model = ScriptedModel(next_letter)
    prompt = "x" * 200
    async with Runtime(model) as runtime:
        await runtime.select(prompt, ["one", "two", "three", "four"])
    # The prompt; of each choice all but its last token, which nothing follows, the "t" of two of
    # them once.
    assert sum(model.steps) == 200 + len("on" + "t" + "w" + "hre" + "fou")


async def test_choices_of_a_token_are_scored_by_the_prompts_last_row() -> None:
    model = ScriptedModel(next_letter)
    async with Runtime(model) as runtime:
        await runtime.generate("x" * 200, max_tokens=1)
        before = sum(model.steps)
        found = await runtime.select("x" * 200, list("abyz"))
        assert sum(model.steps) == before + 1
        assert found.text == "y"
        assert (found.usage.prompt_tokens, found.usage.computed_tokens) == (200, 1)
        await settled(runtime)


@given(st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=6), min_size=1, max_size=12))
def test_what_choices_begin_with_is_scored_once(tails: list[list[int]]) -> None:
    """Against the tree of prefixes: each of its edges is scored, in each path that has it."""

    def score(path: list[int]) -> TokenLogprob:
        return TokenLogprob(path[-1], -float(hash(tuple(path)) % 1009))

    def scored(path: list[int], first: int) -> tuple[TokenLogprob, ...]:
        return tuple(score(path[: i + 1]) for i in range(first, len(path)))

    paths = [[7, 8, 9, *tail] for tail in tails]
    trie = TokenTrie.of(paths, 3)
    own = [
        tuple(
            score([*asked.token_ids[: asked.first + i], token])
            for i, tokens in enumerate(asked.targets)
            for token in tokens
        )
        for asked in trie.requests
    ]
    assert trie.whole(own) == [scored(path, 3) for path in paths]
    edges = {tuple(path[:i]) for path in paths for i in range(4, len(path) + 1)}
    assert sum(map(len, own)) == len(edges)
    read = [
        tuple(asked.token_ids[:row])
        for asked in trie.requests
        for row in range(asked.first, len(asked.token_ids) + 1)
    ]
    assert sorted(read) == sorted({edge[:-1] for edge in edges})


async def test_choices_that_begin_alike_are_scored_as_if_alone() -> None:
    choices = ["one of them", "one of those", "one", "two of them", "only one"]
    async with Runtime(ScriptedModel(next_letter)) as runtime:
        for by in get_args(Normalisation):
            found = await runtime.select("which? ", choices, by=by)
            alone = [await runtime.select("which? ", [choice], by=by) for choice in choices]
            assert [c.logprobs for c in found.choices] == [s.choices[0].logprobs for s in alone]
        await settled(runtime)


async def test_greedy_token_follows_the_likeliest_token() -> None:
    # By mean, "xyz" wins (two likely tokens of three); token by token, and as a whole, "dq" does.
    async with Runtime(ScriptedModel(next_letter)) as runtime:
        by_mean = await runtime.select("abc", ["dq", "xyz"])
        by_token = await runtime.select("abc", ["dq", "xyz"], by="greedy_token")
        by_whole = await runtime.select("abc", ["dq", "xyz"], by="probability")
        assert (by_mean.text, by_token.text, by_whole.text) == ("xyz", "dq", "dq")


async def test_unconditional_subtracts_what_the_choice_is_worth_alone() -> None:
    async with Runtime(ScriptedModel(next_letter)) as runtime:
        found = await runtime.select("abc", ["de", "xy"], by="unconditional")
        # Alone, both continue the alphabet from an unlikely first letter.
        assert found.choices[0].score == pytest.approx(LIKELY - UNLIKELY)
        assert found.choices[1].score == pytest.approx(0.0)


async def test_prompt_logprobs_are_those_of_every_token_but_the_first() -> None:
    async with Runtime(ScriptedModel(next_letter), max_step_tokens=2) as runtime:
        done = await runtime.generate("abcxy", max_tokens=2, prompt_logprobs=True)
        assert done.prompt_logprobs is not None
        assert [e.token_id for e in done.prompt_logprobs] == list(b"bcxy")
        assert [e.logprob for e in done.prompt_logprobs] == pytest.approx(
            [LIKELY, LIKELY, UNLIKELY, LIKELY]
        )
        assert done.text == "z{"
        await settled(runtime)


async def test_a_prompt_of_one_token_has_nothing_to_score() -> None:
    async with Runtime(ScriptedModel(next_letter)) as runtime:
        done = await runtime.generate("a", max_tokens=2, prompt_logprobs=True)
        assert (done.text, done.prompt_logprobs) == ("bc", ())


async def test_known_prompt_logprobs_are_not_computed_again() -> None:
    model = ScriptedModel(next_letter)
    async with Runtime(model) as runtime:
        first = await runtime.generate("abcdefgh", max_tokens=0, prompt_logprobs=True)
        computed = sum(model.steps)
        again = await runtime.generate("abcdefgh", max_tokens=0, prompt_logprobs=True)
        assert sum(model.steps) == computed
        assert again.prompt_logprobs == first.prompt_logprobs

        longer = await runtime.generate("abcdefghij", max_tokens=1, prompt_logprobs=True)
        assert longer.prompt_logprobs is not None
        assert [e.logprob for e in longer.prompt_logprobs] == pytest.approx([LIKELY] * 9)
        assert sum(model.steps) == computed + len("hij")

        known = await runtime.generate("abcdefghij", max_tokens=0, prompt_logprobs=True)
        assert sum(model.steps) == computed + len("hij")
        assert known.usage.cached_tokens == 10


async def test_scores_of_reused_slots_are_forgotten() -> None:
    async with Runtime(ScriptedModel(next_letter, num_slots=16)) as runtime:
        await runtime.generate("abcdefghijkl", max_tokens=0, prompt_logprobs=True)
        await runtime.generate("zzzzzzzzzzzz", max_tokens=1)
        done = await runtime.generate("zzzzzzzzzzzz", max_tokens=0, prompt_logprobs=True)
        assert done.prompt_logprobs is not None
        assert [e.logprob for e in done.prompt_logprobs] == pytest.approx([UNLIKELY] * 11)


@pytest.mark.parametrize(
    ("choices", "by", "match"),
    [
        ([], "token_length", "at least one"),
        ("yes", "token_length", "list"),
        (["yes", ""], "token_length", "choice 1 is empty"),
        (["yes", "no", "yes"], "token_length", "choice 2 repeats 'yes'"),
        (["yes"], "best", "token_length"),
    ],
)
def test_choices_that_make_no_sense_are_refused(choices: list[str], by: str, match: str) -> None:
    with pytest.raises(InvalidRequest, match=match):
        plan_selection(ByteCodec(), [1, 2], choices, by)  # pyright: ignore[reportArgumentType]


class PairCodec(ByteCodec):
    """Bytes, and one token (300) for "ab": a boundary that choices can move."""

    def encode(self, text: str) -> list[int]:
        ids: list[int] = []
        for byte in text.encode():
            if byte == ord("b") and ids and ids[-1] == ord("a"):
                ids[-1] = 300
            else:
                ids.append(byte)
        return ids

    encode_inside = encode

    def decode(self, token_ids: list[int]) -> str:
        return b"".join(b"ab" if t == 300 else bytes([t]) for t in token_ids).decode()

    def is_control(self, token_id: int) -> bool:
        return token_id == 0


def test_a_choice_is_scored_in_the_tokens_it_takes_with_the_prompt() -> None:
    codec = PairCodec()
    prompt = codec.encode("xa")
    assert heal(codec, prompt, "bc") == codec.encode("xabc")
    plan = plan_selection(codec, prompt, ["bc", "c"], "token_length")
    # Both from the token where the first choice leaves the prompt: "a" may become "ab".
    assert plan.spelled == ((300, ord("c")), (ord("a"), ord("c")))
    # What both are read after is "x"; its row scores both tokens.
    assert plan.requests == (
        Scoring([ord("x"), 300], 1, ((300, ord("a")), (ord("c"),))),
        Scoring([ord("x"), ord("a")], 2, ((ord("c"),),)),
    )


def test_control_tokens_are_never_retokenised() -> None:
    codec = PairCodec()
    assert heal(codec, [ord("a"), 0], "b") == [ord("a"), 0, ord("b")]


def test_tokens_the_tokenizer_would_not_write_are_left_alone() -> None:
    codec = PairCodec()
    assert heal(codec, [ord("a"), ord("b"), ord("a")], "b") == [
        ord("a"),
        ord("b"),
        ord("a"),
        ord("b"),
    ]
