"""Budgets: how many tokens, calls and seconds what runs inside them may take.

    with Budget(tokens=2_000, seconds=30):
        await solve("...")

Budgets nest: what a call takes is taken from every budget it runs inside of, in whatever task.

A generator, sync or async, runs in the context of whoever draws from it: a budget that it enters
around a `yield` is still set when it has yielded. It is not counted there by the task that draws;
tasks that are started there count it, and so does everybody where a generator is drawn from outside
of any task. Enter a budget around the loop, or take the calls of a generator to a function with a
budget of its own.
"""

from __future__ import annotations

import inspect
import math
import time
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import anyio

from agentrt.errors import (
    BudgetExhausted,
    DeadlineExceeded,
    InvalidRequest,
    QueueFull,
    UsageError,
)
from agentrt.programs.arguments import check_count, check_number
from agentrt.programs.entered import Entry, enter, entries
from agentrt.trace import attributes
from agentrt.trace.spans import current_span

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator
    from types import TracebackType


class Budget:
    """Limits on output tokens, on calls to the model, and on seconds since the block was entered.

        with Budget(tokens=500, seconds=20):  # `async with` is the same
            ...

    A generation reserves the most tokens it may write before it starts and gives back what it did
    not write. Where others that run hold reservations it waits for them to settle, within its own
    `timeout` and the budgets' seconds; where nobody does it makes do with what is left, and raises
    BudgetExhausted if that is too little to begin. A stream that is not being read keeps what it
    reserved, and is not waited for: whoever asks may be what it waits for. Prompt tokens do not
    count, so that a result never depends on what happened to be cached; what was written before an
    interruption does.

    A task that outlives the block it was started in keeps to its limits. Leaving a budget before
    one that was entered inside it raises InvalidRequest: it is left, the other still counts.
    """

    def __init__(
        self,
        *,
        tokens: int | None = None,
        calls: int | None = None,
        seconds: float | None = None,
    ) -> None:
        for name, given in (("tokens", tokens), ("calls", calls)):
            if given is not None:
                check_count(name, given, unless=", or None for no limit")
        if seconds is not None:
            check_number("seconds", seconds, "a number, 0 or more, or None for no limit")
        self.tokens = tokens
        self.calls = calls
        self.seconds = seconds
        self.tokens_spent = 0
        self.calls_spent = 0
        self._reserved = 0
        self._parked = 0  # of what is reserved: by streams that are not being read
        self._news: anyio.Event | None = None
        self._began: float | None = None
        self._entry: Entry | None = None
        self._last: Entry | None = None

    def fresh(self) -> Budget:
        """Another budget of the same limits, nothing spent."""
        return Budget(tokens=self.tokens, calls=self.calls, seconds=self.seconds)

    def __repr__(self) -> str:
        given = {"tokens": self.tokens, "calls": self.calls, "seconds": self.seconds}
        limits = ", ".join(f"{name}={value}" for name, value in given.items() if value is not None)
        return f"Budget({limits})"

    def __enter__(self) -> Self:
        if self._entry is not None or any(each.budget is self for each in entries()):
            raise InvalidRequest("this budget is already in use; make another, or `fresh()`")
        self._began = time.monotonic()
        self._entry = self._last = enter(self, inspect.currentframe())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        left, self._entry = self._entry, None
        if left is None:
            raise InvalidRequest("this budget is not in use; enter it before it is left")
        inner = left.leave()
        if inner is not None and error is None:
            raise InvalidRequest(
                f"{self!r} is left before {inner.budget!r}, which was entered inside it "
                f"({inner.where}); leave the inner one first"
            )

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.__exit__(kind, error, trace)

    @property
    def tokens_left(self) -> float:
        """Output tokens neither written nor reserved; infinite without a limit."""
        return _left(self.tokens, self.tokens_spent + self._reserved)

    @property
    def calls_left(self) -> float:
        return _left(self.calls, self.calls_spent)

    @property
    def seconds_left(self) -> float:
        return _left(self.seconds, self.seconds_spent)

    @property
    def seconds_spent(self) -> float:
        return 0.0 if self._began is None else time.monotonic() - self._began

    @property
    def chain(self) -> list[Budget]:
        """This budget and those around it, inside out."""
        entry, found = self._last, list[Budget]()
        while entry is not None:
            if entry.counts():
                found.append(entry.budget)
            entry = entry.around
        return found

    def check_call(self) -> None:
        """Raises BudgetExhausted where no call or no time is left."""
        if self.calls_left < 1:
            raise BudgetExhausted("calls", self.calls or 0, self.calls_spent, 1)
        if self.seconds_left <= 0:
            raise self.out_of_time()

    def out_of_time(self) -> BudgetExhausted:
        return BudgetExhausted("seconds", self.seconds or 0, round(self.seconds_spent, 3), 0)

    def rest(self, at_least: int) -> int:
        """The tokens that are left. Raises BudgetExhausted where they are too few."""
        if self.tokens_left < at_least:
            limit = self.tokens or 0
            raise BudgetExhausted("tokens", limit, self.tokens_spent, at_least, self._parked)
        return int(self.tokens_left)

    def hold(self, tokens: int) -> None:
        """Takes a call and a reservation of tokens."""
        self.calls_spent += 1
        self._reserved += tokens

    def settle(self, held: int, spent: int) -> None:
        """Gives back a reservation of which `spent` tokens were written."""
        self._reserved -= held
        self.tokens_spent += spent
        self._tell()

    def park(self, tokens: int) -> None:
        """So much of what is reserved will not be given back by itself; less, if negative."""
        self._parked += tokens
        self._tell()

    @property
    def is_held(self) -> bool:
        """Whether something that runs may still give tokens back."""
        return self._reserved > self._parked

    async def change(self) -> None:
        """Waits until a reservation is given back, or is no longer worth waiting for."""
        if self._news is None:
            self._news = anyio.Event()
        await self._news.wait()

    def _tell(self) -> None:
        if self._news is not None:
            self._news.set()
            self._news = None


