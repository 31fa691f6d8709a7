"""Whatever breaks, every waiter is told why, nothing hangs, and the next one works."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread
import pytest

from agentrt.errors import (
    EngineClosed,
    EngineFailed,
    GenerationFailed,
    IntegrityError,
    QueueFull,
)
from agentrt.runtime.runtime import Runtime
from agentrt.runtime.scheduler import Scheduler
from agentrt.testing import ScriptedModel
from tests.runtime.serving import LONG, Broken, Gate, engine_threads, failures_of, settled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentrt.matching import Allowed
    from agentrt.runtime.request import Request

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("at_step", [0, 5])
async def test_a_step_that_raises_fails_everyone_with_the_cause(at_step: int) -> None:
    async with Runtime(ScriptedModel.babbling(on_step=Broken(at_step))) as runtime:
        errors = await failures_of(runtime, 5)
        assert all(isinstance(error, EngineFailed) for error in errors)
        assert all(isinstance(error.__cause__, MemoryError) for error in errors)
        assert len({id(error) for error in errors}) == 5, "one exception object, many raisers"
        stats = runtime.stats()
        assert (stats.running, stats.waiting, stats.slots_held) == (0, 0, 0)

        with pytest.raises(EngineFailed, match="no room for the logits"):
            await runtime.generate("and now?")
        await runtime.restart()
        assert (await runtime.generate("and now?", max_tokens=4)).usage.output_tokens == 4
        await settled(runtime)


async def test_after_a_failed_runtime_the_next_one_works() -> None:
    async with Runtime(ScriptedModel.babbling(on_step=Broken(0))) as runtime:
        await failures_of(runtime, 2)
    async with Runtime(ScriptedModel.babbling()) as runtime:
        assert (await runtime.generate("hello", max_tokens=3)).usage.output_tokens == 3


async def test_restarting_a_healthy_runtime_changes_nothing() -> None:
    async with Runtime(ScriptedModel.babbling()) as runtime:
        await runtime.generate("a long enough prompt", max_tokens=1)
        await runtime.restart()
        again = await runtime.generate("a long enough prompt", max_tokens=1)
        assert again.usage.cached_tokens > 0


async def test_a_request_whose_choice_fails_fails_alone() -> None:
    def choose(prefix: Sequence[int], prompt_length: int) -> int:
        return ord("x")

    class Nothing:
        min_tokens = 0

        def matcher(self) -> NothingMatcher:
            return NothingMatcher()

    async with Runtime(ScriptedModel(choose)) as runtime:
        texts: list[str] = []

        async def good() -> None:
            texts.append((await runtime.generate("good", max_tokens=5)).text)

        async with anyio.create_task_group() as group:
            group.start_soon(good)
            with pytest.raises(GenerationFailed, match="mask allows no token"):
                await runtime.generate("bad", max_tokens=5, constraint=Nothing())
        assert texts == ["xxxxx"]
        await settled(runtime)


class NothingMatcher:
    """Allows no token at all."""

    is_complete = is_finished = False

    def next(self, tokens_left: int | None = None) -> Allowed:
        import numpy as np

        from agentrt.matching import Allowed

        return Allowed(np.zeros(9, np.uint32))

    def accept(self, token_id: int) -> None:
        raise ValueError(token_id)

    def rollback(self, tokens: int) -> None:
        raise ValueError(tokens)


async def test_the_queue_is_bounded() -> None:
    gate = Gate()
    model = ScriptedModel.babbling(on_step=gate)
    async with Runtime(model, max_running=1, max_waiting=2) as runtime:
        refused: list[QueueFull] = []

        async def ask(i: int) -> None:
            try:
                await runtime.generate(f"{i}", max_tokens=2)
            except QueueFull as error:
                refused.append(error)

        async with anyio.create_task_group() as group:
            group.start_soon(ask, 0)
            await gate.reached()
            for i in range(1, 6):
                group.start_soon(ask, i)
            await anyio.wait_all_tasks_blocked()
            gate.open()
        assert len(refused) == 3
        assert "max_waiting" in str(refused[0])
        await settled(runtime)


async def test_closing_while_busy_tells_every_waiter() -> None:
    gate = Gate()
    errors: list[BaseException] = []
    runtime = Runtime(ScriptedModel.babbling(on_step=gate), max_running=2)

    async def ask() -> None:
        try:
            await runtime.generate("hello")
        except EngineClosed as error:
            errors.append(error)

    async with anyio.create_task_group() as group, runtime:
        for _ in range(5):
            group.start_soon(ask)
        await gate.reached()
        gate.open()
    assert len(errors) == 5
    with pytest.raises(EngineClosed):
        await runtime.generate("too late")


async def test_a_runtime_serves_other_event_loops(anyio_backend: str) -> None:
    async with Runtime(ScriptedModel.replying(lambda prompt: prompt.upper())) as runtime:

        async def ask(prompt: str) -> str:
            return (await runtime.generate(prompt)).text

        def elsewhere(prompt: str, backend: str) -> str:
            return anyio.run(ask, prompt, backend=backend)

        answers: list[str] = []

        async def other(prompt: str, backend: str) -> None:
            answers.append(await anyio.to_thread.run_sync(elsewhere, prompt, backend))

        async with anyio.create_task_group() as group:
            group.start_soon(other, "one", "asyncio")
            group.start_soon(other, "two", "trio")
            answers.append(await ask("three"))
        assert sorted(answers) == ["ONE", "THREE", "TWO"]
        await settled(runtime)


async def test_whoever_ends_in_the_step_that_fails_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def finish(scheduler: Scheduler, request: Request) -> None:
        raise IntegrityError("a slot with two owners")

    def abort(scheduler: Scheduler, request: Request) -> None:
        raise IntegrityError("a slot with none")

    monkeypatch.setattr(Scheduler, "finish", finish)
    monkeypatch.setattr(Scheduler, "abort", abort)
    async with Runtime(ScriptedModel.replying("hi")) as runtime:
        with anyio.fail_after(LONG):
            errors = await failures_of(runtime, 3)
        assert all(isinstance(error, EngineFailed) for error in errors)
        assert (runtime.stats().running, runtime.stats().waiting) == (0, 0)


def test_a_loop_that_closes_under_a_generation_leaves_nothing() -> None:
    gate = Gate()
    served: list[Runtime] = []
    leave = threading.Event()

    async def host() -> None:
        async with Runtime(ScriptedModel.babbling(on_step=gate)) as runtime:
            served.append(runtime)
            await gate.reached()
            await anyio.to_thread.run_sync(leave.wait, LONG)
            gate.open()
            await settled(runtime)
            assert (await runtime.generate("still there?", max_tokens=2)).usage.output_tokens == 2

    async def guest(started: threading.Event) -> None:
        asking = asyncio.ensure_future(served[0].generate("hello", max_tokens=4000))
        await asyncio.sleep(0)
        started.set()
        del asking  # abandoned with the loop, as a process being torn down does

    host_thread = threading.Thread(target=asyncio.run, args=(host(),))
    host_thread.start()
    while not served:
        threading.Event().wait(0.001)
    loop = asyncio.new_event_loop()
    loop.run_until_complete(guest(threading.Event()))
    loop.close()
    leave.set()
    host_thread.join(LONG)
    assert not host_thread.is_alive()


def test_a_keyboard_interrupt_comes_out_and_nothing_hangs() -> None:
    async def main() -> None:
        async with (
            Runtime(ScriptedModel.babbling()) as runtime,
            runtime.stream("go on", max_tokens=4000) as stream,
        ):
            async for _ in stream:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(main())
    assert not engine_threads()
