"""Opening, restarting and closing: once each, whoever asks, and nothing is left behind."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread
import pytest

from agentrt.errors import EngineClosed, InvalidRequest, NoRuntime
from agentrt.runtime.runtime import Runtime, current_runtime
from agentrt.testing import EOS, ScriptedModel
from agentrt.threads import Loop
from tests.runtime.serving import LONG, Broken, engine_threads, failures_of, settled

if TYPE_CHECKING:
    from agentrt.runtime.config import RuntimeConfig
    from agentrt.runtime.source import LoadedModel

pytestmark = pytest.mark.anyio


async def test_a_closed_runtime_can_be_opened_again() -> None:
    runtime = Runtime(ScriptedModel.replying("hi"))
    for _ in range(2):
        async with runtime:
            assert (await runtime.generate("hello")).text == "hi"
    async with runtime:
        with pytest.raises(InvalidRequest, match="already open"):
            await runtime.__aenter__()


async def test_two_runtimes_in_one_process() -> None:
    async with (
        Runtime(ScriptedModel.replying("one")) as one,
        Runtime(ScriptedModel.replying("two")) as two,
    ):
        assert current_runtime() is two
        assert (await one.generate("?")).text == "one"
        assert (await two.generate("?")).text == "two"
    with pytest.raises(NoRuntime):
        current_runtime()


async def test_runtimes_may_be_left_in_any_order() -> None:
    one, two, three = (Runtime(ScriptedModel.babbling(i)) for i in range(3))
    for runtime in (one, two, three):
        await runtime.__aenter__()
    for runtime, inside_of in ((two, three), (one, three), (three, None)):
        await runtime.__aexit__(None, None, None)
        if inside_of is not None:
            assert current_runtime() is inside_of
    with pytest.raises(NoRuntime):
        current_runtime()


async def test_entering_twice_at_once_opens_once() -> None:
    """The second is refused though the first has not finished loading; no engine is left over."""
    loading, go_on = threading.Event(), threading.Event()

    class Slow(ScriptedModel):
        def open(self, config: RuntimeConfig) -> LoadedModel:
            loading.set()
            assert go_on.wait(LONG)
            return super().open(config)

    runtime = Runtime(Slow(lambda prefix, prompt_length: EOS))
    served: list[str] = []

    async def enter() -> None:
        async with runtime:
            served.append((await runtime.generate("hello")).text)

    async with anyio.create_task_group() as group:
        group.start_soon(enter)
        await anyio.to_thread.run_sync(loading.wait, LONG)
        with pytest.raises(InvalidRequest, match="already open"):
            await runtime.__aenter__()
        go_on.set()
    assert served == [""]
    assert not engine_threads()


def test_what_is_cancelled_while_loading_is_closed_when_loaded() -> None:
    """As `asyncio.timeout` cancels: the thread that loads goes on, with nobody to hand over to."""
    loading, go_on, closed = threading.Event(), threading.Event(), threading.Event()

    class Slow(ScriptedModel):
        def open(self, config: RuntimeConfig) -> LoadedModel:
            loading.set()
            assert go_on.wait(LONG)
            loaded = super().open(config)
            loaded.executor.close = closed.set
            return loaded

    async def main() -> None:
        runtime = Runtime(Slow(lambda prefix, prompt_length: EOS))
        entering = asyncio.ensure_future(runtime.__aenter__())
        await asyncio.to_thread(loading.wait, LONG)
        entering.cancel()
        with pytest.raises(asyncio.CancelledError):
            await entering
        go_on.set()
        assert await asyncio.to_thread(closed.wait, LONG)
        assert not engine_threads()
        with pytest.raises(EngineClosed):
            runtime.stats()
        async with runtime:
            assert (await runtime.generate("hello")).text == ""

    asyncio.run(main())


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_an_interrupt_while_loading_comes_out_at_once(backend: str) -> None:
    """While the model goes on loading; it is closed, on its own, when it has."""
    interrupted, closed = threading.Event(), threading.Event()
    loop: list[Loop] = []
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # jobs of a shell ignore it

    class Slow(ScriptedModel):
        def open(self, config: RuntimeConfig) -> LoadedModel:
            signal.raise_signal(signal.SIGINT)  # Ctrl-C, for the main thread to handle ...
            loop[0].post(lambda: None)  # ... which the kernel would wake, were it a real one
            assert interrupted.wait(LONG)
            loaded = super().open(config)
            loaded.executor.close = closed.set
            return loaded

    runtime = Runtime(Slow(lambda prefix, prompt_length: EOS))

    async def main() -> None:
        loop.append(Loop.current())
        await runtime.__aenter__()

    try:
        with pytest.raises(KeyboardInterrupt):
            anyio.run(main, backend=backend)
    finally:
        signal.signal(signal.SIGINT, before)
    assert engine_threads(), "it waited for the model"
    with pytest.raises(EngineClosed):
        runtime.stats()
    interrupted.set()
    assert closed.wait(LONG)
    assert not engine_threads()


async def test_a_runtime_closed_while_it_opens_does_not_open() -> None:
    runtime: list[Runtime] = []
    closed = threading.Event()

    class Slow(ScriptedModel):
        def open(self, config: RuntimeConfig) -> LoadedModel:
            runtime[0].close()
            loaded = super().open(config)
            loaded.executor.close = closed.set
            return loaded

    runtime.append(Runtime(Slow(lambda prefix, prompt_length: EOS)))
    with pytest.raises(EngineClosed, match="while it was being opened"):
        await runtime[0].__aenter__()
    assert await anyio.to_thread.run_sync(closed.wait, LONG)
    assert not engine_threads()


def test_leaving_closes_however_often_it_is_cancelled() -> None:
    async def main() -> None:
        async def serve() -> None:
            async with Runtime(ScriptedModel.babbling()):
                task = asyncio.current_task()
                assert task is not None
                asyncio.get_running_loop().call_soon(task.cancel)  # while it is leaving
                task.cancel()

        with pytest.raises(asyncio.CancelledError):
            await asyncio.ensure_future(serve())
        for thread in engine_threads():
            await asyncio.to_thread(thread.join, LONG)
        assert not engine_threads()

    asyncio.run(main())


async def test_a_model_that_will_not_close_is_closed_to_us() -> None:
    class Stuck(ScriptedModel):
        def open(self, config: RuntimeConfig) -> LoadedModel:
            loaded = super().open(config)

            def close() -> None:
                raise OSError("the device is gone")

            loaded.executor.close = close
            return loaded

    runtime = Runtime(Stuck(lambda prefix, prompt_length: EOS))
    for _ in range(2):
        with pytest.raises(OSError, match="the device is gone"):
            async with runtime:
                assert (await runtime.generate("hello")).text == ""
        assert not engine_threads()


async def test_restarting_from_many_threads_starts_one_engine() -> None:
    async with Runtime(ScriptedModel.babbling(on_step=Broken(0))) as runtime:
        await failures_of(runtime, 1)
        together = threading.Barrier(8)

        def restart() -> None:
            together.wait(LONG)
            asyncio.run(runtime.restart())

        threads = [threading.Thread(target=restart) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            await anyio.to_thread.run_sync(thread.join, LONG)
        assert len(engine_threads()) == 1
        await settled(runtime)


async def test_a_pin_may_outlive_the_engine_and_the_runtime() -> None:
    async with Runtime(ScriptedModel.babbling(on_step=Broken(1))) as runtime:
        async with runtime.pinned("keep this"):
            await failures_of(runtime, 1)
            await runtime.restart()
        await settled(runtime)
    await runtime.__aenter__()
    async with runtime.pinned("keep this"):
        await runtime.__aexit__(None, None, None)
    assert not engine_threads()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_is_told_that_the_engine_stayed_behind() -> None:
    async def main() -> None:
        async with Runtime(ScriptedModel.replying("hi")) as runtime:
            assert (await runtime.generate("hello")).text == "hi"
            read, write = os.pipe()
            child = os.fork()
            if not child:  # pragma: no cover - another process
                try:
                    asyncio.run(runtime.generate("hello"))
                except EngineClosed as error:
                    os.write(write, str(error).encode())
                finally:
                    os._exit(0)
            os.waitpid(child, 0)
            os.close(write)
            assert b"forked" in os.read(read, 1000)
            os.close(read)
            assert (await runtime.generate("hello")).text == "hi"

    asyncio.run(main())
