"""Leaving at every await: whatever a request was doing, its slots and locks come back."""

from __future__ import annotations

import math
from functools import partial

import anyio
import anyio.to_thread
import pytest

from agentrt.errors import DeadlineExceeded, InvalidRequest
from agentrt.generation import Usage
from agentrt.runtime.runtime import Runtime
from agentrt.testing import ScriptedModel
from tests.runtime.serving import LONG, Gate, settled

pytestmark = pytest.mark.anyio

PROMPT = "a prompt long enough to be computed in several chunks"
# With 16 tokens a step this prompt takes four steps; then every step writes one token.
STEPS = {"the first chunk": 0, "a later chunk": 2, "the first token": 3, "decoding": 9}


@pytest.mark.parametrize("at_step", STEPS.values(), ids=STEPS.keys())
async def test_a_cancelled_generation_gives_everything_back(at_step: int) -> None:
    gate = Gate(at_step)
    model = ScriptedModel.babbling(on_step=gate)
    async with Runtime(model, max_step_tokens=16) as runtime:
        async with anyio.create_task_group() as group:
            group.start_soon(runtime.generate, PROMPT)
            await gate.reached()
            group.cancel_scope.cancel()
        gate.open()
        await settled(runtime)
        assert len(model.steps) == at_step + 1, "it went on after it was cancelled"
        assert (await runtime.generate(PROMPT, max_tokens=3)).usage.output_tokens == 3


@pytest.mark.parametrize("at_step", STEPS.values(), ids=STEPS.keys())
async def test_what_a_cancelled_generation_took_is_told(at_step: int) -> None:
    gate, took = Gate(at_step), list[Usage]()
    async with Runtime(ScriptedModel.babbling(on_step=gate), max_step_tokens=16) as runtime:
        async with anyio.create_task_group() as group:
            group.start_soon(partial(runtime.generate, PROMPT, on_usage=took.append))
            await gate.reached()
            group.cancel_scope.cancel()
        gate.open()
        await settled(runtime)
    # The step it was cancelled in is not over.
    read, written = min(16 * at_step, len(PROMPT)), max(0, at_step - 3)
    assert took == [Usage(prompt_tokens=read, sampled_tokens=written)]


async def test_what_a_cancelled_selection_took_is_told() -> None:
    gate, took = Gate(2), list[Usage]()
    async with Runtime(ScriptedModel.babbling(on_step=gate), max_step_tokens=16) as runtime:
        async with anyio.create_task_group() as group:
            group.start_soon(partial(runtime.select, PROMPT, ["a", "b"], on_usage=took.append))
            await gate.reached()
            group.cancel_scope.cancel()
        gate.open()
    assert took == [Usage(prompt_tokens=32)]


async def test_what_a_request_past_its_deadline_took_is_told() -> None:
    model, took = ScriptedModel.babbling(), list[Usage]()
    async with Runtime(model, max_step_tokens=16) as runtime:
        engine = runtime._served.thread.engine
        engine._clock = lambda: math.inf if len(model.steps) == 2 else 0.0
        with pytest.raises(DeadlineExceeded):
            await runtime.generate(PROMPT, timeout=1000, on_usage=took.append)
        await settled(runtime)
    assert took == [Usage(prompt_tokens=32)]


async def test_a_waiting_request_can_be_cancelled() -> None:
    gate = Gate()
    async with Runtime(ScriptedModel.babbling(on_step=gate), max_running=1) as runtime:
        async with anyio.create_task_group() as group:
            group.start_soon(runtime.generate, PROMPT)
            await gate.reached()
            with anyio.CancelScope() as scope:
                scope.cancel()
                await runtime.generate("another", max_tokens=3)
            assert scope.cancelled_caught
            group.cancel_scope.cancel()
        gate.open()
        await settled(runtime)


