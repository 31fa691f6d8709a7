"""Budgets: what is reserved, who waits for whom, and what is charged in the end."""

from __future__ import annotations

import gc
from collections.abc import AsyncGenerator, Generator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from agentrt import (
    Budget,
    BudgetExhausted,
    DeadlineExceeded,
    InvalidRequest,
    PromptTooLong,
    State,
    current_runtime,
    gather,
)
from agentrt.programs import current_budget
from agentrt.trace import SpanKind, span
from tests.programs.conftest import Scripted
from tests.runtime.serving import Gate, settled
from tests.trace.sinks import listening

pytestmark = pytest.mark.anyio


def asked(text: str = "x") -> State:
    s = State()
    s.text(text)
    return s


async def test_who_asks_inside_a_loop_over_a_stream_does_not_wait_for_it(
    scripted: Scripted,
) -> None:
    async with scripted():
        with Budget(tokens=100), anyio.fail_after(30):
            s = asked()
            async with s.stream(max_tokens=80) as stream:
                async for _ in stream:
                    inside = await asked("y").gen(max_tokens=50)
                    assert len(inside) == 20  # what the stream has not reserved
                    break
        with Budget(tokens=100), anyio.fail_after(30):
            async with asked().stream(max_tokens=100) as stream:
                async for _ in stream:
                    with pytest.raises(BudgetExhausted, match="100 held by streams") as failure:
                        await asked("z").gen(max_tokens=1)
                    assert failure.value.held == 100
                    break


async def test_a_stream_that_was_left_alone_is_not_waited_for(scripted: Scripted) -> None:
    async with scripted():
        with Budget(tokens=100) as budget, anyio.fail_after(30):
            stream = asked().stream(max_tokens=90)
            async for _ in stream:
                break
            assert len(await asked("y").gen(max_tokens=50)) == 10
            await stream.__aexit__(None, None, None)
            assert budget.tokens_spent >= 11
            assert budget.tokens_left == 100 - budget.tokens_spent


async def test_who_waits_is_told_when_a_stream_is_no_longer_read(scripted: Scripted) -> None:
    async with scripted():
        read = anyio.Event()
        leave = anyio.Event()
        got: list[str] = []

        async def reading() -> None:
            async with asked().stream(max_tokens=90) as stream:
                async for _ in stream:
                    read.set()
                    await leave.wait()
                    break

        async def waiting() -> None:
            await read.wait()
            got.append(await asked("y").gen(max_tokens=50))
            leave.set()

        with Budget(tokens=100), anyio.fail_after(30):
            await gather(reading(), waiting())
        assert [len(text) for text in got] == [10]


async def test_waiting_for_tokens_ends_with_the_time_for_them(scripted: Scripted) -> None:
    gate = Gate()
    async with scripted(on_step=gate):

        async def holds() -> None:
            await asked().gen(max_tokens=100)

        async def waits(timeout: float | None) -> None:
            await gate.reached()
            await asked("y").gen(max_tokens=100, timeout=timeout)

        for options, timeout, error in (
            ({"seconds": 0.05}, None, BudgetExhausted),
            ({}, 0.01, DeadlineExceeded),
        ):
            with Budget(tokens=100, **options) as budget, pytest.raises(error):
                await gather(holds(), waits(timeout))
            assert budget.calls_spent == 1  # of what waited, nothing reached the model
        gate.open()
        await settled(current_runtime())


async def test_a_select_ends_with_the_seconds_of_its_budget(scripted: Scripted) -> None:
    gate = Gate()
    async with scripted(on_step=gate), anyio.create_task_group() as group:
        group.start_soon(asked().gen)  # keeps the engine busy until the seconds are over
        await gate.reached()

        async def over(budget: Budget) -> None:
            while budget.seconds_left > 0:
                await anyio.lowlevel.checkpoint()
            gate.open()

        with Budget(seconds=0.05) as budget:
            group.start_soon(over, budget)
            with pytest.raises(BudgetExhausted, match="seconds"):
                await asked().select(["a", "b"])
        group.cancel_scope.cancel()


async def test_what_was_written_before_an_interruption_is_charged(scripted: Scripted) -> None:
    gate = Gate(at_step=5)
    async with scripted(on_step=gate):
        with Budget(tokens=1_000) as budget:
            async with anyio.create_task_group() as group:
                group.start_soon(asked().gen)
                await gate.reached()
                await anyio.wait_all_tasks_blocked()
                group.cancel_scope.cancel()
        assert 1 <= budget.tokens_spent <= 5
        gate.open()
        await settled(current_runtime())


