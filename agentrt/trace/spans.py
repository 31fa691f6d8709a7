"""Spans: what is going on, as a tree, told to whoever wants to know.

    with span(SpanKind.TOOL, "search", {"gen_ai.tool.name": "search"}) as s:
        s.set(hits=3)

A span knows its parent and is the parent of whatever is started inside it, in the same task or in
tasks started there. Where spans go is for the sinks to say; with no sink they cost about a
microsecond each and are forgotten.
"""

from __future__ import annotations

import itertools
import secrets
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol, Self

from agentrt.trace.attributes import ERROR_TYPE, EXCEPTION_MESSAGE
from agentrt.trace.warning import warn

if TYPE_CHECKING:
    from types import TracebackType

    from agentrt.generation import Usage

Value = None | bool | int | float | str | Sequence["Value"] | Mapping[str, "Value"]
"""What an attribute can be: a JSON value. Whoever gives one must not change it afterwards."""
Lazy = Value | Callable[[], Value]
"""A value, or how to make it: called at once, and only if somebody records. Where making it raises,
as a broken `__repr__` does, that is recorded in its place: a record changes nothing."""


class SpanKind(StrEnum):
    """What a span is about."""

    RUN = "run"
    PROGRAM = "program"
    STEP = "step"
    GENERATION = "generation"
    SELECT = "select"
    BRANCH = "branch"
    TOOL = "tool"
    VALIDATION = "validation"


class SpanStatus(StrEnum):
    """How a span ended, if it did."""

    RUNNING = "running"
    OK = "ok"
    ERROR = "error"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened at one moment of a span; `at_ns` as the span's own times."""

    name: str
    at_ns: int
    attributes: Mapping[str, Value]


class Sink(Protocol):
    """Where spans go: a store, a live view. Several can listen at once.

    Called on the thread that runs the span, between two of its steps, so a sink must return at once
    and leave work to a thread of its own. A span goes on changing after it was handed over. A sink
    that raises is removed, with a warning; the program goes on.
    """

    def started(self, span: Span) -> None:
        """A span began; its first attributes are set."""
        ...

    def changed(self, span: Span, changes: Mapping[str, Value]) -> None:
        """These attributes were set on a running span."""
        ...

    def event(self, span: Span, event: Event) -> None:
        """Something happened in a running span."""
        ...

    def ended(self, span: Span) -> None:
        """A span ended: its status and `ended_ns` are set and nothing will change any more."""
        ...


_sinks: tuple[Sink, ...] = ()
_chunk_sinks: frozenset[Sink] = frozenset()
_guard = threading.Lock()
_current: ContextVar[Span | None] = ContextVar("agentrt_span", default=None)
_ids = itertools.count(1)
_adopter: Span | None = None

# Wall time that never goes back: a clock set during a run must not make a span end before it began.
_EPOCH_NS = time.time_ns() - time.perf_counter_ns()


def now_ns() -> int:
    """Nanoseconds since 1970, never decreasing in this process."""
    return _EPOCH_NS + time.perf_counter_ns()


def add_sink(sink: Sink, *, chunks: bool = False) -> None:
    """Tells `sink` of everything from now on. Spans that are already open start to be told of.

    With `chunks` generations say what they write while they write it, as events called
    `agentrt.chunk`, to every sink there is.
    """
    global _sinks, _chunk_sinks
    with _guard:
        if sink not in _sinks:
            _sinks = (*_sinks, sink)
        if chunks:
            _chunk_sinks |= {sink}


def remove_sink(sink: Sink) -> None:
    """Tells `sink` no more; nothing happens if it was not told."""
    global _sinks, _chunk_sinks
    with _guard:
        _sinks = tuple(other for other in _sinks if other is not sink)
        _chunk_sinks -= {sink}


def wants_chunks() -> bool:
    """Whether generations are to say what they write while they write it."""
    return bool(_chunk_sinks)


def is_recording() -> bool:
    """Whether anybody listens."""
    return bool(_sinks)


