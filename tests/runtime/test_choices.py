"""Guesses change how many steps an answer takes, and nothing else of it.

What is checked against is the same constraint with no guesses.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import anyio
import numpy as np
import pytest

from agentrt.errors import GenerationFailed
from agentrt.generation import Completion, TokenKind
from agentrt.matching import Allowed, Forced
from agentrt.runtime.runtime import Runtime
from agentrt.testing import VOCAB_SIZE, ScriptedModel
from tests.runtime.serving import LONG, settled

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

pytestmark = pytest.mark.anyio

ALL = np.full(-(-VOCAB_SIZE // 32), 0xFFFFFFFF, np.uint32)
PROMPT = "the guesses of"


@dataclass
class Guessing:
    """A constraint that allows everything, and guesses what a function of the past tells it."""

    guess: Callable[[Sequence[int]], Sequence[int]]
    min_tokens: int = 0
    ends_after: int | None = None
    accepted: list[int] = field(default_factory=list[int])

    def matcher(self) -> Guessing:
        return Guessing(self.guess, self.min_tokens, self.ends_after)

    def next(self, tokens_left: int | None = None) -> Allowed | Forced:
        return Allowed(ALL, tuple(self.guess(self.accepted)))

    def accept(self, token_id: int) -> None:
        self.accepted.append(token_id)

    def rollback(self, tokens: int) -> None:
        assert 0 <= tokens <= len(self.accepted)
        del self.accepted[len(self.accepted) - tokens :]

    @property
    def is_complete(self) -> bool:
        return self.is_finished

    @property
    def is_finished(self) -> bool:
        return self.ends_after is not None and len(self.accepted) >= self.ends_after


def nothing(accepted: Sequence[int]) -> Sequence[int]:
    return ()


async def answer(
    constraint: Guessing,
    prompt: str = PROMPT,
    *,
    model: ScriptedModel | None = None,
    max_tokens: int = 20,
) -> Completion:
    async with Runtime(model or ScriptedModel.babbling()) as runtime:
        done = await runtime.generate(prompt, constraint=constraint, max_tokens=max_tokens)
        await settled(runtime)
        return done


async def text_of(prompt: str = PROMPT, tokens: int = 20) -> list[int]:
    return list((await answer(Guessing(nothing), prompt, max_tokens=tokens)).token_ids)


def right_and_wrong(text: Sequence[int], seed: int) -> Callable[[Sequence[int]], Sequence[int]]:
    """Guesses of any length that are right up to some place, the same ones at the same place."""

    def guess(accepted: Sequence[int]) -> Sequence[int]:
        rng = random.Random(f"{seed} {len(accepted)}")
        at, right = len(accepted), rng.randrange(6)
        return [*text[at : at + right], *(rng.randrange(97, 123) for _ in range(rng.randrange(3)))]

    return guess


async def test_a_right_guess_saves_its_steps() -> None:
    text = await text_of()
    model = ScriptedModel.babbling()
    done = await answer(Guessing(lambda accepted: text[len(accepted) :]), model=model)
    assert list(done.token_ids) == text
    # all at once: the prompt with 19 guesses behind it leaves the 20th token to be chosen
    assert model.steps == [len(PROMPT) + 19]
    assert done.usage.forced_tokens == 19
    assert done.token_kinds == (*[TokenKind.FORCED] * 19, TokenKind.SAMPLED)


async def test_a_wrong_guess_costs_nothing_but_its_own_computation() -> None:
    text = await text_of()
    model = ScriptedModel.babbling()
    done = await answer(
        Guessing(lambda accepted: [0, 0] if len(accepted) == 5 else ()), model=model
    )
    assert list(done.token_ids) == text
    assert done.usage.forced_tokens == 0
    assert model.steps == [len(PROMPT), *[1] * 4, 3, *[1] * 14]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("max_step_tokens", [1, 3, 512])
async def test_guesses_do_not_change_the_answer(seed: int, max_step_tokens: int) -> None:
    prompts = [f"{i} says" for i in range(8)]
    texts = [await text_of(prompt, 24) for prompt in prompts]
    model = ScriptedModel.babbling(num_slots=90)
    done: list[Completion | None] = [None] * len(prompts)

    async with Runtime(model, kv_tokens=90, max_step_tokens=max_step_tokens) as runtime:

        async def one(i: int) -> None:
            constraint = Guessing(right_and_wrong(texts[i], seed + 10 * i))
            done[i] = await runtime.generate(prompts[i], constraint=constraint, max_tokens=24)

        with anyio.fail_after(LONG):
            async with anyio.create_task_group() as group:
                for i in range(len(prompts)):
                    group.start_soon(one, i)
        await settled(runtime)
    assert [list(d.token_ids) for d in done if d] == texts


async def test_a_guess_that_another_computed_is_still_checked() -> None:
    text = await text_of()
    wrong = list(b"wrong")
    async with Runtime(ScriptedModel.babbling()) as runtime:
        # the prompt with the wrong guess behind it is in the cache
        await runtime.generate(PROMPT + "wrong", max_tokens=1)
        constraint = Guessing(lambda accepted: wrong if not accepted else ())
        done = await runtime.generate(PROMPT, constraint=constraint, max_tokens=20)
        assert list(done.token_ids) == text
        assert done.usage.cached_tokens == len(PROMPT) - 1
        await settled(runtime)


async def test_a_seeded_answer_is_the_same() -> None:
    replies = {PROMPT: ["one of these", "another one", "a third"]}
    for seed in range(6):
        answers: list[str] = []
        for guess in (nothing, lambda accepted: list(b"another one")[len(accepted) :]):
            async with Runtime(ScriptedModel.replying(replies)) as runtime:
                done = await runtime.generate(
                    PROMPT, constraint=Guessing(guess), seed=seed, temperature=1.0, max_tokens=20
                )
            answers.append(done.text)
        assert answers[0] == answers[1]


async def test_a_stop_string_within_a_guess_ends_there() -> None:
    text = await text_of()
    stop = bytes(text[6:8]).decode()
    for guess in (nothing, lambda accepted: text[len(accepted) :]):
        async with Runtime(ScriptedModel.babbling()) as runtime:
            done = await runtime.generate(
                PROMPT, constraint=Guessing(guess), max_tokens=20, stop=(stop,)
            )
            assert done.text == bytes(text[: bytes(text).index(stop.encode())]).decode()
            assert done.stopped_by == stop
            await settled(runtime)


async def test_an_end_within_a_guess_is_the_end() -> None:
    text = await text_of()
    for guess in (nothing, lambda accepted: text[len(accepted) :]):
        done = await answer(Guessing(guess, ends_after=7))
        assert list(done.token_ids) == text[:7]


async def test_guesses_are_streamed_with_what_they_are() -> None:
    text = await text_of()
    constraint = Guessing(lambda accepted: text[len(accepted) : len(accepted) + 4])
    async with Runtime(ScriptedModel.babbling()) as runtime:
        async with runtime.stream(PROMPT, constraint=constraint, max_tokens=20) as stream:
            chunks = [chunk async for chunk in stream]
        assert [len(chunk.token_ids) for chunk in chunks] == [5, 5, 5, 5]
        assert all(chunk.rollback == 0 for chunk in chunks)
        assert "".join(chunk.text for chunk in chunks) == stream.completion.text


async def test_an_unknown_token_guessed_fails_its_own_request() -> None:
    async with Runtime(ScriptedModel.babbling()) as runtime:
        with pytest.raises(GenerationFailed, match=f"token id {VOCAB_SIZE}"):
            await runtime.generate(
                PROMPT, constraint=Guessing(lambda accepted: [VOCAB_SIZE]), max_tokens=5
            )
        assert (await runtime.generate(PROMPT, max_tokens=5)).token_ids
        await settled(runtime)


async def test_a_guess_under_the_mask_of_its_own_place() -> None:
    """After "a" only "b" may come: a guess that the mask forbids is not made."""
    only_b = np.zeros_like(ALL)
    only_b[ord("b") >> 5] = 1 << (ord("b") & 31)

    class AfterA(Guessing):
        def matcher(self) -> Guessing:
            return AfterA(self.guess)

        def next(self, tokens_left: int | None = None) -> Allowed:
            mask = only_b if self.accepted[-1:] == [ord("a")] else ALL
            return Allowed(mask, tuple(self.guess(self.accepted)))

    plain = await answer(AfterA(nothing))
    for tried in (b"ab", b"ac", b"bb", b"c"):
        assert (await answer(AfterA(lambda _, tried=tried: tried))).token_ids == plain.token_ids
