"""The language: states, forks, seeds, streams, checks, budgets, repairs, errors."""

from __future__ import annotations

import gc
import threading
import weakref
from dataclasses import replace
from typing import Annotated

import anyio
import anyio.lowlevel
import numpy as np
import pytest
from pydantic import AfterValidator, BaseModel, Field

from agentrt import (
    AnswerRejected,
    Budget,
    BudgetExhausted,
    FinishReason,
    InvalidRequest,
    NoRuntime,
    NoSuchResult,
    PromptTooLong,
    Retry,
    Runtime,
    RuntimeConfig,
    State,
    current_runtime,
    gather,
    program,
    race,
)
from agentrt.runtime.source import LoadedModel
from agentrt.schema import Vocabulary
from agentrt.testing import ByteCodec, ScriptedModel
from agentrt.trace import SpanKind
from agentrt.trace import attributes as names
from tests.programs.conftest import Scripted
from tests.programs.replies import saying
from tests.runtime.serving import settled
from tests.trace.sinks import listening

pytestmark = pytest.mark.anyio

SAMPLES = [f"sample {letter}" for letter in "abcdefghijklmnop"]


async def test_forks_go_their_own_ways_and_join_collects_what_they_named(
    scripted: Scripted,
) -> None:
    async with scripted(saying({"colour": "red", "shape": "round"})) as bound:
        s = State()
        s.system("Describe it. " * 30)
        colour, shape = s.fork(2)
        colour.user("Its colour?")
        shape.user("Its shape?")
        await gather(colour.gen(name="said"), shape.gen(name="said"))
        assert s.join([colour, shape]) == ["Its colour?\nred", "Its shape?\nround"]
        assert s["said"] == ["red", "round"]
        assert "red" not in s.text_so_far
        assert s.usage == colour.usage + shape.usage
        s.adopt(shape)
        assert (s["said"], s.text_so_far.endswith("round")) == ("round", True)
        assert (bound.waste, bound.ratio < 1.05) == (0, True)


async def test_a_result_has_its_name_its_text_and_how_it_ended(scripted: Scripted) -> None:
    async with scripted("hello"):
        s = State()
        s.text("Say:")
        assert await s.gen(name="cut", max_tokens=3, logprobs=True) == "hel"
        result = s.result("cut")
        assert (result.text, result.completion.finish_reason) == ("hel", FinishReason.LENGTH)
        assert len(result.completion.logprobs) == 3
        with pytest.raises(NoSuchResult, match="no generation is named 'other'; there are: cut"):
            s["other"]


async def test_samples_differ_and_a_seed_repeats_them_in_any_order(scripted: Scripted) -> None:
    @program(temperature=1.0)
    async def sampled(s: State, order: int) -> list[str]:
        s.user("Say one.")
        forks = s.fork(6)
        found = await gather(*(fork.gen() for fork in forks[::order]))
        return found[::order]

    async with scripted(SAMPLES):
        first = await sampled.using(seed=1)(1)
        assert len(set(first)) > 3
        assert first == await sampled.using(seed=1)(-1)
        assert first != await sampled.using(seed=2)(1)


async def test_programs_called_from_a_seeded_program_are_repeatable_too(
    scripted: Scripted,
) -> None:
    @program(temperature=1.0)
    async def inner(s: State) -> str:
        s.user("Say one.")
        return await s.gen()

    @program
    async def outer(s: State) -> list[str]:
        async def call(branch: State, index: int) -> str:
            if index % 2:  # in whatever order the branches come to it
                await anyio.lowlevel.checkpoint()
            return await inner()

        return [*await s.each(call, range(6)), await inner(), await inner()]

    async with scripted(SAMPLES):
        first = await outer.using(seed=1)()
        assert len(set(first)) > 3
        assert first == await outer.using(seed=1)()
        assert first != await outer.using(seed=2)()
        seeded = inner.using(seed=9)
        assert len({await seeded() for _ in range(3)}) == 1


async def test_a_programs_defaults_hold_on_a_state_of_ones_own_and_end_with_it(
    scripted: Scripted,
) -> None:
    @program(max_tokens=2)
    async def short(s: State) -> str:
        return await s.gen()

    async with scripted("hello"):
        s = State(max_tokens=4)
        s.text("x")
        assert await short.on(s) == "he"
        s.text("y")
        assert await s.gen() == "hell"


async def test_a_branchs_exception_is_raised_where_it_was_awaited_and_stops_its_siblings(
    scripted: Scripted,
) -> None:
    async def branch(state: State, index: int) -> str:
        if index == 1:
            await state.gen(max_tokens=2)
            raise LookupError("the second")
        return await state.gen(max_tokens=10_000)

    async with scripted():
        s = State()
        s.text("x")
        with pytest.raises(LookupError, match="the second"):
            await s.each(branch, range(3))
        await settled(current_runtime())
        assert current_runtime().stats().computed_tokens < 1_000


