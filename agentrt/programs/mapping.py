"""One program over many inputs: so many at once, in order or as they finish, again after a kill."""

from __future__ import annotations

import reprlib
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    Awaitable,
    Callable,
    Generator,
    Iterable,
    Sized,
)
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, Self, TypeVar, overload

import anyio

from agentrt.errors import UsageError
from agentrt.programs.arguments import (
    check_awaitable,
    check_count,
    check_function,
    check_path,
    check_word,
    wrong,
)
from agentrt.programs.combine import branching, uncancelled
from agentrt.programs.identity import plain
from agentrt.programs.ledger import Ledger
from agentrt.programs.places import Place, here
from agentrt.programs.progress import MapProgress
from agentrt.trace import SpanKind, span

if TYPE_CHECKING:
    from pathlib import Path

    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

In = TypeVar("In")
Out = TypeVar("Out")
OnError = Literal["raise", "collect"]
Work = Callable[[In], Awaitable[Out]]
Inputs = Iterable[In] | AsyncIterable[In]

AT_ONCE = 64
"""Inputs that run at the same time where `limit` does not say."""

CLOSING_S = 5.0
"""Seconds that an async generator of inputs has to close in, where a map stops before its end."""


@dataclass(frozen=True, slots=True)
class Failed(Generic[In]):
    """In place of a result, where failures are collected: what was tried, how often, and the last
    error."""

    input: In
    error: Exception
    attempts: int


class Mapped(NamedTuple, Generic[In, Out]):
    """An input that is done: its place among the inputs, itself, and what came of it."""

    index: int  # pyright: ignore[reportIncompatibleMethodOverride] - its place, not tuple's method
    input: In
    result: Out


@overload
async def map(
    program: Work[In, Out],
    inputs: Inputs[In],
    *,
    limit: int | None = None,
    progress: bool = False,
    resume: str | Path | None = None,
    retries: int = 0,
    ordered: bool = True,
    on_error: Literal["raise"] = "raise",
) -> list[Out]: ...
@overload
async def map(
    program: Work[In, Out],
    inputs: Inputs[In],
    *,
    limit: int | None = None,
    progress: bool = False,
    resume: str | Path | None = None,
    retries: int = 0,
    ordered: bool = True,
    on_error: Literal["collect"],
) -> list[Out | Failed[In]]: ...
async def map(
    program: Work[In, Out],
    inputs: Inputs[In],
    *,
    limit: int | None = None,
    progress: bool = False,
    resume: str | Path | None = None,
    retries: int = 0,
    ordered: bool = True,
    on_error: OnError = "raise",
) -> list[Any]:
    """Runs a program, or any async function of one input, over all inputs.

        invoices = await agentrt.map(read_invoice, pages, progress=True, resume="run.db")

    `limit` is how many run at once (64); inputs are drawn as there is room for them, from an
    iterable or an async one; a generator is closed at the end, also at an early one. Results come
    in the order of the inputs, or of finishing with `ordered=False`. An input that fails is tried
    `retries` times more, unless the error is a UsageError, which would only come again.
    `on_error="collect"` puts a Failed in place of its result; "raise" cancels the others and raises
    the error.

    `resume` names an SQLite file where every finished input is noted at once: run again, also after
    a kill, only the others are done, and failed ones again. Results must come back from JSON by the
    program's return type: Pydantic models, dataclasses, typed dicts, text, numbers, dates, enums,
    and lists, dicts, tuples and unions of these. See `Ledger` for what an input is known by.

    Raises InvalidRequest for options that make no sense or results that `resume` cannot keep.
    """
    opened = map_as_completed(
        program,
        inputs,
        limit=limit,
        progress=progress,
        resume=resume,
        retries=retries,
        on_error=on_error,
    )
    done: list[Mapped[In, Any]] = []
    async with opened as results:
        async for each in results:
            done.append(each)
    if ordered:
        done.sort(key=lambda each: each.index)
    return [each.result for each in done]


@asynccontextmanager
async def map_as_completed(
    program: Work[In, Out],
    inputs: Inputs[In],
    *,
    limit: int | None = None,
    progress: bool = False,
    resume: str | Path | None = None,
    retries: int = 0,
    on_error: OnError = "raise",
) -> AsyncGenerator[Results[In, Out]]:
    """As `map`, each result as soon as it is there.

        async with map_as_completed(solve, puzzles) as results:
            async for index, puzzle, result in results:
                ...

    No more than `limit` run or wait to be taken. Leaving the block stops what still runs.
    """
    most = _checked(program, inputs, limit=limit, resume=resume, retries=retries, on_error=on_error)
    name = getattr(program, "name", None) or plain(program).__name__
    async with AsyncExitStack() as stack:
        ledger = Ledger(resume, program) if resume is not None else None
        if ledger is not None:
            await stack.enter_async_context(ledger)
        total = len(inputs) if isinstance(inputs, Sized) else None
        bar = stack.enter_context(MapProgress(name, total, progress))
        stack.enter_context(span(SpanKind.STEP, f"map {name}"))
        run = _Run(program, retries, ledger, bar)
        async with branching() as branches:
            send, receive = anyio.create_memory_object_stream[Mapped[In, Any]](0)
            branches.start(run.feed, inputs, send, most)
            with receive:
                try:
                    yield Results(receive, on_error)
                finally:
                    branches.cancel()  # before nobody receives any more


