"""The folder of runs: listing, opening, refusing what is none, dropping the oldest."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from agentrt.errors import InvalidRequest
from agentrt.trace import (
    SpanKind,
    TraceConfig,
    delete_run,
    latest_run,
    list_runs,
    open_run,
    recording,
    start_span,
)
from agentrt.trace.files import prune, run_files, size_of
from tests.trace.recorded import generate, recorded


def record_one(folder: Path, name: str = "test") -> str:
    with recording(TraceConfig(folder=folder), name=name) as run:
        assert run is not None
        start_span(SpanKind.STEP, "s").end()
    return run.run_id


def test_runs_are_listed_newest_first_and_opened_by_what_names_one(tmp_path: Path) -> None:
    ids = sorted((record_one(tmp_path, f"run {i}") for i in range(3)), reverse=True)
    (tmp_path / "notes.sqlite").write_text("not a run at all")
    (tmp_path / "other.txt").write_text("nor this")
    assert [info.id for info in list_runs(tmp_path)] == ids
    with open_run(ids[1], tmp_path) as run:
        assert run.info().id == ids[1]
    with open_run(ids[1][:-1], tmp_path) as run:  # six hex digits differ before the last
        assert run.info().id == ids[1]
    with open_run(tmp_path / f"{ids[2]}.sqlite") as run:
        assert run.info().id == ids[2]
    with open_run("latest", tmp_path) as run:
        assert run.info().id == ids[0]
    delete_run(ids[0], tmp_path)
    assert [info.id for info in list_runs(tmp_path)] == ids[1:]


@pytest.mark.parametrize(
    ("asked", "said"),
    [("nothing", "no run 'nothing'"), ("20", "give more"), ("x.sqlite", "no file")],
)
def test_a_run_that_is_not_there_is_named(tmp_path: Path, asked: str, said: str) -> None:
    record_one(tmp_path)
    record_one(tmp_path)
    with pytest.raises(InvalidRequest, match=said):
        open_run(asked, tmp_path)


def test_what_is_no_record_is_refused(tmp_path: Path) -> None:
    text, other, later = (tmp_path / f"{name}.sqlite" for name in ("text", "other", "later"))
    text.write_text("a text of more than sixteen bytes, and no database")
    sqlite3.connect(other).execute("CREATE TABLE t (x)")
    record_one(tmp_path / "runs")
    (run,) = (tmp_path / "runs").iterdir()
    run.rename(later)
    with sqlite3.connect(later) as db:
        db.execute("PRAGMA user_version = 99")
    for path, said in ((text, "cannot be read"), (other, "no record"), (later, "version 99")):
        with pytest.raises(InvalidRequest, match=said):
            open_run(path)
    with pytest.raises(InvalidRequest, match="no run is recorded"):
        latest_run(tmp_path / "empty")


def test_the_oldest_runs_are_dropped_whole_and_those_being_written_stay(tmp_path: Path) -> None:
    ids = [record_one(tmp_path) for _ in range(4)]
    for age, i in enumerate(ids):  # names say when a run began
        (tmp_path / f"{i}.sqlite").rename(tmp_path / f"2000010{age}-000000-abcdef.sqlite")
    stranger = tmp_path / "19990101-000000-abcdef.sqlite"
    sqlite3.connect(stranger).execute("CREATE TABLE t (x)")
    one = size_of(run_files(tmp_path)[0])
    with recorded(tmp_path) as writing:
        generate([1], [2])
        writing.flush()
        written = writing.path
        dropped = prune(tmp_path, 2 * one + size_of(written))
        assert [path.name[:8] for path in dropped] == ["20000100", "20000101"]
        assert prune(tmp_path, 0) == [
            tmp_path / f"{day}-000000-abcdef.sqlite" for day in ("20000102", "20000103")
        ]
        assert written.exists()
    assert stranger.exists()
