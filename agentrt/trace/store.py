"""Writes one run to its file."""

from __future__ import annotations

import importlib.metadata
import os
import socket
import sqlite3
import time
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING

import psutil

from agentrt.trace import tables
from agentrt.trace.encoding import pack
from agentrt.trace.engines import pack_steps, tree_json
from agentrt.trace.plain import as_json, escaped
from agentrt.trace.rows import RowWriter

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path
    from typing import Any

    from agentrt.trace.engines import RecordedRuntime, Tree
    from agentrt.trace.privacy import Privacy
    from agentrt.trace.rows import Row
    from agentrt.trace.spans import Event, Span

_UNSTORABLE = (OverflowError, UnicodeError, sqlite3.ProgrammingError, sqlite3.InterfaceError)
"""What is raised of a value, an integer of 65 bits for instance, and not of the file."""


class Store:
    """The file of one run, being written by any one thread at a time.

    Everything in it raises sqlite3.Error or OSError where the file cannot be written; what was
    written before stays as it is.
    """

    def __init__(self, path: Path, run: Span, privacy: Privacy) -> None:
        self.path = path
        self._run = run
        self._privacy = privacy
        self._writer = RowWriter(privacy)
        self._unstorable = 0
        self._db = tables.create(path)
        self._insert("run", {**_identity(run, privacy), **_process()})

    @property
    def size_bytes(self) -> int:
        """What the file takes, without what is still in its log."""
        (pages,) = self._db.execute("PRAGMA page_count").fetchone()
        (size,) = self._db.execute("PRAGMA page_size").fetchone()
        return pages * size

    def add_runtime(self, runtime: RecordedRuntime) -> None:
        """Makes known a runtime that generations will name."""
        self._writer.runtime(runtime)
        values = {
            "id": runtime.id,
            "model": escaped(self._privacy.text(runtime.model)),
            "attributes": as_json(self._privacy.attributes(runtime.attributes)),
        }
        self._insert("runtimes", values)

    def write(
        self,
        spans: Iterable[Span],
        events: Iterable[tuple[int, Event]] = (),
        runtimes: Iterable[RecordedRuntime] = (),
        *,
        content: bool = True,
        dropped: int = 0,
        without_content: int = 0,
    ) -> None:
        """Stores spans as they are now, and what happened since the last time, in one commit.

        Without `content` the large attributes of these spans are left out. `dropped` and
        `without_content` say what the record lacks by now; spans and events that cannot be stored,
        because of an attribute that is no value, are added to the former.
        """
        for span in spans:
            try:
                self._writer.span(span, content=content)
            except Exception:
                self._unstorable += 1
        for span_id, event in events:
            try:
                self._writer.event(span_id, event)
            except Exception:
                self._unstorable += 1
        self._db.execute("BEGIN IMMEDIATE")
        try:
            self._store_rows()
            for runtime in runtimes:
                self._store_engine(runtime)
            self._store_totals(dropped + self._unstorable, without_content)
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise

    def close(self) -> None:
        """Leaves a plain file behind, without the log beside it unless somebody reads it now.

        Spans that have not ended by now never will: they are stored as cancelled.
        """
        try:
            if self._run.ended_ns is not None:
                self._db.execute(
                    "UPDATE spans SET status = 'cancelled', ended_ns = ? WHERE ended_ns IS NULL",
                    (self._run.ended_ns,),
                )
            with suppress(sqlite3.OperationalError):
                self._db.execute("PRAGMA journal_mode = DELETE")
        finally:
            self._db.close()

    def _store_rows(self) -> None:
        rows, chunks = self._writer.take()
        for statement, values in (
            (f"INSERT OR REPLACE INTO spans VALUES ({_marks(8)})", rows.spans),
            ("INSERT INTO attributes VALUES (?, ?)", rows.attributes),
            (f"INSERT OR REPLACE INTO generations VALUES ({_marks(14)})", rows.generations),
            ("INSERT INTO chunks VALUES (?, ?, ?, ?)", chunks),
            ("INSERT OR REPLACE INTO pieces VALUES (?, ?, ?)", rows.pieces),
            ("INSERT OR REPLACE INTO contents VALUES (?, ?, ?)", rows.contents),
            ("INSERT INTO events (span, at_ns, name, attributes) VALUES (?, ?, ?, ?)", rows.events),
        ):
            if values:
                self._put(statement, values)

    def _put(self, statement: str, rows: Sequence[Row]) -> None:
        """Stores rows; where one holds what no column can, all but such."""
        self._db.execute("SAVEPOINT put")
        try:
            self._db.executemany(statement, rows)
        except _UNSTORABLE:
            self._db.execute("ROLLBACK TO put")
            for row in rows:
                try:
                    self._db.execute(statement, row)
                except _UNSTORABLE:
                    self._unstorable += 1
        self._db.execute("RELEASE put")

    def _store_engine(self, runtime: RecordedRuntime) -> None:
        steps = _drained(runtime.steps)
        if steps:
            began = steps[0].ended_ns - int(steps[0].seconds * 1e9)
            data = pack(pack_steps(steps))
            self._db.execute(
                "INSERT INTO steps (runtime, started_ns, ended_ns, count, data) "
                "VALUES (?, ?, ?, ?, ?)",
                (runtime.id, began, steps[-1].ended_ns, len(steps), data),
            )
        for tree in _drained(runtime.trees):
            self._db.execute(
                "INSERT INTO trees (runtime, at_ns, data) VALUES (?, ?, ?)",
                (runtime.id, tree.at_ns, pack(as_json(self._roots(tree)).encode())),
            )

    def _roots(self, tree: Tree) -> dict[str, Any]:
        # A redaction has to see whole texts, and a tree holds pieces of them: no tokens, then.
        content = self._privacy.content and not self._privacy.redacts
        return {
            name if content or not name else f"namespace {i}": tree_json(root, content=content)
            for i, (name, root) in enumerate(tree.roots.items())
        }

    def _store_totals(self, dropped: int, without_content: int) -> None:
        values = {
            **asdict(self._writer.totals),
            "status": self._run.status.value,
            "ended_ns": self._run.ended_ns,
            "dropped": dropped,
            "without_content": without_content,
        }
        assigned = ", ".join(f"{column} = :{column}" for column in values)
        self._db.execute(f"UPDATE run SET {assigned}", values)

    def _insert(self, table: str, values: dict[str, Any]) -> None:
        columns, marks = ", ".join(values), ", ".join(f":{column}" for column in values)
        self._db.execute(f"INSERT INTO {table} ({columns}) VALUES ({marks})", values)


def _identity(run: Span, privacy: Privacy) -> dict[str, Any]:
    return {
        "id": run.run_id,
        "name": escaped(privacy.text(run.name)),
        "status": run.status.value,
        "started_ns": run.started_ns,
        "content": privacy.content,
    }


def _process() -> dict[str, Any]:
    """Which process writes, so that others can tell whether it still does."""
    try:
        version = importlib.metadata.version("agentrt")
    except importlib.metadata.PackageNotFoundError:  # run from a checkout
        version = "unknown"
    try:
        started = psutil.Process().create_time()
    except psutil.Error:
        started = time.time()
    return {
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "process_started": started,
        "agentrt": version,
    }


def _marks(count: int) -> str:
    return ", ".join("?" * count)


def _drained(queue: Any) -> Sequence[Any]:
    out: list[Any] = []
    while queue:
        out.append(queue.popleft())
    return out