@dataclass(slots=True)
class Grant:
    """What a generation may take: `tokens` to write, `timeout` seconds; and what it `spent`."""

    tokens: int
    timeout: float | None
    budgets: tuple[Budget, ...] = ()
    spent: int = 0

    @contextmanager
    def parked(self) -> Generator[None]:
        """While whoever reads the generation is busy: others do not wait for what this holds."""
        for each in self.budgets:
            each.park(self.tokens)
        try:
            yield
        finally:
            for each in self.budgets:
                each.park(-self.tokens)


def current_budget() -> Budget | None:
    """The innermost budget this task is inside of."""
    return next(iter(_around()), None)


def seconds_left() -> float | None:
    """How long what starts now may take by the budgets it is in; None without such a limit."""
    left = min((each.seconds_left for each in _around()), default=math.inf)
    return None if left == math.inf else max(left, 0.0)


def check_time() -> None:
    """Raises BudgetExhausted where a budget's seconds are over."""
    for each in _around():
        if each.seconds_left <= 0:
            raise each.out_of_time()


def out_of_time() -> BudgetExhausted:
    """The error of the budget whose seconds end first; there must be one."""
    return min(_around(), key=lambda each: each.seconds_left).out_of_time()


@asynccontextmanager
async def reserved(
    wanted: int, at_least: int, timeout: float | None = None
) -> AsyncGenerator[Grant]:
    """Reserves a call and up to `wanted` output tokens of every budget around, at least `at_least`.

    Waiting for tokens counts towards `timeout` seconds. A call that was not begun, or that the
    runtime refused, is not charged. Raises BudgetExhausted where a budget cannot give what is
    needed, DeadlineExceeded.
    """
    budgets = tuple(_around())
    began = time.monotonic()
    limits = [seconds for seconds in (timeout, seconds_left()) if seconds is not None]
    tokens = await _free(budgets, wanted, at_least, min(limits, default=math.inf))
    left = max(min(limits) - (time.monotonic() - began), 0.0) if limits else None
    grant = Grant(tokens, left, budgets)
    for each in budgets:
        each.hold(tokens)
    if tokens < wanted:
        _note(tokens, wanted)
    try:
        yield grant
    except (UsageError, QueueFull):  # it never reached the model
        for each in budgets:
            each.calls_spent -= 1
        raise
    except DeadlineExceeded:
        check_time()  # the budget's end, if it was that, and not the call's own
        raise
    finally:
        for each in budgets:
            each.settle(tokens, grant.spent)


async def _free(budgets: tuple[Budget, ...], wanted: int, at_least: int, seconds: float) -> int:
    """How many tokens may be taken: all that is wanted, or what is left once nobody waits."""
    if not budgets:
        return wanted
    try:
        with anyio.fail_after(seconds):
            while True:
                for each in budgets:
                    each.check_call()
                tightest = min(budgets, key=lambda budget: budget.tokens_left)
                if tightest.tokens_left >= wanted:
                    return wanted
                if not tightest.is_held:
                    return tightest.rest(at_least)
                await tightest.change()
    except TimeoutError:
        check_time()
        raise DeadlineExceeded(
            f"{seconds:.3g} s passed in waiting for tokens of the budget, which others hold; give "
            "it more time or a larger budget"
        ) from None


def _note(tokens: int, wanted: int) -> None:
    """Says in the trace which budget made a generation shorter than it was asked to be."""
    entry = min(
        (each for each in entries() if each.counts()), key=lambda each: each.budget.tokens_left
    )
    if (current := current_span()) is not None:
        current.event(
            attributes.LIMITED,
            budget=lambda: repr(entry.budget),
            entered=entry.where,
            tokens=tokens,
            wanted=wanted,
        )


def _around() -> list[Budget]:
    """The budgets this task is inside of, inside out."""
    return [each.budget for each in entries() if each.counts()]


def _left(limit: float | None, spent: float) -> float:
    return math.inf if limit is None else limit - spent
