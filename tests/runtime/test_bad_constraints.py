"""A constraint that breaks its contract fails its own request, and no other."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import anyio
import numpy as np
import pytest

from agentrt.errors import GenerationFailed
from agentrt.generation import FinishReason, TokenKind, TokenLogprob
from agentrt.matching import Allowed, Forced
from agentrt.runtime.runtime import Runtime
from agentrt.testing import EOS, VOCAB_SIZE, ScriptedModel
from tests.runtime.serving import LONG, settled

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.anyio

WORDS = -(-VOCAB_SIZE // 32)
ALL = Allowed(np.full(WORDS, 0xFFFFFFFF, np.uint32))


@dataclass
class Scripted:
    """A constraint, and a matcher, whose answer is a function of the tokens accepted so far."""

    answer: Callable[[list[int]], Any]
    min_tokens: Any = 0
    accepted: list[int] = field(default_factory=list[int])

    is_complete = is_finished = False

    def matcher(self) -> Scripted:
        return Scripted(self.answer)

    def next(self, tokens_left: int | None = None) -> Any:
        return self.answer(self.accepted)

    def accept(self, token_id: int) -> None:
        self.accepted.append(token_id)

    def rollback(self, tokens: int) -> None:
        del self.accepted[len(self.accepted) - tokens :]


def always(answer: Any) -> Scripted:
    return Scripted(lambda accepted: answer)


def after(count: int, answer: Callable[[list[int]], Any]) -> Scripted:
    """Everything is allowed, but for one answer when `count` tokens were accepted."""
    return Scripted(lambda accepted: answer(accepted) if len(accepted) == count else ALL)


def raises(accepted: list[int]) -> Any:
    raise RuntimeError("boom")


class Unspeakable(Exception):
    def __repr__(self) -> str:
        raise RuntimeError("no repr")


def raising(error: BaseException) -> Callable[[list[int]], Any]:
    def answer(accepted: list[int]) -> Any:
        raise error

    return answer


def likely(given: Any) -> Scripted:
    return after(2, lambda _: Allowed(ALL.mask, given))


BROKEN = {
    "too short a mask": always(Allowed(np.zeros(3, np.uint32))),
    "too long a mask": always(Allowed(np.zeros(WORDS + 1, np.uint32))),
    "a mask of other words": always(Allowed(np.ones(WORDS, np.int64))),  # pyright: ignore[reportArgumentType]
    "a mask of truth values": always(Allowed(np.ones(VOCAB_SIZE, np.bool_))),  # pyright: ignore[reportArgumentType]
    "a mask in two dimensions": after(2, lambda _: Allowed(np.zeros((1, WORDS), np.uint32))),
    "no mask": after(2, lambda _: Allowed(None)),  # pyright: ignore[reportArgumentType]
    "no answer": always(None),
    "an error at once": Scripted(raises),
    "an error later": after(3, raises),
    "an unknown token": always(Forced((VOCAB_SIZE,))),
    "a negative token": after(2, lambda _: Forced((-1,))),
    "half a token": after(2, lambda _: Forced((1.5,))),  # pyright: ignore[reportArgumentType]
    "nothing forced, for ever": always(Forced(())),
    "tokens taken back for nothing": after(3, lambda _: Forced((), rollback=1)),
    "the same again, for ever": after(3, lambda done: Forced((done[-1],), rollback=1)),
    "fewer and fewer, for ever": after(3, lambda done: Forced((done[1],), rollback=2)),
    "another text": after(3, lambda _: Forced(tuple(b"ABCD"), rollback=3)),
    "more taken back than written": after(3, lambda _: Forced((65,), rollback=4)),
    "a negative count taken back": after(3, lambda _: Forced((65,), rollback=-1)),
    "an exit": after(3, raising(SystemExit(3))),
    "an interrupt of its own": after(3, raising(KeyboardInterrupt())),
    "a cancellation of its own": after(3, raising(asyncio.CancelledError())),
    "a closed generator": after(3, raising(GeneratorExit())),
    "an error without words": after(3, raising(Unspeakable())),
    "no guesses": likely(None),
    "guesses to be drawn": likely(iter([65])),
    "a text for guesses": likely("A"),
    "half a token guessed": likely((65.0,)),
    "no length": Scripted(lambda _: ALL, min_tokens=None),
}


@pytest.mark.parametrize("how", BROKEN)
async def test_a_broken_constraint_fails_alone(how: str) -> None:
    async with Runtime(ScriptedModel.babbling()) as runtime:
        undisturbed = await runtime.generate("beside", max_tokens=12)
        beside: list[tuple[int, ...]] = []

        async def good() -> None:
            beside.append((await runtime.generate("beside", max_tokens=12)).token_ids)

        with anyio.fail_after(LONG):
            async with anyio.create_task_group() as group:
                group.start_soon(good)
                with pytest.raises(GenerationFailed):
                    await runtime.generate("hello", max_tokens=10, constraint=BROKEN[how])
        assert beside == [undisturbed.token_ids]
        await settled(runtime)


@pytest.mark.parametrize("given", [None, iter([65]), "A", (65.0,), (True,), (VOCAB_SIZE,)], ids=str)
async def test_guesses_that_are_none_are_called_by_their_name(given: Any) -> None:
    async with Runtime(ScriptedModel.babbling()) as runtime:
        with pytest.raises(GenerationFailed, match="`likely`"):
            await runtime.generate("hello", max_tokens=10, constraint=likely(given))


async def test_text_may_be_taken_back_before_anything_is_computed() -> None:
    def answer(accepted: list[int]) -> Any:
        if accepted == []:
            return Forced(tuple(b"abc"))
        return Forced(tuple(b"bcd"), rollback=2) if accepted == [*b"abc"] else ALL

    async with Runtime(ScriptedModel.babbling()) as runtime:
        async with runtime.stream("hello", max_tokens=6, constraint=Scripted(answer)) as stream:
            text = "".join([chunk.text async for chunk in stream])
        done = stream.completion
        assert text == done.text
        assert done.text.startswith("abcd")
        assert (done.usage.forced_tokens, done.usage.sampled_tokens) == (4, 2)
        again = await runtime.generate("helloabcd", max_tokens=2)
        assert done.text == "abcd" + again.text
        await settled(runtime)


async def test_tokens_taken_back_after_they_were_streamed_are_counted() -> None:
    def answer(accepted: list[int]) -> Any:
        if len(accepted) == 3:
            return Forced((*accepted[1:], *b"xy"), rollback=2)
        if len(accepted) == 7:
            return Forced((*accepted[4:], *b"z"), rollback=3)
        return ALL

    async with Runtime(ScriptedModel.babbling()) as runtime:
        asked = runtime.stream("hello", max_tokens=12, logprobs=True, constraint=Scripted(answer))
        async with asked as stream:
            chunks = [chunk async for chunk in stream]
        done = stream.completion
        # What is taken back was sampled and comes again as forced: kinds and logprobs tell.
        tokens: list[tuple[int, TokenKind, TokenLogprob]] = []
        for chunk in chunks:
            assert chunk.logprobs is not None
            del tokens[len(tokens) - chunk.rollback :]
            tokens += zip(chunk.token_ids, chunk.kinds, chunk.logprobs, strict=True)
        assert done.logprobs is not None
        assert tokens == list(zip(done.token_ids, done.token_kinds, done.logprobs, strict=True))
        assert "".join(chunk.text for chunk in chunks) == done.text
        # One less than the constraint took back: the last was not streamed yet.
        assert [chunk.rollback for chunk in chunks if chunk.rollback] == [1, 2]
        await settled(runtime)


async def test_a_limit_of_no_tokens_forces_none() -> None:
    async with Runtime(ScriptedModel.babbling()) as runtime:
        done = await runtime.generate("hello", max_tokens=0, constraint=always(Forced((65,))))
        assert (done.token_ids, done.finish_reason) == ((), FinishReason.LENGTH)
        await settled(runtime)


async def test_the_scripted_model_heeds_what_is_banned() -> None:
    async with Runtime(ScriptedModel.replying("ab")) as runtime:
        done = await runtime.generate("hello", min_tokens=5, max_tokens=8)
        assert EOS not in done.token_ids[:4]
