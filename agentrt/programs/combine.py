"""Doing several things at once, in task groups: nothing outlives the call that started it."""

from __future__ import annotations

import inspect
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Iterable
from contextlib import asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import anyio

from agentrt.errors import CancelledBranch, InvalidRequest
from agentrt.programs.arguments import check_count, check_hook, wrong
from agentrt.programs.places import here

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator

    from anyio.abc import TaskGroup

T = TypeVar("T")


async def gather(*awaitables: Awaitable[T], limit: int | None = None) -> list[T]:
    """Awaits all of them at once (at most `limit` at a time); their results, in order.

    The first exception cancels the others and is raised as it is; CancelledBranch is that of one
    that was cancelled by itself. Leaving early, in whatever way, leaves nothing running.
    """
    results: list[Any] = [None] * len(awaitables)
    places = here().branches(len(awaitables))
    with _owned(awaitables):
        gate = nullcontext() if limit is None else anyio.Semaphore(check_count("limit", limit, 1))

        async def keep(index: int) -> None:
            async with gate:
                with places[index].entered():
                    results[index] = await awaitables[index]

        async with branching() as branches:
            for index in range(len(awaitables)):
                branches.start(keep, index)
    return results


async def race(*awaitables: Awaitable[T]) -> T:
    """The result of whichever succeeds first; the others are cancelled.

    Raises the first of the exceptions where all of them fail.
    """
    won: list[T] = []
    lost: list[Exception] = []
    places = here().branches(len(awaitables))
    if not awaitables:
        raise InvalidRequest("race() has nothing to wait for; give it one awaitable or more")

    async def run(index: int, branches: Branches) -> None:
        try:
            with places[index].entered():
                won.append(await uncancelled(awaitables[index]))
        except Exception as error:
            lost.append(error)
        else:
            branches.cancel()

    with _owned(awaitables):
        async with branching() as branches:
            for index in range(len(awaitables)):
                branches.start(run, index, branches)
    if won:
        return won[0]
    raise lost[0]


class Branches:
    """Tasks of one group; the first exception of any of them cancels the others."""

    def __init__(self, group: TaskGroup) -> None:
        self._group = group
        self.failure: BaseException | None = None

    def start(self, run: Callable[..., Awaitable[None]], *args: Any) -> None:
        self._group.start_soon(self._guarded, run, *args)

    def cancel(self) -> None:
        self._group.cancel_scope.cancel()

    def fail(self, error: BaseException) -> None:
        self.failure = self.failure or error
        self.cancel()

    async def _guarded(self, run: Callable[..., Awaitable[None]], *args: Any) -> None:
        try:
            await uncancelled(run(*args))
        except (anyio.get_cancelled_exc_class(), GeneratorExit):
            raise
        except BaseException as error:
            self.fail(error)


@asynccontextmanager
async def branching() -> AsyncGenerator[Branches]:
    """A task group whose first exception is raised as it is, whatever it is: not in a group."""
    group = anyio.create_task_group()
    branches = Branches(group)
    async with group:
        try:
            yield branches
        except (anyio.get_cancelled_exc_class(), GeneratorExit):
            raise
        except BaseException as error:
            branches.fail(error)
    if branches.failure is not None:
        raise branches.failure


async def uncancelled(awaitable: Awaitable[T]) -> T:
    """Awaits. Raises CancelledBranch where that ends cancelled and no scope around it was."""
    try:
        return await awaitable
    except anyio.get_cancelled_exc_class() as cancelled:
        if anyio.current_effective_deadline() == -math.inf:
            raise
        raise CancelledBranch(
            "what was awaited was cancelled from within, and no scope around it was; look for "
            "what cancels tasks of its own accord"
        ) from cancelled


@dataclass(frozen=True, slots=True)
class Vote(Generic[T]):
    """What most agreed on: the first given of the winning answers, and the votes of each key."""

    winner: T
    counts: dict[Any, int]

    @property
    def agreement(self) -> float:
        """The winner's share of the votes."""
        return max(self.counts.values()) / sum(self.counts.values())


def vote(answers: Iterable[T], key: Callable[[T], Hashable] | None = None) -> Vote[T]:
    """The answer that most agree on; among equals, the one that was first to appear.

    `key` is what makes two answers the same; None as a key abstains. Raises InvalidRequest for
    answers that cannot be counted, and where none votes.
    """
    if not isinstance(answers, Iterable) or isinstance(answers, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise wrong("answers", answers, "a list of answers")
    check_hook("key", key, "an answer")
    answers = list(answers)
    keys = [key(answer) if key is not None else cast("Hashable", answer) for answer in answers]
    try:
        counts = Counter(each for each in keys if each is not None)
    except TypeError as error:
        raise InvalidRequest(
            f"the answers cannot be counted ({error}); give a key that can, such as key=str"
        ) from error
    if not counts:
        raise InvalidRequest("no votes were cast; every answer's key is None, or none was given")
    most = max(counts.values())
    best = next(each for each in keys if each is not None and counts[each] == most)
    return Vote(answers[keys.index(best)], dict(counts))


@contextmanager
def _owned(awaitables: tuple[Awaitable[Any], ...]) -> Generator[None]:
    """Coroutines that never got to start are closed, so that nobody is told they were forgotten."""
    fresh = [each for each in awaitables if _is_fresh(each)]
    try:
        for each in awaitables:
            if not inspect.isawaitable(each):
                raise InvalidRequest(
                    f"a {type(each).__name__} was given to be awaited; call the async functions, "
                    "and give what they return"
                )
            if inspect.iscoroutine(each) and sum(each is other for other in fresh) != 1:
                raise InvalidRequest(
                    f"the coroutine {each.__qualname__} was given twice, or was awaited before, "
                    "and a coroutine runs once; call the async function again for each"
                )
        yield
    finally:
        for each in fresh:
            if isinstance(each, Coroutine):
                each.close()


def _is_fresh(awaitable: Any) -> bool:
    """Whether it is not, as far as can be told, awaited by somebody already."""
    if not inspect.iscoroutine(awaitable):
        return True
    return inspect.getcoroutinestate(awaitable) == inspect.CORO_CREATED
