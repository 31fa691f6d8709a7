"""What tests of the whole runtime share: a model that can be parked, and the law of the pool."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread
import pytest

from agentrt.errors import AgentrtError
from agentrt.runtime.runtime import Runtime

if TYPE_CHECKING:
    from agentrt.runtime.batch import Batch

LONG = 30.0
"""Seconds after which a test that hangs is told so; none waits that long when it passes."""


class Gate:
    """An `on_step` that parks the engine at a chosen step until it is let go."""

    def __init__(self, at_step: int = 0) -> None:
        self._at_step = at_step
        self._steps = 0
        self._reached = threading.Event()
        self._open = threading.Event()

    def __call__(self, batch: Batch) -> None:
        if self._steps == self._at_step:
            self._reached.set()
            assert self._open.wait(LONG), "the gate was never opened"
        self._steps += 1

    async def reached(self) -> None:
        """Waits until the engine stands at the gate."""
        assert await anyio.to_thread.run_sync(self._reached.wait, LONG)

    def open(self) -> None:
        self._open.set()


async def settled(runtime: Runtime) -> None:
    """Waits for the engine to have taken in every abort, then holds it to its books: nothing runs,
    nothing is held, and every slot is free or cached."""
    await runtime.check_integrity()
    stats = runtime.stats()
    assert (stats.running, stats.waiting, stats.slots_held) == (0, 0, 0), stats
    assert stats.slots_free + stats.slots_cached == runtime.num_slots


class Broken:
    """An `on_step` that raises at one step."""

    def __init__(self, at_step: int) -> None:
        self._steps_left = at_step

    def __call__(self, batch: Batch) -> None:
        self._steps_left -= 1
        if self._steps_left == -1:
            raise MemoryError("no room for the logits")


async def failures_of(runtime: Runtime, count: int) -> list[AgentrtError]:
    """What `count` generations at once end with; all must fail."""
    errors: list[AgentrtError] = []

    async def ask(i: int) -> None:
        with pytest.raises(AgentrtError) as failure:
            await runtime.generate(f"question {i}", max_tokens=50)
        errors.append(failure.value)

    async with anyio.create_task_group() as group:
        for i in range(count):
            group.start_soon(ask, i)
    return errors


def engine_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "agentrt-engine"]