def current_span() -> Span | None:
    """The innermost span this task is inside of."""
    return _current.get()


def adopt_orphans(parent: Span | None) -> None:
    """Makes `parent` that of every span started outside of any, in whatever thread or context.

    None leaves them without one again: each is then the root of a run of its own.
    """
    global _adopter
    _adopter = parent


def forget_everything() -> None:
    """Removes every sink and parent by default: for a process that was forked from a recorded one,
    where what the sinks stand on stayed behind."""
    global _sinks, _chunk_sinks, _guard, _adopter
    _sinks, _chunk_sinks, _guard, _adopter = (), frozenset(), threading.Lock(), None


class Span:
    """Something that takes time, live: it changes until it has ended.

    Made by :func:`span` or :func:`start_span`. `id` is unique in this process, so in its run.
    `started_ns` and `ended_ns` are nanoseconds since 1970, on a clock that never goes back.
    As a context manager it is the current span inside, and ends with what ended the block.
    """

    __slots__ = (
        "_outer",
        "_run_id",
        "attributes",
        "ended_ns",
        "id",
        "kind",
        "name",
        "parent",
        "progress",
        "started_ns",
        "status",
    )

    def __init__(self, kind: SpanKind, name: str, parent: Span | None) -> None:
        self.id: int = next(_ids)
        self.parent = parent
        self._run_id: str | None = None
        self.kind = kind
        self.name = name
        self.started_ns: int = now_ns()
        self.ended_ns: int | None = None
        self.status = SpanStatus.RUNNING
        self.attributes: dict[str, Value] = {}
        self.progress: Callable[[], Usage] | None = None
        """What a generation took so far, for who watches; any thread may ask. None when it has
        ended: its attributes say it then."""
        self._outer: Span | None = None

    def __repr__(self) -> str:
        return f"<Span {self.id} {self.kind} {self.name!r} {self.status}>"

    @property
    def parent_id(self) -> int | None:
        return None if self.parent is None else self.parent.id

    @property
    def run_id(self) -> str:
        """The name of the run that this span is part of: one for all below the same root."""
        if self._run_id is None:
            if self.parent is not None:
                self._run_id = self.parent.run_id
            else:
                with _guard:  # two threads may ask at once, and must hear the same
                    self._run_id = self._run_id or new_run_id()
        return self._run_id

    @property
    def is_recorded(self) -> bool:
        """Whether anybody listens: what is expensive to describe need not be if nobody does."""
        return bool(_sinks)

    def set(self, attributes: Mapping[str, Lazy] | None = None, /, **more: Lazy) -> None:
        """Sets attributes; does nothing when nobody listens, or when the span has ended."""
        if not _sinks or self.ended_ns is not None:
            return
        changes = _evaluated(attributes, more)
        self.attributes.update(changes)
        for sink in _sinks:
            try:
                sink.changed(self, changes)
            except Exception as error:
                _let_go(sink, error)

    def event(
        self, name: str, attributes: Mapping[str, Lazy] | None = None, /, **more: Lazy
    ) -> None:
        """Notes that something happened now; as `set`, nothing when nobody listens."""
        if not _sinks or self.ended_ns is not None:
            return
        event = Event(name, now_ns(), _evaluated(attributes, more))
        for sink in _sinks:
            try:
                sink.event(self, event)
            except Exception as error:
                _let_go(sink, error)

    def end(self, error: BaseException | None = None) -> None:
        """Ends the span, well or with what stopped it; once, later calls change nothing."""
        if self.ended_ns is not None:
            return
        if error is not None:
            self.set(_described(error))
        self._end(status_of(error))

    def cancel(self) -> None:
        """Ends the span as cancelled, unless it has ended."""
        if self.ended_ns is None:
            self._end(SpanStatus.CANCELLED)

    def _end(self, status: SpanStatus) -> None:
        self.status = status
        self.ended_ns = now_ns()
        self.progress = None
        for sink in _sinks:
            try:
                sink.ended(self)
            except Exception as error:
                _let_go(sink, error)

    def __enter__(self) -> Self:
        self._outer = _current.get()
        _current.set(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # Elsewhere when left in another context than entered, as generators and fixtures can be:
        # that context's own current span is then none of ours to change.
        if _is_within(_current.get(), self):
            _current.set(self._outer)
        self._outer = None
        self.end(error)


def start_span(
    kind: SpanKind,
    name: str,
    attributes: Mapping[str, Lazy] | None = None,
    *,
    parent: Span | None = None,
    is_root: bool = False,
) -> Span:
    """A running span that is current nowhere; whoever asked for it calls `end`.

    For what does not begin and end in one block. `parent` is as for :func:`span`; with `is_root` it
    has none and begins a run.
    """
    made = Span(kind, name, None if is_root else parent or _current.get() or _adopter)
    if _sinks:
        if attributes:
            made.attributes.update(_evaluated(attributes, {}))
        for sink in _sinks:
            try:
                sink.started(made)
            except Exception as error:
                _let_go(sink, error)
    return made


def span(
    kind: SpanKind,
    name: str,
    attributes: Mapping[str, Lazy] | None = None,
    *,
    parent: Span | None = None,
) -> Span:
    """Runs a block inside a new span: `with span(SpanKind.STEP, "plan") as s: ...`.

    Its parent is the current span of this task unless another is given. An exception makes it
    ERROR, with its type and message; a cancellation, an interrupt or a closed generator makes it
    CANCELLED. Either goes on up.
    """
    return start_span(kind, name, attributes, parent=parent)


@contextmanager
def inside(outer: Span | None) -> Generator[None]:
    """Makes a span the current one for a block, and does not end it. Nothing for None.

    For what goes on with something that began elsewhere, as a branch of a program does.
    """
    if outer is None:
        yield
        return
    before = _current.get()
    _current.set(outer)
    try:
        yield
    finally:
        if _is_within(_current.get(), outer):  # else left in another context than entered
            _current.set(before)


def status_of(error: BaseException | None) -> SpanStatus:
    """How a block ended that was left with `error`.

    What is no Exception does not report a failure, it takes the block down from outside:
    asyncio.CancelledError, trio.Cancelled, KeyboardInterrupt, GeneratorExit.
    """
    if error is None:
        return SpanStatus.OK
    if isinstance(error, BaseExceptionGroup):
        failed = isinstance(error, Exception) or error.subgroup(Exception) is not None
        return SpanStatus.ERROR if failed else SpanStatus.CANCELLED
    return SpanStatus.ERROR if isinstance(error, Exception) else SpanStatus.CANCELLED


def new_run_id() -> str:
    """A fresh name for a run: its start in UTC, to 60 ns, so that names sort by age, and chance."""
    seconds, rest = divmod(now_ns(), 1_000_000_000)
    fraction = rest * 2**24 // 1_000_000_000
    began = time.strftime("%Y%m%d-%H%M%S", time.gmtime(seconds))
    return f"{began}-{fraction:06x}{secrets.token_hex(1)}"


def _is_within(inner: Span | None, outer: Span) -> bool:
    while inner is not None and inner is not outer:
        inner = inner.parent
    return inner is outer


def _described(error: BaseException) -> dict[str, Lazy]:
    kind = type(error)
    module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    return {ERROR_TYPE: f"{module}{kind.__qualname__}", EXCEPTION_MESSAGE: lambda: str(error)}


def _evaluated(attributes: Mapping[str, Lazy] | None, more: Mapping[str, Lazy]) -> dict[str, Value]:
    both = {**attributes, **more} if attributes else more
    return {key: _made(value) if callable(value) else value for key, value in both.items()}


def _made(value: Callable[[], Value]) -> Value:
    try:
        return value()
    except Exception as error:
        return f"[not recorded: making it raised {type(error).__name__}]"


def _let_go(sink: Sink, error: Exception) -> None:
    """Whatever watches a program must not be able to stop it."""
    remove_sink(sink)
    warn(f"a {type(sink).__name__} failed and records no more: {type(error).__name__}: {error}")