async def test_what_a_stream_wrote_is_charged_whether_or_not_it_was_read(
    scripted: Scripted,
) -> None:
    gate = Gate(at_step=5)
    async with scripted(on_step=gate):
        with Budget(tokens=1_000) as budget:
            async with asked().stream() as stream:
                async for _ in stream:
                    await gate.reached()
                    await anyio.wait_all_tasks_blocked()
                    break
        assert 2 <= budget.tokens_spent <= 5
        gate.open()
        await settled(current_runtime())


async def test_a_generation_is_charged_what_its_usage_says(scripted: Scripted) -> None:
    async with scripted('{"a":1}'):
        s = asked()
        with Budget(tokens=100) as budget:
            await s.gen(dict[str, int])
            async with s.stream(max_tokens=5) as stream:
                [_ async for _ in stream]
        assert budget.tokens_spent == s.usage.output_tokens > 0


async def test_calls_that_never_reach_the_model_are_not_charged(scripted: Scripted) -> None:
    async with scripted("a", context_length=100):
        with Budget(calls=3, tokens=5) as budget:
            with pytest.raises(PromptTooLong):
                await asked("x" * 200).gen()
            with pytest.raises(BudgetExhausted):
                await asked().gen(regex="a{6}")
        assert (budget.calls_spent, budget.tokens_left) == (0, 5)


async def test_waiters_that_are_cancelled_leave_nothing_behind(scripted: Scripted) -> None:
    gate = Gate()
    async with scripted(on_step=gate):
        with Budget(tokens=10) as budget:
            async with anyio.create_task_group() as group:
                group.start_soon(lambda: asked().gen(max_tokens=10))
                await gate.reached()
                async with anyio.create_task_group() as waiters:
                    for _ in range(20):
                        waiters.start_soon(lambda: asked("y").gen(max_tokens=10))
                    await anyio.wait_all_tasks_blocked()
                    waiters.cancel_scope.cancel()
                assert budget.calls_spent == 1
                group.cancel_scope.cancel()
        assert (budget.tokens_left, budget.is_held) == (10 - budget.tokens_spent, False)
        gate.open()
        await settled(current_runtime())


async def test_a_budget_is_not_entered_inside_itself() -> None:
    budget = Budget(calls=1)
    left = anyio.Event()

    async def again() -> None:
        await left.wait()
        with pytest.raises(InvalidRequest, match="already in use"), budget:
            pass
        with Budget() as inner:
            assert inner.chain == [inner, budget]

    async with anyio.create_task_group() as group:
        with budget:
            group.start_soon(again)
        left.set()
    with budget:
        assert current_budget() is budget
    assert current_budget() is None


async def test_a_budget_left_in_another_task_counts_no_longer() -> None:
    budget = Budget(calls=1)
    entered, left = anyio.Event(), anyio.Event()

    async def enter() -> None:
        budget.__enter__()
        assert current_budget() is budget
        entered.set()
        await left.wait()
        assert current_budget() is None

    async with anyio.create_task_group() as group:
        group.start_soon(enter)
        await entered.wait()
        budget.__exit__(None, None, None)
        left.set()
    with budget:
        assert current_budget() is budget


@pytest.mark.parametrize(
    "wrong",
    [{"tokens": "a"}, {"tokens": 1.5}, {"tokens": True}, {"calls": -1}, {"seconds": float("nan")}],
)
def test_limits_that_are_none(wrong: dict[str, int]) -> None:
    with pytest.raises(InvalidRequest, match=f"{next(iter(wrong))}=.*; give a"):
        Budget(**wrong)


async def chunks(text: str = "x") -> AsyncGenerator[str]:
    with Budget(tokens=10):
        while True:
            yield await asked(text).gen(max_tokens=4)


def budgets_of_a_generator() -> Generator[None]:
    with Budget(tokens=10):
        while True:
            yield


