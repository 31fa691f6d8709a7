"""Calls outside `async with Runtime()`, and calls from code that is not async."""

from __future__ import annotations

import asyncio
import contextvars
import threading
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

    Where an event loop runs already in this thread, as in a notebook, it runs in another thread.
    """

    async def main() -> T:
        await ensure_runtime()
        return await call()

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return anyio.run(main)
    return _in_thread(lambda: anyio.run(main))


def _in_thread(call: Callable[[], T]) -> T:
    results: list[T] = []
    failures: list[BaseException] = []

    def run() -> None:
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
