"""One program over many inputs: order, bounds, failures, progress."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterator
from typing import Any

import anyio
import pytest

import agentrt
from agentrt import (
    Failed,
    InvalidRequest,
    RunError,
    Runtime,
    State,
    UsageError,
    map_as_completed,
    program,
)
from agentrt.programs.progress import MapProgress
from agentrt.testing import ScriptedModel

pytestmark = pytest.mark.anyio


async def double(x: int) -> int:
    return 2 * x


async def picky(x: int) -> int:
    if x % 3 == 0:
        raise RunError(f"no threes: {x}")
    return x


async def test_results_come_in_the_order_of_the_inputs() -> None:
    gates = {x: anyio.Event() for x in range(4)}

    async def backwards(x: int) -> int:
        if x < 3:
            await gates[x + 1].wait()
        gates[x].set()
        return x

    assert await agentrt.map(backwards, range(4)) == [0, 1, 2, 3]
    gates = {x: anyio.Event() for x in range(4)}
    assert await agentrt.map(backwards, range(4), ordered=False) == [3, 2, 1, 0]


async def test_programs_share_what_they_can() -> None:
    @program
    async def ask(s: State, question: str) -> str:
        s.system("The same for all of them.")
        s.user(question)
        return await s.gen(max_tokens=5)

    async with Runtime(ScriptedModel.babbling()) as runtime:
        answers = await agentrt.map(ask, ["a?", "b?", "c?"])
        assert len({*answers}) == 3
        usage = runtime.stats().usage
        assert usage.cached_tokens >= 2 * len("system: The same for all of them.")
        await runtime.check_integrity()


async def test_an_async_iterable_is_an_input_too() -> None:
    async def numbers() -> AsyncIterator[int]:
        for x in range(3):
            await anyio.lowlevel.checkpoint()
            yield x

    assert await agentrt.map(double, numbers()) == [0, 2, 4]
    assert await agentrt.map(double, []) == []


async def test_inputs_are_drawn_as_there_is_room() -> None:
    drawn: list[int] = []
    running, most = 0, 0

    def endless() -> Iterator[int]:
        x = 0
        while True:
            drawn.append(x)
            yield x
            x += 1

    async def work(x: int) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await anyio.lowlevel.checkpoint()
        running -= 1
        return x

    taken: list[int] = []
    async with map_as_completed(work, endless(), limit=3) as results:
        async for index, given, result in results:
            assert given == result == index
            taken.append(result)
            assert len(drawn) <= len(taken) + 3 + 1
            if len(taken) == 20:
                break
    assert most <= 3


async def test_leaving_stops_what_runs() -> None:
    stopped: list[int] = []

    async def hang(x: int) -> int:
        if x == 0:
            return 0
        try:
            await anyio.sleep_forever()
        finally:
            stopped.append(x)
        return x

    async with map_as_completed(hang, range(3)) as results:
        assert (await anext(aiter(results))).result == 0
    assert sorted(stopped) == [1, 2]


async def test_the_first_error_stops_the_rest_and_says_which_input() -> None:
    stopped: list[int] = []

    async def work(x: int) -> int:
        if x == 2:
            raise RunError("broken")
        try:
            await anyio.sleep_forever()
        finally:
            stopped.append(x)
        return x

    with pytest.raises(RunError, match="broken") as caught:
        await agentrt.map(work, [1, 2, 3])
    assert caught.value.__notes__ == ["input 1: 2"]
    assert sorted(stopped) == [1, 3]


async def test_failures_are_collected_where_asked() -> None:
    found = await agentrt.map(picky, [1, 3, 4], on_error="collect", retries=2)
    assert (found[0], found[2]) == (1, 4)
    failed = found[1]
    assert isinstance(failed, Failed)
    assert (failed.input, failed.attempts, str(failed.error)) == (3, 3, "no threes: 3")


async def test_what_fails_is_tried_again_unless_it_was_a_mistake() -> None:
    tries: dict[str, int] = {"flaky": 0, "wrong": 0}

    async def work(which: str) -> int:
        tries[which] += 1
        if which == "wrong":
            raise UsageError("it will not help")
        if tries[which] < 3:
            raise RunError("not yet")
        return tries[which]

    assert await agentrt.map(work, ["flaky"], retries=2) == [3]
    with pytest.raises(UsageError):
        await agentrt.map(work, ["wrong"], retries=5)
    assert tries["wrong"] == 1


async def test_an_error_of_the_inputs_or_of_the_caller_comes_as_it_is() -> None:
    def broken() -> Iterator[int]:
        yield 1
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        await agentrt.map(double, broken())
    with pytest.raises(ZeroDivisionError):
        async with map_as_completed(double, [1]):
            raise ZeroDivisionError


@pytest.mark.parametrize("wrong", [{"limit": 0}, {"retries": -1}, {"on_error": "ignore"}])
async def test_options_that_make_no_sense(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest, match=next(iter(wrong))):
        await agentrt.map(double, [1], **wrong)


def test_progress_in_lines(capsys: pytest.CaptureFixture[str]) -> None:
    now = 0.0
    with MapProgress("work", 4, True, lambda: now) as bar:
        for second in (2.0, 6.0, 7.0, 8.0):
            now = second
            bar.advance(failed=second == 6.0, restored=second == 8.0)
    assert capsys.readouterr().err.splitlines() == [
        "work: 2/4 0.3/s, 1 failed",
        "work: 4/4 0.4/s, 1 from before, 1 failed",
    ]


async def test_progress_says_how_it_ended(capsys: pytest.CaptureFixture[str]) -> None:
    await agentrt.map(double, range(3), progress=True)
    assert capsys.readouterr().err.startswith("double: 3/3")
    await agentrt.map(double, range(3))
    assert capsys.readouterr().err == ""


def test_a_bar_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("FORCE_COLOR", "1")
    with MapProgress("work", 2, True) as bar:
        bar.advance()
        bar.advance(failed=True)
    shown = capsys.readouterr().err
    assert "2/2" in shown
    assert "1 failed" in shown
