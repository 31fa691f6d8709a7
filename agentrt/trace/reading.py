"""Reads a recorded run, finished or still being written, page by page."""

from __future__ import annotations

import json
from itertools import islice
from typing import TYPE_CHECKING, Any, Self, cast

from agentrt.errors import InvalidRequest
from agentrt.generation import Timings, Usage
from agentrt.trace import attributes as names
from agentrt.trace.damage import reads, unreadable
from agentrt.trace.derived import USAGE, around, numbers, pressure, usage_of
from agentrt.trace.encoding import unpack
from agentrt.trace.engine_log import FOREVER_NS, STRETCH_NS, EngineLog
from agentrt.trace.engines import Tree, tree_node
from agentrt.trace.files import is_writing, size_of
from agentrt.trace.records import (
    GenerationRow,
    RunInfo,
    RunState,
    RuntimeInfo,
    SpanRow,
)
from agentrt.trace.rows import NUMBERS
from agentrt.trace.searching import find
from agentrt.trace.spans import Event, SpanKind, SpanStatus
from agentrt.trace.summing import usage_by_program
from agentrt.trace.tables import connect
from agentrt.trace.texts import RunTexts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path
    from types import TracebackType

    from agentrt.trace.engines import EngineBatches, EngineStep
    from agentrt.trace.records import Hit, ProgramUsage
    from agentrt.trace.spans import Value

PAGE = 200
_IN_BRANCHES = {SpanKind.GENERATION, SpanKind.SELECT, SpanKind.BRANCH}
_SPAN = (
    "SELECT id, parent, kind, name, started_ns, ended_ns, status, "
    "(SELECT count(*) FROM spans AS child WHERE child.parent = spans.id) FROM spans"
)


