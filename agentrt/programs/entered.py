"""Which budgets a task is inside of: each time that one was entered, from the inside out."""

from __future__ import annotations

import contextlib
import inspect
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextvars import Token
    from types import FrameType

    from agentrt.programs.budget import Budget

_GENERATOR = inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR

_innermost: ContextVar[Entry | None] = ContextVar("agentrt_budget", default=None)


@dataclass(eq=False, slots=True)
class Entry:
    """One time that a budget was entered, until it counts no longer.

    A generator that enters a budget and yields leaves it set for whoever draws from it: both run in
    one context. Where that can be seen, in the task that entered it, it counts inside only.
    """

    budget: Budget
    around: Entry | None
    where: str
    generator: FrameType | None
    task: int | None
    is_over: bool = False
    token: Token[Entry | None] = field(init=False)

    def counts(self) -> bool:
        """Whether what runs now is inside."""
        if self.is_over:
            return False
        if self.generator is None or self.task is None or self.task != _task():
            return True
        return any(frame is self.generator for frame in _frames(inspect.currentframe()))

    def leave(self) -> Entry | None:
        """Takes the budget out; what stands in the way where another is inside it, which stays."""
        last, inside, generator = _innermost.get(), list(entries()), self.generator
        self.generator = None  # it holds what the generator's names stand for
        try:
            _innermost.reset(self.token)
        except ValueError:
            # Left in another context than entered, as fixtures are. It cannot be taken out of that
            # one, so it counts no longer wherever it still stands.
            self.is_over = True
            return None
        if inside and inside[0] is self:
            return None  # tasks that were started inside go on to count it
        _innermost.set(last)
        self.is_over = True
        # Generators that take turns in one task may end in any order.
        return inside[0] if generator is None and self in inside else None


def entries() -> Iterator[Entry]:
    """All that are not over, whether or not they count here, from the inside out."""
    entry = _innermost.get()
    while entry is not None:
        if not entry.is_over:
            yield entry
        entry = entry.around


def enter(budget: Budget, entering: FrameType | None) -> Entry:
    """Makes a budget the innermost; `entering` is the frame of its own `__enter__`."""
    assert entering is not None  # CPython has frames
    callers = _frames(entering.f_back)
    frame = next(each for each in callers if each.f_code.co_filename != contextlib.__file__)
    code = frame.f_code
    where = f"{code.co_qualname}, line {frame.f_lineno} of {Path(code.co_filename).name}"
    is_bare = bool(code.co_flags & _GENERATOR) and not _is_manager(frame)
    made = Entry(
        budget,
        next(entries(), None),
        where,
        frame if is_bare else None,
        _task() if is_bare else None,
    )
    made.token = _innermost.set(made)
    return made


def _is_manager(generator: FrameType) -> bool:
    """Whether a generator is one that contextlib makes a block of, for the block to be inside."""
    driver = generator.f_back
    return driver is not None and driver.f_code.co_filename == contextlib.__file__


def _frames(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _task() -> int | None:
    """The task that runs; None outside of any."""
    try:
        return anyio.get_current_task().id
    except RuntimeError:
        return None
