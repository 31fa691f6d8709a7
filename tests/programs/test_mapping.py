"""One program over many inputs: order, bounds, failures, progress; and again after a kill."""

from __future__ import annotations

import functools
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import date
from enum import Enum
from pathlib import Path
from typing import Any

import anyio
import pytest
from pydantic import BaseModel

import agentrt
from agentrt import (
    Failed,
    InvalidRequest,
    RunError,
    Runtime,
    State,
    StorageError,
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


class Colour(Enum):
    RED = "red"


class Item(BaseModel):
    name: str
    day: date


@dataclass
class Found:
    item: Item
    colours: tuple[Colour, ...]


done: list[object] = []


async def find(name: str) -> Found | None:
    done.append(name)
    if name == "bad":
        raise RunError("not found")
    return Found(Item(name=name, day=date(2026, 2, 3)), (Colour.RED,)) if name else None


@pytest.fixture(autouse=True)
def _nothing_done() -> None:
    done.clear()


async def test_what_is_finished_is_not_done_again(tmp_path: Path) -> None:
    file = tmp_path / "run.db"
    names = ["a", "", "bad", "a"]
    first = await agentrt.map(find, names, resume=file, on_error="collect")
    assert done == names  # equal inputs are each done
    done.clear()
    second = await agentrt.map(find, [*names, "new"], resume=str(file), on_error="collect")
    assert done == ["bad", "new"]
    assert second[:2] == first[:2]
    assert isinstance(second[0], Found)
    assert isinstance(second[0].item, Item)
    assert isinstance(second[2], Failed)


async def test_another_program_model_or_input_type_begins_anew(tmp_path: Path) -> None:
    file = tmp_path / "run.db"

    async def one(x: object) -> int:
        done.append(x)
        return 1

    async def other(x: object) -> int:
        done.append(x)
        return 2

    assert await agentrt.map(one, [1], resume=file) == [1]
    assert await agentrt.map(other, [1], resume=file) == [2]
    assert await agentrt.map(one, [True], resume=file) == [1]
    async with Runtime(ScriptedModel.babbling()):
        assert await agentrt.map(one, [1], resume=file) == [1]
    assert done == [1, 1, True, 1]
    assert await agentrt.map(one, [1], resume=file) == [1]
    assert len(done) == 4


async def test_what_a_partial_binds_counts(tmp_path: Path) -> None:
    async def add(x: int, by: int) -> int:
        done.append(by)
        return x + by

    for by in (1, 2, 1):
        work = functools.partial(add, by=by)
        assert await agentrt.map(work, [1], resume=tmp_path / "run.db") == [1 + by]
    assert done == [1, 2]


async def test_results_that_json_cannot_give_back_are_refused(tmp_path: Path) -> None:
    class Loose:
        pass

    async def untyped(x: int):
        return x

    async def loose(x: int) -> Loose:
        return Loose()

    async def numberless(x: int) -> float:
        return float("nan")

    class Wide(Item):
        more: int = 1

    async def narrow(x: int) -> Item:
        return Wide(name="a", day=date(2026, 1, 1))

    for work, why in [
        (untyped, "untyped has no return type"),
        (loose, "cannot keep what"),
        (numberless, "does not come back"),
        (narrow, "reads back as something else"),
    ]:
        with pytest.raises(InvalidRequest, match=why):
            await agentrt.map(work, [1], resume=tmp_path / "run.db")  # pyright: ignore
    with pytest.raises(InvalidRequest, match="a object has none"):
        await agentrt.map(find, [object()], resume=tmp_path / "run.db")  # pyright: ignore


async def test_other_files_are_left_alone(tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("not a database, and long enough to be looked at as one" * 20)
    with pytest.raises(InvalidRequest, match=r"notes\.txt"):
        await agentrt.map(double, [1], resume=text)
    other = tmp_path / "other.db"
    with sqlite3.connect(other) as file:
        file.execute("CREATE TABLE people (name TEXT)")
    file.close()
    with pytest.raises(InvalidRequest, match="another program's database"):
        await agentrt.map(double, [1], resume=other)
    with pytest.raises(StorageError, match=r"nowhere"):
        await agentrt.map(double, [1], resume=tmp_path / "nowhere" / "run.db")


async def test_a_return_type_that_has_changed_is_done_again(tmp_path: Path) -> None:
    file = tmp_path / "run.db"
    assert await agentrt.map(double, [1], resume=file) == [2]
    with sqlite3.connect(file) as found:
        found.execute("UPDATE finished SET result = '\"two\"'")
    found.close()
    assert await agentrt.map(double, [1], resume=file) == [2]


KILLED = """
import os, signal, sys
import anyio
import agentrt

async def work(x: int) -> int:
    with open(sys.argv[2], "a") as log:
        log.write(f"{x}\\n")
    return x * x

async def main() -> None:
    async with agentrt.map_as_completed(work, range(10), resume=sys.argv[1], limit=1) as results:
        async for index, _, result in results:
            if sys.argv[3] == "die" and index == 4:
                os.kill(os.getpid(), signal.SIGKILL)
            print(result)

anyio.run(main)
"""


def test_after_a_kill_only_the_rest_is_done(tmp_path: Path) -> None:
    script, log = tmp_path / "script.py", tmp_path / "log"
    script.write_text(KILLED)

    def run(how: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, str(script), str(tmp_path / "run.db"), str(log), how],
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        )

    assert run("die").returncode == -signal.SIGKILL
    before = log.read_text().split()
    assert before[:5] == [str(x) for x in range(5)]
    second = run("live")
    assert second.stdout.split() == [str(x * x) for x in range(10)], second.stderr
    again = log.read_text().split()[len(before) :]
    assert set(again) & set(map(str, range(5))) == set()
    # One more may have begun when the process was killed: it is done again.
    assert len(again) in (10 - len(before), 11 - len(before))


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