class RecordedRun:
    """The record of one run. Reads what is asked for when it is asked for, and always as it is
    now: of a run that is still written, every call sees more. To be closed, or used in a `with`.

    Raises InvalidRequest where the file cannot be read, and where a span is asked for that is not
    in it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.db = connect(path)
        self.texts = RunTexts(self.db)
        """Prompts and outputs, as text and token by token."""
        self.engines = EngineLog(self.db)
        self._version = 0

    def __repr__(self) -> str:
        return f"<RecordedRun {self.path}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self.db.close()

    @reads
    def info(self) -> RunInfo:
        """The run itself."""
        cursor = self.db.execute("SELECT * FROM run")
        columns = [column[0] for column in cursor.description]
        row = cursor.fetchone()
        if row is None:
            raise unreadable(self.path, "the row that says which run it is is gone")
        values: dict[str, Any] = dict(zip(columns, row, strict=True))
        state = RunState(values.pop("status"))
        process_started = values.pop("process_started")
        if state is RunState.RUNNING and not is_writing(
            values["host"], values["pid"], process_started
        ):
            state = RunState.INTERRUPTED
        usage = Usage(*[values.pop(NUMBERS[name]) for name in USAGE])
        content = bool(values.pop("content"))
        return RunInfo(
            **values,
            content=content,
            state=state,
            usage=usage,
            path=self.path,
            size_bytes=size_of(self.path),
        )

    def has_changed(self) -> bool:
        """Whether more was written since the last call, or since it was opened."""
        (version,) = self.db.execute("PRAGMA data_version").fetchone()
        changed = version != self._version
        self._version = version
        return changed

    @reads
    def runtimes(self) -> list[RuntimeInfo]:
        """The runtimes it used."""
        rows = self.db.execute("SELECT id, model, attributes FROM runtimes ORDER BY id")
        return [RuntimeInfo(i, model, json.loads(text)) for i, model, text in rows]

    # The tree

    @reads
    def root(self) -> SpanRow:
        """The span of the run itself."""
        return self._one(f"{_SPAN} WHERE parent IS NULL ORDER BY id LIMIT 1", (), "no span yet")

    @reads
    def span(self, span_id: int) -> SpanRow:
        return self._one(f"{_SPAN} WHERE id = ?", (span_id,), f"no span {span_id}")

    @reads
    def children(
        self, span_id: int | None, *, after: int = 0, limit: int = PAGE, offset: int = 0
    ) -> list[SpanRow]:
        """A page of the spans started directly inside one, in the order they began.

        The next page is that `after` the id of the last one, or one reached by `offset`. None
        stands for the spans without a parent.
        """
        rows = self.db.execute(
            f"{_SPAN} WHERE parent IS ? AND id > ? ORDER BY id LIMIT ? OFFSET ?",
            (span_id, after, limit, offset),
        )
        return [_span(row) for row in rows]

    @reads
    def ancestors(self, span_id: int) -> list[SpanRow]:
        """The spans that one is inside of, the outermost first."""
        path: list[SpanRow] = []
        above = self.span(span_id).parent_id
        while above is not None:
            path.append(self.span(above))
            above = path[-1].parent_id
        return path[::-1]

    @reads
    def spans(
        self,
        *,
        kinds: Iterable[SpanKind] = (),
        statuses: Iterable[SpanStatus] = (),
        name: str = "",
        after: int = 0,
        limit: int | None = PAGE,
    ) -> list[SpanRow]:
        """A page of all spans, in the order they began: of these kinds and statuses, if any are
        named, and with `name` in their names. `limit` None is all of them at once."""
        wanted, values = ["id > ?"], [cast("object", after)]
        for column, chosen in (("kind", [*kinds]), ("status", [*statuses])):
            if chosen:
                wanted.append(f"{column} IN ({', '.join('?' * len(chosen))})")
                values += [value.value for value in chosen]
        if name:
            wanted.append("instr(lower(name), lower(?))")
            values.append(name)
        rows = self.db.execute(
            f"{_SPAN} WHERE {' AND '.join(wanted)} ORDER BY id LIMIT ?",
            (*values, -1 if limit is None else limit),
        )
        return [_span(row) for row in rows]

    # One span

    @reads
    def attributes(self, span_id: int, *, large: bool = False) -> dict[str, Value]:
        """The attributes of a span; those in `agentrt.trace.attributes.LARGE` only on request."""
        row = self.db.execute(
            "SELECT json, kind, parent, started_ns, ended_ns FROM spans LEFT JOIN attributes "
            "ON attributes.id = spans.attributes WHERE spans.id = ?",
            (span_id,),
        ).fetchone()
        if row is None:
            raise InvalidRequest(f"{self.path.stem} has no span {span_id}")
        text, kind, parent, *times = row
        found: dict[str, Value] = json.loads(text) if text is not None else {}
        if kind in _IN_BRANCHES:
            found |= numbers(self.db, span_id)
            found |= around(self.db, self.texts, kind, parent)
            found |= pressure(self.engines, found.get(names.RUNTIME_ID), *times)
        return found | self.texts.large(span_id) if large else found

    @reads
    def events(self, span_id: int) -> list[Event]:
        """What happened in a span."""
        rows = self.db.execute(
            "SELECT name, at_ns, attributes FROM events WHERE span = ? ORDER BY id", (span_id,)
        )
        return [Event(name, at_ns, json.loads(text)) for name, at_ns, text in rows]

    @reads
    def generation(self, span_id: int) -> GenerationRow | None:
        """The numbers of a generation; None for a span that is none."""
        return self.generations([span_id]).get(span_id)

    @reads
    def generations(self, span_ids: Iterable[int]) -> dict[int, GenerationRow]:
        """The numbers of those of these spans that are generations: of one page, say."""
        wanted = json.dumps([*span_ids])
        rows = self.db.execute(
            f"SELECT span, {', '.join(NUMBERS.values())} FROM generations "
            "WHERE span IN (SELECT value FROM json_each(?))",
            (wanted,),
        )
        return {row[0]: _generation(*row) for row in rows}

    # All of it

    @reads
    def steps(
        self, runtime: int, *, from_ns: int = 0, until_ns: int = FOREVER_NS
    ) -> Iterator[EngineStep]:
        """What an engine did in a stretch of time, step by step."""
        yield from self.engines.steps(runtime, from_ns, until_ns)

    @reads
    def batches(self, runtime: int, *, stretch_ns: int = STRETCH_NS) -> Iterator[EngineBatches]:
        """What an engine did, summed up over stretches of 100 ms or another length."""
        yield from self.engines.batches(runtime, stretch_ns)

    @reads
    def trees(self, runtime: int) -> list[Tree]:
        """The radix cache at the moments it was looked at: the end of the run, at least."""
        rows = self.db.execute(
            "SELECT at_ns, data FROM trees WHERE runtime = ? ORDER BY id", (runtime,)
        )
        return [
            Tree(at_ns, {name: tree_node(root) for name, root in json.loads(unpack(data)).items()})
            for at_ns, data in rows
        ]

    @reads
    def search(self, text: str, *, limit: int = PAGE) -> Iterator[Hit]:
        """Where a text occurs: in names and attributes, outputs, prompts and other large texts, in
        this order. The case of ASCII letters does not matter."""
        yield from islice(find(self.db, self.texts, text), limit)

    @reads
    def usage_by_program(self) -> list[ProgramUsage]:
        """What each program's own generations added up to, the most expensive first."""
        return usage_by_program(self.db)

    def _one(self, query: str, values: Sequence[object], missing: str) -> SpanRow:
        row = self.db.execute(query, values).fetchone()
        if row is None:
            run = self.path.stem
            raise InvalidRequest(f"{run} has {missing}; `agentrt trace show {run}` shows its spans")
        return _span(row)


def _span(row: Sequence[Any]) -> SpanRow:
    i, parent, kind, name, started, ended, status, children = row
    return SpanRow(i, parent, SpanKind(kind), name, started, ended, SpanStatus(status), children)


def _generation(span_id: int, runtime: int | None, *rest: Any) -> GenerationRow:
    prompt, cached, sampled, forced, queue, prefill, decode, asked, seed = rest
    return GenerationRow(
        span_id=span_id,
        runtime_id=runtime,
        usage=usage_of(prompt, cached, sampled, forced),
        timings=None if decode is None else Timings(queue, prefill, decode),
        request_seed=asked,
        response_seed=seed,
    )
