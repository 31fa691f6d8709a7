"""Spans nest by task, end with what ended them, and are told to every sink that works."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable, Iterator

import anyio
import anyio.lowlevel
import pytest

from agentrt.trace.spans import (
    Span,
    SpanKind,
    SpanStatus,
    add_sink,
    adopt_orphans,
    current_span,
    is_recording,
    new_run_id,
    now_ns,
    remove_sink,
    span,
    start_span,
    status_of,
)
from tests.trace.sinks import Remembering, listening

STEP = SpanKind.STEP
BOTH = pytest.mark.parametrize("backend", ["asyncio", "trio"])


def test_a_span_is_current_inside_its_block_and_the_parent_of_what_starts_there() -> None:
    with span(STEP, "outer") as outer:
        assert current_span() is outer
        with span(STEP, "inner") as inner:
            assert current_span() is inner
            assert inner.parent_id == outer.id
        assert current_span() is outer
        assert inner.run_id == outer.run_id
    assert current_span() is None
    assert outer.parent_id is None


def test_a_given_parent_goes_before_the_current_span() -> None:
    with span(STEP, "a") as a, span(STEP, "b") as b, span(STEP, "c", parent=a) as c:
        assert c.parent_id == a.id
        assert current_span() is c
        with span(STEP, "d") as d:
            assert d.parent is c
    assert b.parent is a
    assert current_span() is None


def test_a_started_span_is_nobodys_parent_and_ends_when_told() -> None:
    with span(STEP, "outer") as outer:
        loose = start_span(STEP, "loose")
        assert current_span() is outer
    assert loose.parent is outer
    assert loose.status is SpanStatus.RUNNING
    loose.end()
    assert loose.status is SpanStatus.OK
    loose.end(ValueError("late"))
    assert loose.status is SpanStatus.OK


def test_roots_are_runs_of_their_own_unless_they_are_adopted() -> None:
    with span(STEP, "a") as a, listening():
        pass
    with span(STEP, "b") as b:
        pass
    assert a.run_id != b.run_id
    adopt_orphans(a)
    try:
        assert start_span(STEP, "c").parent is a
    finally:
        adopt_orphans(None)


def test_a_run_is_called_the_same_by_all_that_ask_for_its_name_at_once() -> None:
    root = start_span(STEP, "root")
    children = [start_span(STEP, "child", parent=root) for _ in range(8)]
    names: list[str] = []
    threads = [threading.Thread(target=lambda c=c: names.append(c.run_id)) for c in children]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(names) == {root.run_id}


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (None, SpanStatus.OK),
        (ValueError("x"), SpanStatus.ERROR),
        (asyncio.CancelledError(), SpanStatus.CANCELLED),
        (KeyboardInterrupt(), SpanStatus.CANCELLED),
        (GeneratorExit(), SpanStatus.CANCELLED),
        (ExceptionGroup("g", [ValueError()]), SpanStatus.ERROR),
        (BaseExceptionGroup("g", [ValueError(), KeyboardInterrupt()]), SpanStatus.ERROR),
        (BaseExceptionGroup("g", [asyncio.CancelledError()]), SpanStatus.CANCELLED),
    ],
)
def test_what_ended_a_span_is_its_status(error: BaseException | None, status: SpanStatus) -> None:
    assert status_of(error) is status


def test_an_error_is_described_and_goes_on() -> None:
    with listening() as sink, pytest.raises(ZeroDivisionError), span(STEP, "s") as s:
        _ = 1 // 0
    assert s.status is SpanStatus.ERROR
    assert s.attributes["error.type"] == "ZeroDivisionError"
    assert "zero" in str(s.attributes["exception.message"])
    assert sink.told[-1] == ("ended", "s", SpanStatus.ERROR)
    assert current_span() is None


@BOTH
def test_a_cancelled_span_says_so(backend: str) -> None:
    async def main() -> Span:
        with anyio.CancelScope() as scope, span(STEP, "s") as s:
            scope.cancel()
            await anyio.lowlevel.checkpoint()
        return s

    s = anyio.run(main, backend=backend)
    assert s.status is SpanStatus.CANCELLED


@BOTH
def test_tasks_started_in_a_span_are_inside_it_and_do_not_see_each_other(backend: str) -> None:
    seen: list[tuple[str, int | None]] = []

    async def work(name: str) -> None:
        with span(STEP, name) as outer:
            await anyio.lowlevel.checkpoint()
            with span(STEP, f"{name}.inner") as inner:
                await anyio.lowlevel.checkpoint()
                assert inner.parent is outer
        seen.append((name, outer.parent_id))

    async def main() -> int:
        with span(STEP, "root") as root:
            async with anyio.create_task_group() as group:
                for name in ("a", "b", "c"):
                    group.start_soon(work, name)
        return root.id

    root = anyio.run(main, backend=backend)
    assert sorted(seen) == [("a", root), ("b", root), ("c", root)]


def test_left_in_another_context_it_leaves_that_ones_span_alone() -> None:
    s = span(STEP, "fixture")
    contextvars.copy_context().run(s.__enter__)
    with span(STEP, "test") as test:
        s.__exit__(None, None, None)
        assert current_span() is test
    assert s.status is SpanStatus.OK


def test_left_behind_an_unfinished_generator_it_still_gives_the_place_back() -> None:
    def generate() -> Iterator[int]:
        with span(STEP, "inner"):
            yield 1
            yield 2

    with span(STEP, "outer"):
        numbers = generate()
        next(numbers)
    assert current_span() is None
    numbers.close()
    assert current_span() is None


def test_sinks_are_told_everything_in_order() -> None:
    with listening() as sink:
        with span(STEP, "s", {"a.b": 1}) as s:
            s.set({"c.d": "x"}, e=[1, 2])
            s.event("hit", {"f.g": 2}, h=None)
        s.set(late=True)
        s.event("late")
    assert sink.told == [
        ("started", "s", {"a.b": 1}),
        ("changed", "s", {"c.d": "x", "e": [1, 2]}),
        ("event", "s", ("hit", {"f.g": 2, "h": None})),
        ("ended", "s", SpanStatus.OK),
    ]
    assert s.attributes == {"a.b": 1, "c.d": "x", "e": [1, 2]}


def test_what_is_lazy_is_made_once_if_somebody_records_and_never_otherwise() -> None:
    made: list[str] = []

    def text() -> str:
        made.append("text")
        return "text"

    with span(STEP, "s", {"a": text}) as s:
        s.set(b=text)
        s.event("e", c=text)
        assert not s.is_recorded
    assert (made, s.attributes) == ([], {})
    with listening(), listening(), span(STEP, "s", {"a": text}) as s:
        assert s.is_recorded
    assert made == ["text"]
    assert s.attributes == {"a": "text"}


def test_a_sink_that_fails_is_let_go_and_the_others_are_told() -> None:
    class Broken(Remembering):
        def started(self, span: Span) -> None:
            raise OSError("disk full")

    broken = Broken()
    add_sink(broken)
    with listening() as sink:
        with pytest.warns(UserWarning, match="disk full"), span(STEP, "s"):
            pass
        with span(STEP, "t"):
            pass
    assert not is_recording()
    assert [what for what, _, _ in sink.told] == ["started", "ended"] * 2
    assert broken.told == []


def test_a_sink_is_added_once_and_removed_by_itself_only() -> None:
    sink, other = Remembering(), Remembering()
    add_sink(sink)
    add_sink(sink)
    remove_sink(other)
    with span(STEP, "s"):
        pass
    remove_sink(sink)
    with span(STEP, "t"):
        pass
    assert [name for _, name, _ in sink.told] == ["s", "s"]


def test_times_never_go_back() -> None:
    times = [now_ns() for _ in range(100)]
    assert times == sorted(times)
    with span(STEP, "s") as s:
        pass
    assert s.ended_ns is not None
    assert times[-1] <= s.started_ns <= s.ended_ns <= now_ns()


@pytest.mark.parametrize("make", [span, start_span])
def test_ids_are_never_given_twice(make: Callable[..., Span]) -> None:
    ids = {make(STEP, "s").id for _ in range(50)}
    assert len(ids) == 50


def test_names_of_runs_sort_by_age_within_a_second_too() -> None:
    names = [new_run_id() for _ in range(200)]
    assert names == sorted(names)
    assert len(set(names)) == 200
