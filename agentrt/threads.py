"""Event loops as other threads see them, and blocking calls in threads that keep no process alive.

anyio's worker threads are joined before the interpreter ends: one that a call never returns to, or
whose event loop was closed over its tasks (SystemExit in two tasks of asyncio does that), hangs the
process at its exit. These are daemons.
"""

from __future__ import annotations

import contextvars
import sys
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar, cast

import anyio
import anyio.lowlevel

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class _AsyncioLoop(Protocol):
    def is_closed(self) -> bool: ...

    def call_soon_threadsafe(self, callback: Callable[[], object], /) -> object: ...


class _TrioToken(Protocol):
    def run_sync_soon(self, callback: Callable[[], object], /) -> None: ...


@dataclass(frozen=True, slots=True)
class Loop:
    """One event loop, asyncio's or trio's, as other threads see it."""

    token: object

    @classmethod
    def current(cls) -> Loop:
        """The loop this coroutine runs on."""
        return cls(anyio.lowlevel.current_token().native_token)

    @property
    def is_closed(self) -> bool:
        """Whether it was closed over its tasks, as asyncio allows; trio ends them all first."""
        closable = hasattr(self.token, "is_closed")
        return closable and cast("_AsyncioLoop", self.token).is_closed()

    def post(self, callback: Callable[[], object]) -> bool:
        """Runs `callback` on the loop, soon. False if the loop is closed and it never will."""
        try:
            if hasattr(self.token, "call_soon_threadsafe"):
                cast("_AsyncioLoop", self.token).call_soon_threadsafe(callback)
            else:
                cast("_TrioToken", self.token).run_sync_soon(callback)
        except RuntimeError:  # asyncio's closed loop; trio.RunFinishedError is one as well
            return False
        return True


class Running(Generic[T]):
    """A blocking call in a thread of its own, with the context of who started it."""

    def __init__(self, call: Callable[[], T], on_end: Callable[[], object]) -> None:
        self._call = call
        self._on_end = on_end
        self._results: list[T] = []
        self._error: BaseException | None = None
        context = contextvars.copy_context()
        self.thread = threading.Thread(
            target=context.run, args=(self._run,), name="agentrt-call", daemon=True
        )
        self.thread.start()

    def _run(self) -> None:
        # The context comes along, but not its note of the loop that runs in the other thread.
        if (sniffio := sys.modules.get("sniffio")) is not None:
            sniffio.current_async_library_cvar.set(None)
        try:
            self._results.append(self._call())
        except BaseException as error:  # whatever it is, it is raised where it is waited for
            self._error = error
        self._on_end()

    def outcome(self) -> T:
        """What came of it, once it has ended. Raises what it raised."""
        if self._error is not None:
            raise self._error
        return self._results[0]


async def in_thread(call: Callable[[], T], *, abandon: bool = False) -> T:
    """What `call` returns, or raises, in a thread of its own.

    Cancelled, it waits for the call to end; to `abandon` it is to leave it to end by itself, and
    what it returns is dropped.
    """
    await anyio.lowlevel.checkpoint()
    loop, done = Loop.current(), anyio.Event()
    running = Running(call, lambda: loop.post(done.set))
    with anyio.CancelScope(shield=not abandon):
        await done.wait()
    return running.outcome()


def joined(call: Callable[[], T]) -> T:
    """The same, blocking: for a call that has to be on another thread than this one."""
    running = Running(call, lambda: None)
    running.thread.join()
    return running.outcome()
