"""From loading a model to closing it: once each, whoever asks, and nothing is left behind."""

from __future__ import annotations

import threading
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING

import anyio

from agentrt.errors import EngineClosed, InvalidRequest
from agentrt.runtime.assembly import make_engine
from agentrt.runtime.engine_thread import EngineThread
from agentrt.runtime.front import Front
from agentrt.runtime.tracing import RuntimeTrace
from agentrt.threads import in_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from agentrt.runtime.config import RuntimeConfig
    from agentrt.runtime.engine import Engine
    from agentrt.runtime.source import LoadedModel


class Lifecycle:
    """What serves one runtime's callers while it is open.

    Tasks and threads may open, restart and close at once.
    """

    def __init__(self, load: Callable[[], LoadedModel], config: RuntimeConfig) -> None:
        self._load = load
        self._config = config
        self._front: Front | None = None
        self._guard = threading.Lock()
        self._entry: object = None  # the one opening it is in, or on its way in or out of

    @property
    def front(self) -> Front:
        """What serves now. Raises EngineClosed while nothing does."""
        if self._front is None:
            raise EngineClosed("the runtime is not open; open it with `async with Runtime()`")
        return self._front

    async def enter(self) -> None:
        """Loads the model and starts its engine. Raises InvalidRequest where that was done before.

        Cancelled or interrupted it returns at once: what is still loading is closed when loaded.
        """
        with self._opening() as start:
            await start.ready()

    def open(self) -> None:
        """As `enter`, blocking."""
        with self._opening() as start:
            start.wait()

    async def leave(self, error: BaseException | None = None) -> None:
        """Closes what is open, however often it is cancelled meanwhile; `error` is why, if any."""
        try:
            with anyio.CancelScope(shield=True):
                await in_thread(partial(self.close, error))
        except BaseException:  # an interrupt, or asyncio's own cancelling, which no scope stops
            self.close()
            raise

    def close(self, error: BaseException | None = None) -> None:
        """Closes what is open, if anything is. Blocking."""
        with self._guard:
            front, self._front, entry = self._front, None, self._entry
        try:
            if front is not None:
                _close(front, error)
        finally:
            self._left(entry)

    async def restart(self) -> None:
        """Starts a failed engine again, over the model that is loaded."""
        await in_thread(self._restart)

    def _restart(self) -> None:
        with self._guard:
            if self.front.thread.failure is not None:
                front = self.front
                start = _Start(lambda: front.loaded, self._config, front.trace)
                with start.running():
                    self._front = start.wait()

    @contextmanager
    def _opening(self) -> Generator[_Start]:
        """A start to wait for in the block; it serves after it, or is given up if that fails."""
        with self._guard:
            if self._entry is not None:
                raise InvalidRequest(
                    "this runtime is already open; each `async with`, or `open`, needs its own"
                )
            entry = self._entry = object()
        try:
            start = _Start(self._load, self._config, RuntimeTrace(self._config))
            with start.running():
                yield start
                self._serve(start.wait(), entry)
        except BaseException:
            self._left(entry)
            raise

    def _serve(self, front: Front, entry: object) -> None:
        with self._guard:
            if self._entry is not entry:
                raise EngineClosed("the runtime was closed while it was being opened")
            self._front = front

    def _left(self, entry: object) -> None:
        with self._guard:
            if self._entry is entry:
                self._front = self._entry = None


class _Start:
    """A model being loaded, and its engine being made, on the thread that will run it."""

    def __init__(
        self, load: Callable[[], LoadedModel], config: RuntimeConfig, trace: RuntimeTrace
    ) -> None:
        self._load = load
        self._config = config
        self._trace = trace
        self._loaded: list[LoadedModel] = []
        self._thread = EngineThread(self._build, trace.on_step)

    def _build(self) -> Engine:
        loaded = self._load()
        self._loaded.append(loaded)
        try:
            self._trace.opened(loaded)
            return make_engine(loaded.executor, self._config)
        except BaseException:
            loaded.executor.close()
            raise

    async def ready(self) -> None:
        """Returns when `wait` need not wait."""
        await self._thread.ready()

    def wait(self) -> Front:
        """What serves, once it does. Raises what loading or building raised. Blocking."""
        self._thread.wait()
        return Front(self._loaded[0], self._thread, self._trace)

    @contextmanager
    def running(self) -> Generator[None]:
        """Begins; if the block fails, what is made is closed when it is made, nobody waiting."""
        try:
            self._thread.start()  # in here: an interrupt may come as soon as the thread runs
            yield
        except BaseException as error:
            threading.Thread(target=self._discard, name="agentrt-discard", daemon=True).start()
            self._trace.closed(error)  # here, so that the next to open finds no run of this one
            raise

    def _discard(self) -> None:
        with suppress(BaseException):  # it could not be made, or closed, and nobody asks any more
            _close(self.wait())


def _close(front: Front, error: BaseException | None = None) -> None:
    front.trace.last_look(front.thread)
    front.thread.close()
    try:
        front.loaded.executor.close()
    finally:
        front.trace.closed(error)
