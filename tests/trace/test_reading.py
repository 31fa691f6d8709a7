"""Pages, filters, search and sums over recorded runs."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from agentrt.errors import InvalidRequest
from agentrt.generation import Timings, Usage
from agentrt.trace import (
    RecordedRun,
    SpanKind,
    SpanStatus,
    current_recording,
    list_runs,
    open_run,
    span,
    start_span,
)
from agentrt.trace import attributes as names
from agentrt.trace.chunks import CHUNK
from agentrt.trace.engines import EngineStep
from tests.trace.recorded import generate, reading, recorded, text_of


def test_children_come_in_pages_that_join_without_gaps(tmp_path: Path) -> None:
    with recorded(tmp_path), span(SpanKind.PROGRAM, "main") as main:
        made = [start_span(SpanKind.STEP, f"s{i}") for i in range(25)]
        for s in reversed(made):
            s.end()
    with reading(tmp_path) as run:
        found, last = [], 0
        while page := run.children(main.id, after=last, limit=10):
            assert len(page) <= 10
            found += [s.id for s in page]
            last = page[-1].id
        assert found == [s.id for s in made]
        assert [s.id for s in run.children(main.id, offset=20, limit=3)] == found[20:23]
        assert run.children(made[0].id) == []


def test_spans_are_found_by_kind_status_and_name(tmp_path: Path) -> None:
    with recorded(tmp_path):
        start_span(SpanKind.STEP, "Plan it").end()
        start_span(SpanKind.TOOL, "plan_tool").end(ValueError("x"))
        start_span(SpanKind.TOOL, "search").end()
    with reading(tmp_path) as run:

        def found(**how: object) -> list[str]:
            return [s.name for s in run.spans(**how)]  # type: ignore[arg-type]

        assert found(kinds=[SpanKind.TOOL]) == ["plan_tool", "search"]
        assert found(statuses=[SpanStatus.ERROR]) == ["plan_tool"]
        assert found(name="PLAN") == ["Plan it", "plan_tool"]
        assert found(name="plan", kinds=[SpanKind.TOOL, SpanKind.RUN]) == ["plan_tool"]
        assert found(limit=2) == ["test", "Plan it"]
        assert len(found(limit=None)) == 4
        with pytest.raises(InvalidRequest, match="no span 99"):
            run.span(999_999_999)


def test_a_text_is_found_wherever_it_was_said(tmp_path: Path) -> None:
    with recorded(tmp_path):
        with span(SpanKind.PROGRAM, "needle program", {names.PROGRAM_ARGUMENTS: "A Needle?"}):
            start_span(SpanKind.STEP, "s", {"note": "in the needle"}).end()
            generate([1], [2], OUTPUT_TEXT="needle in no tokens")
        start_span(SpanKind.STEP, "other", {"note": "nothing"}).end()
    with reading(tmp_path) as run:
        hits = list(run.search("nEEdle"))
        assert [(run.span(hit.span_id).name, hit.field) for hit in hits] == [
            ("needle program", "name"),
            ("s", "attributes"),
            ("needle program", names.PROGRAM_ARGUMENTS),
            ("text_completion model", names.OUTPUT_TEXT),
        ]
        assert all(hit.excerpt[hit.start : hit.end].lower() == "needle" for hit in hits)
        assert list(run.search("haystack")) == []
        assert list(run.search("")) == []
        assert len(list(run.search("needle", limit=2))) == 2


def test_outputs_are_searched_as_text(tmp_path: Path) -> None:
    with recorded(tmp_path):
        made = [generate([1], [10 + i, 20 + i]) for i in range(5)]
    with reading(tmp_path) as run:
        (hit,) = run.search("T12 T2")
        assert (hit.span_id, hit.field, hit.excerpt) == (made[2].id, names.OUTPUT_TEXT, "t12 t22 ")


@pytest.mark.parametrize("at", [0, 1, CHUNK - 2, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK - 1])
def test_a_prompt_is_searched_across_the_chunks_it_is_stored_in(tmp_path: Path, at: int) -> None:
    prompt = [1] * (3 * CHUNK + 1)
    prompt[at : at + 2] = [8, 9]
    with recorded(tmp_path):
        made = generate(prompt, [2])
        generate([1] * (3 * CHUNK + 1), [2])
    with reading(tmp_path) as run:
        (hit,) = run.search(text_of([8, 9]))
        assert (hit.span_id, hit.field) == (made.id, names.PROMPT_TEXT)
        assert hit.excerpt[hit.start : hit.end] == text_of([8, 9])


def test_what_many_prompts_share_is_one_hit(tmp_path: Path) -> None:
    shared = list(range(100, 100 + 2 * CHUNK))
    with recorded(tmp_path):
        made = [generate([*shared, i], [1]) for i in range(10)]
    with reading(tmp_path) as run:
        (hit,) = run.search("t105 t106")
        assert (hit.span_id, hit.others) == (made[0].id, 9)
        (alone,) = run.search("t227 t7 ")
        assert (alone.span_id, alone.others) == (made[7].id, 0)


def test_two_runtimes_spell_the_same_ids_in_their_own_ways(tmp_path: Path) -> None:
    with recorded(tmp_path) as run:
        run.recorder.add_runtime("other", lambda i: f"o{i}.".encode(), {})
        first = generate([1, 2], [3])
        second = generate([1, 2], [3], RUNTIME_ID=2)
    with reading(tmp_path) as record:
        assert [r.model for r in record.runtimes()] == ["model", "other"]
        assert record.texts.prompt(first.id) == "t1 t2 "
        assert record.texts.prompt(second.id) == "o1.o2."
        assert [hit.span_id for hit in record.search("o1.o")] == [second.id]


def test_usage_is_summed_by_the_innermost_program(tmp_path: Path) -> None:
    with recorded(tmp_path):
        with span(SpanKind.PROGRAM, "outer"):
            generate([1] * 10, [2])
            for _ in range(2):
                with span(SpanKind.PROGRAM, "inner"), span(SpanKind.STEP, "step"):
                    generate([1] * 5, [2, 3])
        generate([1], [2])
        start_span(SpanKind.PROGRAM, "failed").end(ValueError("x"))
    with reading(tmp_path) as run:
        totals = {total.name: total for total in run.usage_by_program()}
        assert totals["inner"].calls == 2
        assert totals["inner"].usage == Usage(prompt_tokens=10, sampled_tokens=4)
        assert totals["inner"].timings == Timings(0.0, 0.5, 1.0)
        assert totals["outer"].usage == Usage(prompt_tokens=10, sampled_tokens=1)
        assert totals[""].generations == 1
        assert (totals["failed"].calls, totals["failed"].failed) == (1, 1)
        assert run.usage_by_program()[0].name == "inner"


def test_what_else_could_have_been_written_can_be_read(tmp_path: Path) -> None:
    with recorded(tmp_path):
        made = generate([1], [2, 3], TOKEN_TOP=[[(2, -0.1), (77, -3.0)], [(3, -0.1), (78, -4.0)]])
    with reading(tmp_path) as run:
        assert run.texts.spell(1, [77, 78]) == b"t77 t78 "
        assert [token.top[1][0] for token in run.texts.output_tokens(made.id)] == [77, 78]


def test_what_is_around_a_generation_is_said_of_it(tmp_path: Path) -> None:
    with recorded(tmp_path):
        with span(SpanKind.BRANCH, "outer") as outer, span(SpanKind.BRANCH, "inner") as inner:
            within = generate([1], [2])
            with span(SpanKind.VALIDATION, "repair T") as repair:
                repair.set({names.VALIDATION_ERRORS: "/a/0: must be: positive"})
                mended = generate([1], [3])
        apart = generate([1], [4])
        (runtime,) = current_recording().recorder._runtimes  # type: ignore[union-attr]
        began, ended = within.started_ns, within.ended_ns
        assert ended is not None
        for at, held, evicted in ((began - 1, 90, 100), (began, 10, 1), (ended, 20, 2)):
            runtime.steps.append(EngineStep(at, 0.0, 1, 1, 1, 0, 5, 5, held, evicted))
    with reading(tmp_path) as run:
        of = {s.id: run.attributes(s.id) for s in (outer, inner, within, mended, apart)}
    assert names.BRANCH_PARENT not in of[outer.id]
    assert of[inner.id][names.BRANCH_PARENT] == outer.id
    assert of[within.id][names.BRANCH_PARENT] == of[mended.id][names.BRANCH_PARENT] == inner.id
    assert names.BRANCH_PARENT not in of[apart.id]
    assert of[mended.id][names.CONSTRAINT_POINTER] == "/a/0"
    assert names.CONSTRAINT_POINTER not in of[within.id]
    assert (of[within.id][names.POOL_SLOTS_HELD], of[within.id][names.POOL_EVICTED_TOKENS]) == (
        20,
        3,
    )
    assert names.POOL_SLOTS_HELD not in of[apart.id]  # no step ended meanwhile


def _everything(run: RecordedRun) -> Iterator[Callable[[], object]]:
    """Every read there is of a record."""
    yield run.info
    yield run.runtimes
    yield run.root
    yield run.usage_by_program
    yield lambda: run.trees(1)
    yield lambda: list(run.steps(1))
    yield lambda: list(run.batches(1))
    yield lambda: list(run.search("t7"))
    yield lambda: run.children(None)
    yield lambda: run.spans(name="main", limit=None)
    for i in range(1, 400, 7):
        yield lambda i=i: run.attributes(i, large=True)
        yield lambda i=i: run.events(i)
        yield lambda i=i: run.ancestors(i)
        yield lambda i=i: run.generation(i)
        yield lambda i=i: run.texts.prompt_tokens(i)
        yield lambda i=i: run.texts.output_tokens(i)


@pytest.mark.parametrize("seed", range(12))
def test_a_damaged_record_is_told_so_by_every_read(seed: int, tmp_path: Path) -> None:
    with recorded(tmp_path):
        for i in range(120):
            with span(SpanKind.PROGRAM, f"main {i}", {"note": "x" * 3000}) as main:
                main.event("e", what="y" * 300)
                generate([*range(i, i + 90)], [7, 8], TOKEN_TOP=[[(1, -0.5)], []])
    (path,) = tmp_path.glob("*.sqlite")
    rng, whole = random.Random(seed), path.read_bytes()
    if seed == 0:  # where the rows of the table begin, there are none
        damaged = whole[: 50 << 10] + rng.randbytes(20 << 10)
    else:
        damaged = bytearray(whole)
        for _ in range(40 * seed):
            damaged[rng.randrange(4096, len(whole))] = rng.randrange(256)
    path.write_bytes(damaged)
    told = 0
    try:
        run = open_run(path)
    except InvalidRequest:
        return
    with run:
        for read in _everything(run):
            try:
                read()
            except InvalidRequest:
                told += 1
    assert told


def test_a_record_without_its_run_is_told_so(tmp_path: Path) -> None:
    with recorded(tmp_path), span(SpanKind.STEP, "s"):
        pass
    (path,) = tmp_path.glob("*.sqlite")
    with closing(sqlite3.connect(path)) as db:
        db.execute("DELETE FROM run")
        db.commit()
    with open_run(path) as run, pytest.raises(InvalidRequest, match="cannot be read as the record"):
        run.info()
    assert list(list_runs(tmp_path)) == []
