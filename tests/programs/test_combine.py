"""Doing several things at once: cancellation that comes from within, errors as they are, seeds."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

import anyio
import pytest

import agentrt
from agentrt import CancelledBranch, InvalidRequest, State, gather, program, race
from tests.programs.conftest import Scripted

pytestmark = pytest.mark.anyio


async def cancelled() -> int:
    """As something ends that was cancelled by none of the scopes around it."""
    raise asyncio.CancelledError


async def well() -> int:
    return 1


async def leaves() -> None:
    raise SystemExit(3)


async def one(_: int) -> int:
    return await cancelled()


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize(
    "run",
    [
        lambda: gather(well(), cancelled()),
        lambda: race(cancelled()),
        lambda: agentrt.map(one, [1]),
    ],
)
async def test_a_branch_that_was_cancelled_from_within_says_so(
    run: Callable[[], Awaitable[object]],
) -> None:
    with pytest.raises(CancelledBranch, match="cancelled from within") as failure:
        await run()
    assert isinstance(failure.value.__cause__, asyncio.CancelledError)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_race_goes_on_without_a_branch_that_was_cancelled() -> None:
    assert await race(cancelled(), well()) == 1


async def test_cancelling_the_scope_is_no_failure() -> None:
    with anyio.CancelScope() as scope:

        async def stop() -> None:
            scope.cancel()
            await anyio.sleep_forever()

        await gather(anyio.sleep_forever(), stop())
    assert scope.cancelled_caught


@pytest.mark.parametrize("run", [lambda: gather(leaves()), lambda: race(leaves(), well())])
async def test_what_ends_the_process_is_raised_as_it_is(
    run: Callable[[], Awaitable[object]],
) -> None:
    with pytest.raises(SystemExit):
        await run()


async def test_map_raises_what_ends_the_process_as_it_is() -> None:
    async def leave(_: int) -> None:
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        await agentrt.map(leave, [1, 2])


async def test_what_cannot_be_awaited_is_refused_and_the_rest_is_closed() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(InvalidRequest, match="limit=0"):
            await gather(well(), well(), limit=0)
        with pytest.raises(InvalidRequest, match="a int was given to be awaited"):
            await gather(well(), 5)  # pyright: ignore
        with pytest.raises(InvalidRequest, match="a function was given"):
            await race(well, well())  # pyright: ignore


async def test_an_input_generator_is_closed_where_a_map_stops_early() -> None:
    closed: list[str] = []

    async def pages() -> AsyncIterator[int]:
        try:
            for number in range(100):
                yield number
        finally:
            await anyio.lowlevel.checkpoint()
            closed.append("async")

    def numbers() -> Iterator[int]:
        try:
            yield from range(100)
        finally:
            closed.append("sync")

    async def fails(_: int) -> int:
        raise LookupError

    for inputs in (pages(), numbers()):  # held here, so that nothing else closes them
        with pytest.raises(LookupError):
            await agentrt.map(fails, inputs)
    assert closed == ["async", "sync"]


async def test_programs_under_gather_race_and_map_find_their_seeds_again(
    scripted: Scripted,
) -> None:
    @program(temperature=1.0)
    async def inner(s: State, index: int = 0) -> str:
        s.user("Say one.")
        return await s.gen()

    @program
    async def outer(s: State, order: int) -> list[str]:
        turns = [anyio.Event() for _ in range(7)]
        turns[0 if order > 0 else 6].set()

        async def call(index: int) -> str:
            await turns[index].wait()  # one after another, from either end
            asking = inner(index)
            if 0 <= index + order <= 6:
                turns[index + order].set()
            return await asking

        return [
            *await gather(*map(call, range(7))),
            await race(inner()),
            *await agentrt.map(inner, [1, 2]),
        ]

    async with scripted([f"sample {letter}" for letter in "abcdefghijklmnop"]):
        first = await outer.using(seed=1)(1)
        assert len(set(first)) > 3
        assert first == await outer.using(seed=1)(-1)
        assert first != await outer.using(seed=2)(1)


@pytest.mark.parametrize("run", [gather, race])
async def test_a_coroutine_is_given_once(run: Callable[..., Awaitable[object]]) -> None:
    same, beside = well(), well()
    with pytest.raises(InvalidRequest, match="the coroutine well was given twice"):
        await run(same, beside, same)
    with pytest.raises(InvalidRequest, match="was awaited before"):
        await run(beside)  # closed, since it never got to start


async def test_a_coroutine_that_somebody_awaits_is_left_to_them() -> None:
    begun, go = anyio.Event(), anyio.Event()
    results: list[int] = []

    async def waits() -> int:
        begun.set()
        await go.wait()
        return 1

    running = waits()

    async def own() -> None:
        results.append(await running)

    async with anyio.create_task_group() as group:
        group.start_soon(own)
        await begun.wait()
        with pytest.raises(InvalidRequest, match="was awaited before"):
            await gather(running)
        go.set()
    assert results == [1]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_task_may_be_given_twice() -> None:
    task = asyncio.ensure_future(well())
    assert await gather(task, task) == [1, 1]