async def test_a_generator_keeps_its_budget_to_itself(scripted: Scripted) -> None:
    async with scripted():
        with Budget(tokens=500) as outer:
            async with aclosing(chunks()) as drawn:
                async for _ in drawn:
                    assert current_budget() is outer
                    assert len(await asked().gen(max_tokens=100)) == 100
                    break
                assert current_budget() is outer
                with Budget(tokens=50) as other:
                    await anext(drawn)
                    assert other.tokens_spent == 4
                    assert other.chain == [other, outer]
                assert len(await anext(drawn)) == 2  # of ten, in whatever block they were drawn
            assert outer.tokens_spent == 110
            rest = budgets_of_a_generator()
            next(rest)
            assert current_budget() is outer
            rest.close()
            assert current_budget() is outer
        assert current_budget() is None


async def test_a_generator_that_was_left_alone_limits_nobody(scripted: Scripted) -> None:
    async with scripted():
        async for _ in chunks():
            break
        assert current_budget() is None
        assert len(await asked().gen(max_tokens=30)) == 30
        gc.collect()
        await anyio.lowlevel.checkpoint()
        assert len(await asked().gen(max_tokens=30)) == 30


async def test_generators_that_take_turns(scripted: Scripted) -> None:
    async with scripted():
        one, two = chunks("a"), chunks("b")
        taken = [len(await anext(each)) for each in (one, two, one, two, one, two)]
        assert taken == [4, 4, 4, 4, 2, 2]
        await one.aclose()
        await two.aclose()
        assert current_budget() is None


async def test_what_a_generator_starts_is_inside_its_budget(scripted: Scripted) -> None:
    async def both() -> AsyncGenerator[int]:
        with Budget(tokens=10) as budget:
            await gather(*[asked(name).gen(max_tokens=4) for name in "ab"])
            yield budget.tokens_spent

    async with scripted():
        assert [spent async for spent in both()] == [8]


async def test_a_block_made_of_a_generator_is_inside_its_budget(scripted: Scripted) -> None:
    @asynccontextmanager
    async def limited() -> AsyncGenerator[Budget]:
        with Budget(tokens=6) as budget:
            yield budget

    async with scripted(), limited() as budget, AsyncExitStack() as stack:
        assert current_budget() is budget
        assert len(await asked().gen(max_tokens=4)) == 4
        inner = await stack.enter_async_context(limited())
        stack.enter_context(last := Budget(calls=1))
        assert last.chain == [last, inner, budget]


def test_budgets_are_left_from_the_inside_out() -> None:
    outer, inner = Budget(tokens=100), Budget(tokens=50)
    outer.__enter__()
    inner.__enter__()
    with pytest.raises(InvalidRequest, match=r"tokens=100\) is left before Budget\(tokens=50"):
        outer.__exit__(None, None, None)
    assert current_budget() is inner
    assert inner.chain == [inner]
    with pytest.raises(InvalidRequest, match="not in use"):
        outer.__exit__(None, None, None)
    with outer:
        assert outer.chain == [outer, inner]
    inner.__exit__(None, None, None)
    assert current_budget() is None


def test_an_error_is_not_hidden_by_the_order_of_budgets() -> None:
    outer, inner = Budget(), Budget(tokens=1)
    outer.__enter__()
    inner.__enter__()
    outer.__exit__(KeyError, KeyError(), None)
    assert inner.chain == [inner]
    inner.__exit__(None, None, None)
    assert current_budget() is None


async def test_a_trace_says_which_budget_cut_a_generation_short(scripted: Scripted) -> None:
    with listening() as sink:
        async with scripted():
            with span(SpanKind.STEP, "s"), Budget(tokens=5), Budget(tokens=50):
                await asked().gen(max_tokens=9)
    told: list[Any] = [each for each in sink.told if each[0] == "event"]
    ((_, _, (name, said)),) = told
    assert name == "agentrt.limited"
    assert (said["budget"], said["tokens"], said["wanted"]) == ("Budget(tokens=5)", 5, 9)
    assert said["entered"].startswith("test_a_trace_says_which_budget_cut_a_generation_short, line")


@pytest.mark.parametrize("seconds", [10**400, float("inf")])
def test_seconds_that_no_clock_can_count(seconds: float) -> None:
    with pytest.raises(InvalidRequest, match=r"seconds=.*; give a number"):
        Budget(seconds=seconds)


async def test_seconds_that_are_over_are_said_to_be(scripted: Scripted) -> None:
    async with scripted():
        with Budget(seconds=0), pytest.raises(BudgetExhausted, match="of 0 seconds is over"):
            await asked().gen()