async def test_select_can_be_cancelled() -> None:
    gate = Gate()
    model = ScriptedModel.babbling(on_step=gate)
    async with Runtime(model, max_step_tokens=16) as runtime:
        async with anyio.create_task_group() as group:
            group.start_soon(runtime.select, PROMPT, ["one", "two", "three"])
            await gate.reached()
            group.cancel_scope.cancel()
        gate.open()
        await settled(runtime)
        assert len(model.steps) == 1, "it went on after it was cancelled"


async def test_breaking_out_of_a_stream_stops_it() -> None:
    model = ScriptedModel.babbling()
    async with Runtime(model) as runtime:
        async with runtime.stream("go on", max_tokens=4000) as stream:
            async for chunk in stream:
                assert chunk.text
                break
        await settled(runtime)
        steps = len(model.steps)
        await runtime.check_integrity()
        assert len(model.steps) == steps < 4000


async def test_several_tasks_may_read_one_stream() -> None:
    """Each piece goes to one of them, and all are told of the end."""
    read: list[str] = []

    async def reading() -> None:
        async for chunk in stream:
            read.append(chunk.text)

    model = ScriptedModel.babbling()
    async with Runtime(model) as runtime:
        async with runtime.stream("go on", max_tokens=20) as stream:
            with anyio.fail_after(LONG):
                async with anyio.create_task_group() as group:
                    for _ in range(3):
                        group.start_soon(reading)
        assert "".join(read) == stream.completion.text


async def test_a_stream_is_not_waited_for_on_another_event_loop() -> None:
    """Its news would never wake who waits there."""
    gate = Gate(at_step=1)
    async with Runtime(ScriptedModel.babbling(on_step=gate)) as runtime:

        async def reading() -> None:
            with anyio.fail_after(LONG):
                async for _ in stream:
                    pass

        async with runtime.stream("go on", max_tokens=20) as stream:
            await gate.reached()
            with pytest.raises(InvalidRequest, match="another event loop"):
                await anyio.to_thread.run_sync(anyio.run, reading)
            gate.open()
        await settled(runtime)


async def test_a_stream_that_is_cancelled_stops() -> None:
    gate = Gate(at_step=3)
    model = ScriptedModel.babbling(on_step=gate)
    async with Runtime(model) as runtime:

        async def read() -> None:
            async with runtime.stream("go on") as stream:
                async for _ in stream:
                    pass

        async with anyio.create_task_group() as group:
            group.start_soon(read)
            await gate.reached()
            group.cancel_scope.cancel()
        gate.open()
        await settled(runtime)
        assert len(model.steps) == 4, "it went on after it was cancelled"


async def test_an_exception_in_the_callers_block_stops_the_stream() -> None:
    async with Runtime(ScriptedModel.babbling()) as runtime:
        with pytest.raises(ZeroDivisionError):
            async with runtime.stream("go on"):
                raise ZeroDivisionError
        await settled(runtime)


async def test_a_deadline_ends_a_request_and_says_so() -> None:
    async with Runtime(ScriptedModel.babbling()) as runtime:
        with pytest.raises(DeadlineExceeded, match="0 output tokens"):
            await runtime.generate(PROMPT, timeout=0.0)
        await settled(runtime)
        assert (await runtime.generate(PROMPT, max_tokens=2, timeout=1000)).usage.output_tokens == 2


async def test_one_of_many_cancelled_leaves_the_others_their_answers() -> None:
    gate = Gate(at_step=4)
    async with Runtime(ScriptedModel.babbling(on_step=gate), max_step_tokens=16) as runtime:
        texts: list[str] = []

        async def ask() -> None:
            texts.append((await runtime.generate(PROMPT, max_tokens=20)).text)

        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(ask)
            with anyio.CancelScope() as scope:
                async with anyio.create_task_group() as doomed:
                    doomed.start_soon(ask)
                    await gate.reached()
                    scope.cancel()
            gate.open()
        assert len(texts) == 3
        assert set(texts) == {(await runtime.generate(PROMPT, max_tokens=20)).text}
        await settled(runtime)
