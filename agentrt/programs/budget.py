"""Budgets: how many tokens, calls and seconds what runs inside them may take.

    with Budget(tokens=2_000, seconds=30):
        await solve("...")

Budgets nest: what a call takes is taken from every budget it runs inside of, in whatever task.
"""

from __future__ import annotations

import math
import time
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import anyio

from agentrt.errors import BudgetExhausted, InvalidRequest

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from contextvars import Token
    from types import TracebackType

_innermost: ContextVar[Budget | None] = ContextVar("agentrt_budget", default=None)


class Budget:
    """Limits on output tokens, on calls to the model, and on seconds since the block was entered.

    A generation reserves the most tokens it may write before it starts and gives back what it did
    not write. Where others hold reservations it waits for them to settle; where nobody does it
    makes do with what is left, and raises BudgetExhausted if that is too little to begin. Prompt
    tokens do not count, so that a result never depends on what happened to be cached.
    """

    def __init__(
        self,
        *,
        tokens: int | None = None,
        calls: int | None = None,
        seconds: float | None = None,
    ) -> None:
        for name, given in (("tokens", tokens), ("calls", calls), ("seconds", seconds)):
            if given is not None and not 0 <= given < math.inf:
                raise InvalidRequest(f"{name}={given!r}; a budget is 0 or more, or None for none")
        self.tokens = tokens
        self.calls = calls
        self.seconds = seconds
        self.tokens_spent = 0
        self.calls_spent = 0
        self._reserved = 0
        self._began: float | None = None
        self._outer: Budget | None = None
        self._token: Token[Budget | None] | None = None
        self._settled: list[anyio.Event] = []

    def fresh(self) -> Budget:
        """Another budget of the same limits, nothing spent."""
        return Budget(tokens=self.tokens, calls=self.calls, seconds=self.seconds)

    def __repr__(self) -> str:
        given = {"tokens": self.tokens, "calls": self.calls, "seconds": self.seconds}
        limits = ", ".join(f"{name}={value}" for name, value in given.items() if value is not None)
        return f"Budget({limits})"

    def __enter__(self) -> Self:
        if self._token is not None:
            raise InvalidRequest("this budget is already in use; make another, or `fresh()`")
        self._outer = _innermost.get()
        self._began = time.monotonic()
        self._token = _innermost.set(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._token is not None
        _innermost.reset(self._token)
        self._token = None

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
        outer = self._outer.chain if self._outer is not None else []
        return [self, *outer]

    def start_call(self) -> None:
        """Counts a call. Raises BudgetExhausted where no call or no time is left."""
        if self.calls_left < 1:
            raise BudgetExhausted("calls", self.calls or 0, self.calls_spent, 1)
        if self.seconds_left <= 0:
            raise self.out_of_time()

    def out_of_time(self) -> BudgetExhausted:
        return BudgetExhausted("seconds", self.seconds or 0, round(self.seconds_spent, 3), 0)

    def hold(self, tokens: int) -> None:
        self._reserved += tokens

    def settle(self, held: int, spent: int) -> None:
        """Gives back a reservation of which `spent` tokens were written."""
        self._reserved -= held
        self.tokens_spent += spent
        waiting, self._settled = self._settled, []
        for event in waiting:
            event.set()

    @property
    def is_held(self) -> bool:
        """Whether something that runs may still give tokens back."""
        return self._reserved > 0

    def settling(self) -> anyio.Event:
        """Set when a reservation is next given back."""
        event = anyio.Event()
        self._settled.append(event)
        return event


@dataclass(slots=True)
class Grant:
    """What a generation may take: `tokens` to write, `timeout` seconds; and what it `spent`."""

    tokens: int
    timeout: float | None
    spent: int = 0


def current_budget() -> Budget | None:
    """The innermost budget this task is inside of."""
    return _innermost.get()


def seconds_left() -> float | None:
    """How long what starts now may take by the budgets it is in; None without such a limit."""
    budget = _innermost.get()
    left = min((b.seconds_left for b in budget.chain), default=math.inf) if budget else math.inf
    return None if left == math.inf else max(left, 0.0)


def check_time() -> None:
    """Raises BudgetExhausted where a budget's seconds are over."""
    budget = _innermost.get()
    for each in budget.chain if budget is not None else ():
        if each.seconds_left <= 0:
            raise each.out_of_time()


def out_of_time() -> BudgetExhausted:
    """The error of the budget whose seconds end first; there must be one."""
    budget = _innermost.get()
    assert budget is not None
    return min(budget.chain, key=lambda each: each.seconds_left).out_of_time()


@asynccontextmanager
async def reserved(wanted: int, at_least: int) -> AsyncGenerator[Grant]:
    """Reserves up to `wanted` output tokens of every budget around, no fewer than `at_least`.

    Raises BudgetExhausted where a budget cannot give them.
    """
    budget = _innermost.get()
    if budget is None:
        yield Grant(wanted, None)
        return
    chain = budget.chain
    for each in chain:
        each.start_call()
    for each in chain:
        each.calls_spent += 1
    tokens = await _free(chain, wanted, max(at_least, 1))
    grant = Grant(tokens, seconds_left())
    for each in chain:
        each.hold(tokens)
    try:
        yield grant
    finally:
        for each in chain:
            each.settle(tokens, grant.spent)


async def _free(chain: list[Budget], wanted: int, at_least: int) -> int:
    """How many tokens may be taken now: all that is wanted, or what is left once nobody waits."""
    while True:
        tightest = min(chain, key=lambda budget: budget.tokens_left)
        if tightest.tokens_left >= wanted:
            return wanted
        if tightest.is_held:
            await tightest.settling().wait()
        elif tightest.tokens_left >= at_least:
            return int(tightest.tokens_left)
        else:
            limit = tightest.tokens or 0
            raise BudgetExhausted("tokens", limit, tightest.tokens_spent, at_least)


def _left(limit: float | None, spent: float) -> float:
    return math.inf if limit is None else limit - spent
