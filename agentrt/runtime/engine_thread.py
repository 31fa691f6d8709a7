"""The background thread that steps the engine while callers await."""

from __future__ import annotations

import os
import queue
import threading
import time
from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar, cast

import anyio

from agentrt.errors import EngineClosed, EngineFailed
from agentrt.runtime.crossing import deliver
from agentrt.threads import Loop

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from agentrt.runtime.crossing import Reply
    from agentrt.runtime.engine import Engine
    from agentrt.runtime.job import Job
    from agentrt.runtime.stats import RuntimeStats

T = TypeVar("T")

_LOOK_EVERY = 0.1  # seconds between two looks for event loops that were closed over their requests


class EngineThread:
    """Owns the only thread that touches the engine; everything reaches it through one inbox.

    The model is loaded on that thread too: OpenMP keeps a team of threads for each thread that has
    ever computed in parallel, and teams that outnumber the cores get in each other's way.

    Between two steps the inbox is emptied, so an abort is in force before the next step. The news
    of a step is delivered with one crossing per event loop: when the next one has been decided, so
    that callers' Python runs while the model computes, or at once where there is no next one.
    """

    def __init__(
        self,
        build: Callable[[], Engine],
        on_step: Callable[[RuntimeStats, float], None] | None = None,
    ) -> None:
        """`on_step` is told, after each step, the figures as they are and the seconds it took."""
        self._build = build
        self._on_step = on_step
        self._built: Future[None] = Future()
        self._engine: Engine | None = None  # until it is built
        self._inbox: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._closing = False
        self._look_again = 0.0
        self._failure: BaseException | None = None
        self._guard = threading.Lock()
        self._process = os.getpid()
        self._thread = threading.Thread(target=self._run, name="agentrt-engine", daemon=True)

    @property
    def failure(self) -> BaseException | None:
        """What stopped the engine, if something did."""
        return self._failure

    def start(self) -> None:
        """Begins to build the engine on its thread; `ready` or `wait` tell when it serves."""
        try:
            self._thread.start()
        except RuntimeError as error:  # the system has no more threads to give
            self._built.set_exception(error)
            raise

    async def ready(self) -> None:
        """Returns when the engine serves, or could not be built."""
        loop, built = Loop.current(), anyio.Event()
        self._built.add_done_callback(lambda _: loop.post(built.set))
        await built.wait()

    def wait(self) -> None:
        """Returns when the engine serves. Raises what building it raised. Blocking."""
        self._built.result()

    @property
    def engine(self) -> Engine:
        """What serves, once it does."""
        assert self._engine is not None
        return self._engine

    def submit(self, jobs: Sequence[Job]) -> None:
        """Hands jobs to the engine. Raises EngineClosed or EngineFailed at once if it is gone."""
        self.call(lambda: self.engine.add(jobs))

    def abort(self, jobs: Sequence[Job]) -> None:
        """Takes jobs back: their slots are free before the next step. Harmless when all is over."""
        self._tell(lambda: self.engine.abort(jobs))

    def unpin(self, reply: Reply) -> None:
        """Lets go of what the job answering `reply` pinned."""
        self._tell(lambda: self.engine.unpin(reply))

    def _tell(self, command: Callable[[], None]) -> None:
        with self._guard:
            if not self._closing:
                self._inbox.put(command)

    def call(self, command: Callable[[], None]) -> None:
        """Runs `command` on the engine's thread between two steps."""
        with self._guard:
            self._check_open()
            self._inbox.put(command)

    def _check_open(self) -> None:
        if self._failure is not None:
            raise EngineFailed(
                f"the engine has stopped ({self._failure!r}); `await runtime.restart()` or open a "
                "new Runtime"
            ) from self._failure
        if os.getpid() != self._process:
            raise EngineClosed(
                "this process was forked from the one whose engine this is, and threads stay "
                "behind in a fork; open a Runtime in the child"
            )
        if self._closing:
            raise EngineClosed("the runtime is closed; open a new one with `async with Runtime()`")

    def close(self) -> None:
        """Stops after the step in progress; every job still there gets EngineClosed. Blocking."""
        with self._guard:
            already = self._closing
            self._closing = True
        if not already:
            self._inbox.put(lambda: None)
        self._thread.join()

    async def ask(self, question: Callable[[], T]) -> T:
        """Runs `question` between two steps and brings its answer, or what it raised, back."""
        loop, done = Loop.current(), anyio.Event()
        answers: list[tuple[T, None] | tuple[None, Exception]] = []

        def run() -> None:
            try:
                answers.append((question(), None))
            except Exception as error:
                answers.append((None, error))
            loop.post(done.set)

        self.call(run)
        await done.wait()
        answer, error = answers[0]
        if error is not None:
            raise error
        return cast("T", answer)

    def _run(self) -> None:
        try:
            self._engine = self._build()
        except BaseException as error:
            self._built.set_exception(error)
            return
        self._built.set_result(None)
        cause: BaseException | None = None
        try:
            while self._serve_inbox():
                self._step()
                self._abort_abandoned()
        except BaseException as error:  # whatever it is, nobody may be left waiting
            cause = error
        self._wind_up(cause)

    def _step(self) -> None:
        if self._on_step is None:
            self.engine.step(self._publish)
            return
        began = time.perf_counter()
        self.engine.step(self._publish)
        self._on_step(self.engine.stats, time.perf_counter() - began)

    def _abort_abandoned(self) -> None:
        """Looks for closed event loops, now and then."""
        now = time.monotonic()
        if now >= self._look_again:
            self._look_again = now + _LOOK_EVERY
            self.engine.abort_abandoned()

    def _wind_up(self, cause: BaseException | None) -> None:
        """The last act of the thread: whoever still waits, or just came in, is told why."""
        with self._guard:
            self._failure = cause
            self._closing = True
        while not self._inbox.empty():
            with suppress(Exception):  # a broken engine may not even take a job in to refuse it
                self._inbox.get()()
        self.engine.fail_all(lambda: _gone(cause))
        self._publish()

    def _serve_inbox(self) -> bool:
        """Runs the commands that have come in, waiting for one when there is nothing to step."""
        while not self._closing:
            rest = self.engine.rest_s
            if rest == 0 and self._inbox.empty():
                return True
            if rest != 0:
                self._publish()  # what the last commands had to say: a refusal, an abort
            try:
                command = self._inbox.get(rest != 0, rest and min(rest, threading.TIMEOUT_MAX))
            except queue.Empty:
                return True
            command()
        return False

    def _publish(self) -> None:
        if news := self.engine.take_news():
            deliver(news)


def _gone(cause: BaseException | None) -> EngineClosed | EngineFailed:
    if cause is None:
        return EngineClosed("the runtime was closed while this request was in it")
    failure = EngineFailed(f"the engine stopped while this request was in it: {cause!r}")
    failure.__cause__ = cause
    return failure