async def test_a_race_stops_the_slower(scripted: Scripted) -> None:
    async with scripted():
        s = State()
        s.text("x")
        slow, fast = s.fork(2)
        won = await race(slow.gen(max_tokens=10_000), fast.gen(max_tokens=3))
        assert len(won) == 3
        await settled(current_runtime())


async def test_what_an_interrupted_generation_took_counts(scripted: Scripted) -> None:
    async with scripted():
        s = State()
        s.text("x")
        slow, fast = s.fork(2)

        async def overtake() -> None:
            while not current_runtime().stats().output_tokens:
                await anyio.lowlevel.checkpoint()
            await fast.gen(max_tokens=3)

        await race(slow.gen(max_tokens=10_000), overtake())
        assert slow.usage.prompt_tokens == 1
        assert 0 < slow.usage.output_tokens < 1_000
        assert s.usage == slow.usage + fast.usage


async def test_leaving_a_stream_stops_it_and_the_state_stays_as_it_was(
    scripted: Scripted,
) -> None:
    async with scripted() as bound:
        s = State()
        s.text("x")
        async with s.stream(max_tokens=10_000) as stream:
            async for _ in stream:
                break
        await settled(current_runtime())
        assert bound.computed < 1_000
        assert s.text_so_far == "x"
        assert s.usage.prompt_tokens > 0
        assert 0 < s.usage.output_tokens < 1_000  # what was written counts, heard or not
        with pytest.raises(InvalidRequest, match="has not ended"):
            _ = stream.value


async def test_a_stream_read_to_its_end_is_a_generation(scripted: Scripted) -> None:
    async with scripted("hello"):
        s = State()
        s.text("x")
        async with s.stream(name="said") as stream:
            pieces = [piece async for piece in stream]
        assert "".join(pieces) == stream.value == s["said"] == "hello"
        assert s.text_so_far == "xhello"


async def test_a_check_sends_its_reason_back_and_only_what_passes_is_kept(
    scripted: Scripted,
) -> None:
    def check(colour: str) -> None:
        if colour == "red":
            raise Retry("too loud.")

    async with scripted(saying({"too loud": "blue"}, "red")):
        s = State()
        s.user("A colour?")
        assert await s.gen(check=check, name="colour") == "blue"
        assert s.text_so_far == "A colour?\nblue"
        assert [a.reason for a in s.result("colour").attempts] == ["too loud."]
        with pytest.raises(AnswerRejected) as failure:
            await s.copy().gen(check=lambda _: False, retries=1)
        assert len(failure.value.attempts) == 2
        with pytest.raises(AnswerRejected):
            await s.copy().gen(check=lambda _: np.bool_(False), retries=1)


def _even(value: int) -> int:
    if value % 2:
        raise ValueError(f"{value} is odd")
    return value


Even = Annotated[int, AfterValidator(_even)]


class Pair(BaseModel):
    name: str
    values: list[Even]


class Shelf(BaseModel):
    pairs: list[Pair]
    best: Even | str = Field(alias="the best")


async def test_only_the_refused_field_is_written_again(scripted: Scripted) -> None:
    refused = '{"pairs":[{"name":"a","values":[2,3,4]}],"the best":7}'
    mended = '{"pairs":[{"name":"a","values":[2,8,4]}],"the best":7}'

    def reply(prompt: str) -> str:
        _, _, written = prompt.partition("assistant: ")
        if written.endswith('"the best":'):
            return '"none"}'
        return mended.removeprefix(written) if written else refused

    async with scripted(reply) as bound:
        s = State()
        s.user("Which shelf? " * 50)
        found = await s.gen(Shelf, name="shelf", max_tokens=200)
        assert (found.pairs[0].values, found.best) == ([2, 8, 4], "none")
        attempts = s.result("shelf").attempts
        assert [each.pointer for each in attempts] == ["/pairs/0/values/1", "/the best"]
        assert "3 is odd" in attempts[0].reason
        assert bound.ratio < 1.05


async def test_two_hundred_coroutines_share_one_budget(scripted: Scripted) -> None:
    finished: list[str] = []
    refused: list[str] = []

    async def ask(s: State) -> None:
        try:
            finished.append(await s.gen(max_tokens=10))
        except BudgetExhausted as error:
            refused.append(error.what)

    async with scripted("hello"):
        s = State()
        s.text("x")
        with Budget(tokens=300) as budget:
            await gather(*(ask(fork) for fork in s.fork(200)))
        assert budget.tokens_spent <= 300
        assert sum(map(len, finished)) >= 240  # it was used, not refused
        assert set(refused) == {"tokens"}
        assert len(finished) + len(refused) == 200
        assert budget.tokens_left == 300 - budget.tokens_spent


