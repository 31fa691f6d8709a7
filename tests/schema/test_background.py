"""Compiling in a thread: it gives the grammar, and a cancelled wait stops the work."""

from __future__ import annotations

import asyncio
from functools import partial
from itertools import count
from threading import Event
from typing import TYPE_CHECKING

import pytest

from agentrt.schema import CompileCancelled, compile_schema, compiled_in_thread

if TYPE_CHECKING:
    from collections.abc import Callable

    from agentrt.schema import Grammar

pytestmark = pytest.mark.asyncio


async def test_gives_the_grammar() -> None:
    grammar = await compiled_in_thread(partial(compile_schema, {"type": "null"}))
    assert grammar.matches("null")


async def test_cancelling_the_wait_stops_the_work() -> None:
    started, stopped = asyncio.Event(), Event()
    loop = asyncio.get_running_loop()

    def compile_slowly(*, cancelled: Callable[[], bool]) -> Grammar:
        loop.call_soon_threadsafe(started.set)
        try:
            for n in count():
                compile_schema({"type": "string", "pattern": f"a.{{10}}b{n}"}, cancelled=cancelled)
        except CompileCancelled:
            stopped.set()
            raise
        raise AssertionError("it was never stopped")

    task = asyncio.create_task(compiled_in_thread(compile_slowly))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await asyncio.to_thread(stopped.wait, 5)
