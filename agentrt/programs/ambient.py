"""Calls outside `async with Runtime()`, and calls from code that is not async."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

import anyio

from agentrt.errors import NoRuntime
from agentrt.runtime.runtime import Runtime, current_runtime
from agentrt.threads import in_thread, joined

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
        return await in_thread(_opened)


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
        return await call()

    if _is_in_loop():
        return joined(lambda: anyio.run(main))
    return anyio.run(main)


def _is_in_loop() -> bool:
    with suppress(RuntimeError):
        asyncio.get_running_loop()
        return True
    with suppress(RuntimeError):  # trio's is not known to asyncio
        anyio.get_current_task()
        return True
    return False
