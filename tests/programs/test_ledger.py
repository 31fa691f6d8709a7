"""What a map has finished is not done again: files, keys, locks, kills."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import sqlite3
import subprocess
import sys
from dataclasses import dataclass
from datetime import date
from enum import Enum
from pathlib import Path
from typing import Any

import anyio
import pytest
from pydantic import BaseModel, create_model

import agentrt
from agentrt import (
    Budget,
    Failed,
    InvalidRequest,
    RunError,
    Runtime,
    State,
    StorageError,
    program,
)
from agentrt.programs import ledger
from agentrt.testing import ScriptedModel

pytestmark = pytest.mark.anyio


async def double(x: int) -> int:
    return 2 * x


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


async def test_what_a_partial_binds_is_known_again(tmp_path: Path) -> None:
    """By what it is, and not by where it lies in memory; and a type by its fields."""

    class Place:
        pass

    async def at(x: int, *bound: object) -> int:
        done.append(x)
        return x

    def same() -> tuple[object, ...]:
        return Place(), lambda: 0, functools.partial(double, 2), Item, list[Item]

    file = tmp_path / "run.db"
    for _ in range(2):
        work = functools.partial(_swapped, at, *same())
        assert await agentrt.map(work, [1], resume=file) == [1]
    assert done == [1]
    for fields in ({"name": (str, ...)}, {"name": (str, ...), "more": (str, "")}):
        kind = create_model("Row", **fields)  # pyright: ignore
        await agentrt.map(functools.partial(_swapped, at, kind), [1], resume=file)
    assert done == [1, 1, 1]


async def _swapped(work: Any, *bound: Any) -> int:
    return await work(bound[-1], *bound[:-1])


async def test_what_extract_gives_is_kept_by_the_type_it_was_asked_for(tmp_path: Path) -> None:
    item = Item(name="tea", day=date(2026, 2, 3))
    file = tmp_path / "run.db"
    reply = {Item: item.model_dump_json(), dict: '{"name":"tea"}', Colour: '"red"'}
    schema = {"properties": {"name": {"type": "string"}}, "required": ["name"]}
    for kind, wanted in ((Item, item), (schema, {"name": "tea"}), (Colour, Colour.RED)):
        text = reply[dict if isinstance(kind, dict) else kind]
        for model in (ScriptedModel.replying(text), ScriptedModel.replying("no reply")):
            async with Runtime(model):
                work = functools.partial(agentrt.extract, kind)
                assert await agentrt.map(work, ["a page"], resume=file) == [wanted]
    with pytest.raises(InvalidRequest, match="no return type"):
        await agentrt.map(agentrt.extract, ["a page"], resume=file)  # pyright: ignore


async def test_a_program_with_other_options_begins_anew(tmp_path: Path) -> None:
    @program(max_tokens=3)
    async def name(s: State, thing: str) -> str:
        s.text(thing)
        return await s.gen()

    async with Runtime(ScriptedModel.babbling()):
        for work, length in (
            (name, 3),
            (name.using(max_tokens=5), 5),
            (functools.partial(name.using(max_tokens=6)), 6),
            (name.using(max_tokens=5, budget=Budget(tokens=4)), 4),
        ):
            [found] = await agentrt.map(work, ["a cat"], resume=tmp_path / "run.db")
            assert len(found) == length


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


async def test_a_file_that_is_locked_is_waited_for_while_others_run(tmp_path: Path) -> None:
    file = tmp_path / "run.db"
    await agentrt.map(find, ["a"], resume=file)
    with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")

        async def unlock() -> None:
            for _ in range(10):
                await anyio.lowlevel.checkpoint()
            other.execute("COMMIT")

        async with anyio.create_task_group() as group:
            group.start_soon(unlock)
            assert len(await agentrt.map(find, ["a", "b"], resume=file)) == 2
        assert done == ["a", "b"]


async def test_a_file_that_stays_locked_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger, "PATIENCE_S", 0)
    file = tmp_path / "run.db"
    await agentrt.map(find, ["a"], resume=file)
    with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(StorageError, match="locked"):
            await agentrt.map(find, ["b"], resume=file)


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
