"""Calls outside `async with Runtime()`, and calls from code that is not async."""

from __future__ import annotations

import asyncio
import contextvars
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

import anyio
import anyio.to_thread

from agentrt.errors import NoRuntime
from agentrt.runtime.runtime import Runtime, current_runtime

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

T = TypeVar("T")

_opening = threading.Lock()


async def ensure_runtime() -> Runtime:
    """The runtime of this task, or that of the process, opened now if there is none.

    It has the provided model, and is closed when the process ends.
    """
    try:
        return current_runtime()
    except NoRuntime:
        return await anyio.to_thread.run_sync(_opened)


def _opened() -> Runtime:
    with _opening:  # two that come at once open one
        try:
            return current_runtime()
        except NoRuntime:
            return Runtime().open()


def run_sync(call: Callable[[], Awaitable[T]]) -> T:
    """Runs an async call to its end and returns what it returns.

    Where an event loop runs already in this thread, asyncio's as in a notebook or trio's, it runs
    in another thread.
    """

    async def main() -> T:
        await ensure_runtime()
        return await call()

    if _is_in_loop():
        return _in_thread(lambda: anyio.run(main))
    return anyio.run(main)


def _is_in_loop() -> bool:
    with suppress(RuntimeError):
        asyncio.get_running_loop()
        return True
    with suppress(RuntimeError):  # trio's is not known to asyncio
        anyio.get_current_task()
        return True
    return False


def _in_thread(call: Callable[[], T]) -> T:
    results: list[T] = []
    failures: list[BaseException] = []

    def run() -> None:
        # The context comes along, but not its note of the loop that runs in the other thread.
        if (sniffio := sys.modules.get("sniffio")) is not None:
            sniffio.current_async_library_cvar.set(None)
        try:
            results.append(call())
        except BaseException as error:  # whatever it is, it is raised where it was waited for
            failures.append(error)

    context = contextvars.copy_context()
    thread = threading.Thread(target=context.run, args=(run,), name="agentrt-sync")
    thread.start()
    thread.join()
    if failures:
        raise failures[0]
    return results[0]