async def test_budgets_nest_and_say_what_ran_out(scripted: Scripted) -> None:
    @program(budget=Budget(calls=2))
    async def thrice(s: State) -> None:
        for _ in range(3):
            s.user("?")
            await s.gen()

    async with scripted("a"):
        with Budget(calls=5) as outer:
            with pytest.raises(BudgetExhausted, match="2 calls has 2 spent"):
                await thrice()
            with pytest.raises(BudgetExhausted, match="2 calls has 2 spent"):
                await thrice()
        assert outer.calls_spent == 4


async def test_a_prompt_that_is_too_long_says_what_each_message_takes(
    scripted: Scripted,
) -> None:
    async with scripted("a", context_length=100):
        s = State()
        s.system("x" * 30)
        s.user("y" * 90)
        with pytest.raises(PromptTooLong) as failure:
            await s.gen()
        assert failure.value.messages == (("system", 30), ("user", 90))
        assert "(system 30, user 90)" in str(failure.value)


async def test_outside_a_runtime_a_state_says_how_to_open_one() -> None:
    with pytest.raises(NoRuntime, match="async with"):
        State()


@pytest.mark.slow
async def test_two_hundred_programs_fork_four_ways_over_one_prefix(scripted: Scripted) -> None:
    @program
    async def ask(s: State, number: int) -> list[str]:
        s.system("The same for all of them. " * 20)
        s.user(f"Number {number:03}, in four ways, all of them different from each other.")

        async def way(branch: State, index: int) -> str:
            branch.user(f"Way {index}.")
            return await branch.gen(max_tokens=4)

        return await s.each(way, range(4))

    async with scripted("done") as bound:
        found = await gather(*(ask(number) for number in range(200)))
        assert found == [["done"] * 4] * 200
    assert bound.ratio < 1.05


async def test_a_repair_is_recorded_with_what_was_refused(scripted: Scripted) -> None:
    def at_least_five(value: int) -> int:
        if value < 5:
            raise ValueError("it is too small")
        return value

    class Order(BaseModel):
        pieces: Annotated[int, AfterValidator(at_least_five)]

    with listening() as sink:
        async with scripted(lambda said: "7}" if said.endswith(":") else '{"pieces":3}'):
            s = State()
            s.user("How many?")
            assert (await s.gen(Order)).pieces == 7
    repairs = [span for span in sink.spans if span.kind is SpanKind.VALIDATION]
    refused = [span.attributes[names.VALIDATION_ERRORS] for span in repairs]
    assert refused == ["/pieces: Value error, it is too small"]


async def test_a_closed_runtime_leaves_no_vocabulary_behind(scripted: Scripted) -> None:
    kept: list[weakref.ref[Vocabulary]] = []
    for kind in (int, bool, float):
        async with scripted("1"):
            s = State()
            s.user("One?")
            await s.gen(kind, max_tokens=8)
            kept.append(weakref.ref(s.runtime.vocabulary))
            del s
    gc.collect()
    assert sum(ref() is not None for ref in kept) <= 1  # the first may be what others share


class Watched(ByteCodec):
    def __init__(self, threads: list[threading.Thread]) -> None:
        self.threads = threads

    @property
    def vocabulary(self) -> Vocabulary:
        self.threads.append(threading.current_thread())
        return super().vocabulary


class OfWatched(ScriptedModel):
    def open(self, config: RuntimeConfig) -> LoadedModel:
        self.threads: list[threading.Thread] = []
        return replace(super().open(config), codec=Watched(self.threads))


async def test_a_vocabulary_is_worked_out_where_a_type_needs_it_and_beside_the_loop() -> None:
    model = OfWatched(lambda _prefix, _length: ord("1"))
    async with Runtime(model):
        s = State()
        s.user("One?")
        await s.gen(max_tokens=2)
        assert not model.threads
        await s.gen(int, max_tokens=2)
        assert model.threads[0] is not threading.current_thread()


@pytest.mark.parametrize(
    ("prompt", "wanted", "too_long_by"),
    [(140, str, 41), (140, Pair, 40 + 23), (95, Pair, 95 + 23 - 100), (99, str, None)],
)
async def test_a_prompt_is_too_long_by_what_the_shortest_answer_lacks(
    scripted: Scripted, prompt: int, wanted: type[object], too_long_by: int | None
) -> None:
    async with scripted("a", context_length=100):
        s = State()
        s.text("x" * prompt)
        if too_long_by is None:
            assert await s.gen(wanted) == "a"
            return
        with pytest.raises(PromptTooLong, match=rf"(shorten it|the prompt) by {too_long_by}\b"):
            await s.gen(wanted)
        with pytest.raises(PromptTooLong, match=rf"(shorten it|the prompt) by {too_long_by}\b"):
            async with s.stream(wanted) as stream:
                await anext(stream)
