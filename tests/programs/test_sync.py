"""Calls from code that is not async: in a script, under a running loop, by the process's own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator

import anyio
import pytest
import trio
from pydantic import BaseModel

from agentrt import (
    EngineClosed,
    InvalidRequest,
    NoRuntime,
    Runtime,
    State,
    current_runtime,
    extract,
    extract_sync,
    program,
)
from agentrt.testing import ScriptedModel


class Person(BaseModel):
    name: str
    age: int


ANNA = '{"name":"Anna","age":31}'


@program
async def ask(s: State, question: str) -> str:
    s.user(question)
    return await s.gen()


def scripted(reply: str = ANNA) -> Runtime:
    return Runtime(ScriptedModel.replying(reply))


@pytest.fixture
def opened() -> Iterator[Runtime]:
    runtime = scripted().open()
    yield runtime
    runtime.close()


def in_asyncio(call: Callable[[], None]) -> None:
    async def main() -> None:
        call()

    asyncio.run(main())


def in_asyncio_callback(call: Callable[[], None]) -> None:
    """In no task, as a widget's handler is."""

    async def main() -> None:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def run() -> None:
            try:
                call()
            except BaseException as error:
                done.set_exception(error)
            else:
                done.set_result(None)

        asyncio.get_running_loop().call_soon(run)
        await done

    asyncio.run(main())


def in_trio(call: Callable[[], None]) -> None:
    async def main() -> None:
        call()

    trio.run(main)


def in_script(call: Callable[[], None]) -> None:
    call()


@pytest.mark.parametrize("place", [in_script, in_asyncio, in_asyncio_callback, in_trio])
def test_sync_calls_work_wherever_they_are_made(
    place: Callable[[Callable[[], None]], None], opened: Runtime
) -> None:
    found: list[object] = []

    def call() -> None:
        found.append(extract_sync(Person, "Anna is 31."))
        found.append(ask.sync("Who?"))

    place(call)
    assert found == [Person(name="Anna", age=31), ANNA]


@pytest.mark.parametrize("place", [in_script, in_asyncio, in_trio])
def test_what_is_raised_comes_to_who_called(
    place: Callable[[Callable[[], None]], None], opened: Runtime
) -> None:
    def call() -> None:
        with pytest.raises(InvalidRequest, match="choices"):
            broken.sync()

    @program
    async def broken(s: State) -> str:
        s.user("?")
        return await s.gen(choices=[])

    place(call)


@pytest.mark.parametrize("place", [in_asyncio, in_trio])
def test_the_runtime_around_the_call_is_the_one_that_serves(
    place: Callable[[Callable[[], None]], None],
) -> None:
    async def main() -> str:
        async with scripted("inner"):
            return ask.sync("Who?")

    outer = scripted("outer").open()
    try:
        assert ask.sync("Who?") == "outer"
        assert anyio.run(main, backend="trio" if place is in_trio else "asyncio") == "inner"
    finally:
        outer.close()


def test_the_process_runtime_serves_every_loop_and_thread(opened: Runtime) -> None:
    async def main() -> Person:
        assert current_runtime() is opened
        return await extract(Person, "Anna is 31.")

    assert anyio.run(main, backend="asyncio") == anyio.run(main, backend="trio")
    found: list[Person] = []
    threads = [
        threading.Thread(target=lambda: found.append(extract_sync(Person, "Anna is 31.")))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [Person(name="Anna", age=31)] * 4
    anyio.run(opened.check_integrity)


def test_open_and_close() -> None:
    runtime = scripted()
    assert runtime.open() is runtime
    assert current_runtime() is runtime
    with pytest.raises(InvalidRequest, match="already open"):
        runtime.open()
    runtime.close()
    with pytest.raises(NoRuntime):
        current_runtime()
    with pytest.raises(EngineClosed):
        runtime.stats()
    runtime.close()  # again does no harm
    assert runtime.open() is runtime  # and it can be opened anew
    runtime.close()


def test_a_runtime_that_cannot_be_opened_serves_nobody() -> None:
    with pytest.raises(InvalidRequest):
        Runtime(object()).open()  # pyright: ignore
    with pytest.raises(NoRuntime):
        current_runtime()


def test_the_last_opened_serves_and_closing_another_does_not_change_that() -> None:
    first, second = scripted("first").open(), scripted("second").open()
    try:
        assert ask.sync("?") == "second"
        first.close()
        assert ask.sync("?") == "second"
    finally:
        second.close()