class Results(Generic[In, Out]):
    """Results as they finish; an async iterator."""

    def __init__(
        self, receive: MemoryObjectReceiveStream[Mapped[In, Any]], on_error: OnError
    ) -> None:
        self._receive = receive
        self._on_error = on_error

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Mapped[In, Out]:
        try:
            done = await self._receive.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None
        failed = done.result
        if isinstance(failed, _Broken):
            raise failed.error
        if isinstance(failed, Failed) and self._on_error == "raise":
            times = f" after {failed.attempts} attempts" if failed.attempts > 1 else ""
            failed.error.add_note(f"input {done.index}{times}: {reprlib.repr(failed.input)}")
            raise failed.error
        return done


class _Broken(NamedTuple):
    """What stops the whole: the inputs themselves failed, or a result could not be kept."""

    error: Exception


class _Run(Generic[In, Out]):
    def __init__(
        self, program: Work[In, Out], retries: int, ledger: Ledger | None, bar: MapProgress
    ) -> None:
        self._program = program
        self._retries = retries
        self._ledger = ledger
        self._bar = bar

    async def feed(
        self, inputs: Inputs[In], send: MemoryObjectSendStream[Mapped[In, Any]], most: int
    ) -> None:
        """Draws the inputs and runs them, so many at a time, until all are done and taken."""
        room = anyio.Semaphore(most)
        place = here()

        async def one(index: int, given: In, place: Place) -> None:
            try:
                with place.entered():
                    await send.send(Mapped(index, given, await self._result(given)))
            finally:
                room.release()

        with send:
            async with branching() as branches, aclosing(_drawn(inputs)) as drawn:
                await room.acquire()
                index = 0
                try:
                    async for given in drawn:
                        branches.start(one, index, given, *place.branches(1))
                        index += 1
                        await room.acquire()
                except Exception as error:
                    await send.send(Mapped(index, None, _Broken(error)))  # pyright: ignore[reportArgumentType]

    async def _result(self, given: In) -> Out | Failed[In] | _Broken:
        try:
            key = self._ledger.key(given) if self._ledger is not None else b""
            found = await self._ledger.find(key) if self._ledger is not None else None
            if found is not None:
                self._bar.advance(restored=True)
                return found[0]
            result = await self._tried(given)
            if self._ledger is not None and not isinstance(result, Failed):
                await self._ledger.keep(key, result)
        except Exception as error:
            return _Broken(error)
        self._bar.advance(failed=isinstance(result, Failed))
        return result

    async def _tried(self, given: In) -> Out | Failed[In]:
        attempts = 0
        while True:
            attempts += 1
            try:
                running = self._program(given)
                check_awaitable("program", running)
                return await uncancelled(running)
            except Exception as error:
                if isinstance(error, UsageError) or attempts > self._retries:
                    return Failed(given, error, attempts)


async def _drawn(inputs: Inputs[In]) -> AsyncGenerator[In]:
    """The inputs, from whichever kind of iterable; generators are closed when no more are drawn."""
    if isinstance(inputs, AsyncIterable):
        drawn = aiter(inputs)
        try:
            async for each in drawn:
                yield each
        finally:
            if isinstance(drawn, AsyncGenerator):
                # What it has to undo, it may: although what stopped the map has cancelled this.
                with anyio.move_on_after(CLOSING_S, shield=True):
                    await drawn.aclose()
    else:
        try:
            for each in inputs:
                yield each
        finally:
            if isinstance(inputs, Generator):
                inputs.close()


def _checked(
    program: object, inputs: object, *, limit: Any, resume: object, retries: object, on_error: str
) -> int:
    """How many may run at once."""
    check_function("program", program, "a program, or an async function of one input")
    if not isinstance(inputs, Iterable | AsyncIterable) or isinstance(inputs, str | bytes):
        raise wrong("inputs", inputs, "a list, a generator or another iterable of inputs")
    if resume is not None:
        check_path("resume", resume)
    check_count("retries", retries)
    check_word("on_error", on_error, ("raise", "collect"))
    return AT_ONCE if limit is None else check_count("limit", limit, 1)
