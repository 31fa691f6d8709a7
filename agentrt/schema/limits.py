"""Bounds on what compiling may cost: a deadline, a size, and a way to stop."""

from __future__ import annotations

import time
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from agentrt.errors import SchemaTooLarge

if TYPE_CHECKING:
    from collections.abc import Callable, Generator


_PATIENCE = 4


class CompileCancelled(Exception):
    """The one who asked for the compilation no longer wants it."""


class Limits:
    """Counts work while compiling; past the deadline or the size, the work stops.

    `deadline` is in seconds of the compiling thread's own time, so that what else a machine does
    refuses no schema; never more than four times as long by the clock. `size` is in units of work
    done at once, about one automaton state or one alternative each; `cancelled` is asked at every
    check. Made in the thread that compiles.
    """

    def __init__(
        self,
        *,
        deadline: float | None = 10.0,
        size: int = 2_000_000,
        cancelled: Callable[[], bool] | None = None,
    ) -> None:
        self.seconds = deadline
        if deadline is not None:
            self._soonest, self._spent = time.monotonic() + deadline, time.thread_time() + deadline
            self._latest = self._soonest + (_PATIENCE - 1) * deadline
        self.size_left = size
        self.cancelled = cancelled
        self.pointer = ""

    def spend(self, units: int = 1) -> None:
        """Raises SchemaTooLarge, naming what was being compiled, where a bound is passed."""
        self.size_left -= units
        if self.size_left < 0:
            raise SchemaTooLarge(
                self.pointer,
                "it takes more automaton states or alternatives than the size bound allows",
                "narrow it, or loosen what is combined here (oneOf, not, large counted repeats)",
            )
        if self.cancelled is not None and self.cancelled():
            raise CompileCancelled
        if self.seconds is not None and self._is_over():
            raise SchemaTooLarge(
                self.pointer,
                f"compiling it passed the deadline of {self.seconds:g} s",
                "simplify it, or compile it ahead with a longer deadline",
            )

    def _is_over(self) -> bool:
        now = time.monotonic()
        return now > self._soonest and (now > self._latest or time.thread_time() > self._spent)


_current: ContextVar[Limits | None] = ContextVar("limits", default=None)


def spend(units: int = 1) -> None:
    """Counts work against the limits in force, if any are."""
    limits = _current.get()
    if limits is not None:
        limits.spend(units)


def locate(pointer: str) -> None:
    """Names the part being compiled, for the error should a limit be passed in it."""
    limits = _current.get()
    if limits is not None:
        limits.pointer = pointer


def is_compiling() -> bool:
    """Whether limits are in force: while generating there are none."""
    return _current.get() is not None


def current_pointer() -> str:
    limits = _current.get()
    return "" if limits is None else limits.pointer


@contextmanager
def limited(limits: Limits | None) -> Generator[None]:
    """Puts the limits in force for the block, in this thread or task."""
    token = _current.set(limits)
    try:
        yield
    finally:
        _current.reset(token)
