"""Doing several things at once, in task groups: nothing outlives the call that started it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Hashable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

import anyio

from agentrt.errors import InvalidRequest

T = TypeVar("T")


async def gather(*awaitables: Awaitable[T], limit: int | None = None) -> list[T]:
    """Awaits all of them at once (at most `limit` at a time); their results, in order.

    The first exception cancels the others and is raised as it is. Leaving early, in whatever way,
    leaves nothing running.
    """
    results: list[Any] = [None] * len(awaitables)

    async def keep(index: int, awaitable: Awaitable[T]) -> None:
        results[index] = await awaitable

    await _run_all([keep(i, each) for i, each in enumerate(awaitables)], awaitables, limit)
    return results


async def race(*awaitables: Awaitable[T]) -> T:
    """The result of whichever succeeds first; the others are cancelled.

    Raises the first of the exceptions where all of them fail.
    """
    if not awaitables:
        raise InvalidRequest("race() has nothing to wait for; give it one awaitable or more")
    won: list[T] = []
    lost: list[Exception] = []

    async def run(awaitable: Awaitable[T], scope: anyio.CancelScope) -> None:
        try:
            result = await awaitable
        except Exception as error:
            lost.append(error)
        else:
            won.append(result)
            scope.cancel()

    try:
        async with anyio.create_task_group() as group:
            for awaitable in awaitables:
                group.start_soon(run, awaitable, group.cancel_scope)
    finally:
        _close(awaitables)
    if won:
        return won[0]
    raise lost[0]


@dataclass(frozen=True, slots=True)
class Vote(Generic[T]):
    """What most agreed on: the first given of the winning answers, and the votes of each key."""

    winner: T
    counts: dict[Any, int]

    @property
    def agreement(self) -> float:
        """The winner's share of the votes."""
        return max(self.counts.values()) / sum(self.counts.values())


def vote(answers: list[T], key: Callable[[T], Hashable] | None = None) -> Vote[T]:
    """The answer that most agree on; among equals, the one that was first to appear.

    `key` is what makes two answers the same; None as a key abstains.
    """
    keys = [key(answer) if key is not None else cast("Hashable", answer) for answer in answers]
    counts = Counter(each for each in keys if each is not None)
    if not counts:
        raise InvalidRequest("no votes were cast; every answer's key is None, or none was given")
    most = max(counts.values())
    best = next(each for each in keys if each is not None and counts[each] == most)
    return Vote(answers[keys.index(best)], dict(counts))


async def _run_all(
    tasks: list[Coroutine[Any, Any, None]],
    awaitables: tuple[Awaitable[Any], ...],
    limit: int | None,
) -> None:
    if limit is not None and limit < 1:
        raise InvalidRequest(f"limit={limit!r}; at least one must be allowed at a time")
    gate = anyio.Semaphore(limit) if limit is not None else nullcontext()
    failures: list[Exception] = []

    async def run(task: Coroutine[Any, Any, None], scope: anyio.CancelScope) -> None:
        async with gate:
            try:
                await task
            except Exception as error:
                failures.append(error)
                scope.cancel()

    try:
        async with anyio.create_task_group() as group:
            for task in tasks:
                group.start_soon(run, task, group.cancel_scope)
    finally:
        _close(tuple(tasks))
        _close(awaitables)
    if failures:
        raise failures[0]


def _close(awaitables: tuple[Awaitable[Any], ...]) -> None:
    """Coroutines that never got to start are closed, so that nobody is told they were forgotten."""
    for awaitable in awaitables:
        if isinstance(awaitable, Coroutine):
            awaitable.close()
