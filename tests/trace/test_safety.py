"""A record changes nothing: what goes wrong with it never reaches the program."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import warnings
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from agentrt.runtime.runtime import Runtime
from agentrt.testing import ScriptedModel
from agentrt.trace import SpanKind, TraceConfig, config, current_recording, recording, span
from agentrt.trace import attributes as names
from agentrt.trace.store import Store
from agentrt.trace.warning import warn
from tests.trace.recorded import everything_in, generate, reading, recorded
from tests.trace.sinks import listening

STEP = SpanKind.STEP
LONE = "half \ud83d of an emoji"


class Broken:
    def __repr__(self) -> str:
        raise ValueError("no repr today")

    __str__ = __repr__


def test_what_cannot_be_described_is_said_so_in_its_place() -> None:
    with listening() as sink, span(STEP, "s", {"a": lambda: repr(Broken())}) as current:
        current.set(b=lambda: str(Broken()), c=1)
        current.event("e", d=lambda: repr(Broken()))
    said = "[not recorded: making it raised ValueError]"
    assert current.attributes == {"a": said, "b": said, "c": 1}
    assert ("event", "s", ("e", {"d": said})) in sink.told


def test_an_exception_without_words_goes_up_as_it_is() -> None:
    class Wordless(Exception):
        __str__ = Broken.__repr__

    with listening(), pytest.raises(Wordless), span(STEP, "s") as current:
        raise Wordless
    assert str(current.attributes[names.ERROR_TYPE]).endswith("Wordless")
    assert "not recorded" in str(current.attributes[names.EXCEPTION_MESSAGE])


@pytest.mark.parametrize("given", ["~nosuchuser/x", "limit"])
@pytest.mark.anyio
async def test_an_environment_that_makes_no_sense_is_warned_of(
    given: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "_configured", None)
    monkeypatch.setenv("AGENTRT_TRACE", "on" if given == "limit" else given)
    if given == "limit":
        monkeypatch.setenv("AGENTRT_TRACE_LIMIT", "plenty")
    runtime = Runtime(ScriptedModel.replying("ok"))
    with pytest.warns(UserWarning, match="this run is not recorded"):
        await runtime.__aenter__()
    async with AsyncExitStack() as stack:
        stack.push_async_exit(runtime)
        assert current_recording() is None
        assert (await runtime.generate("Say ok")).text == "ok"


def test_a_folder_that_is_gone_is_warned_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.warns(UserWarning, match="is gone"), recording(TraceConfig(folder=Path("x"))) as r:
        assert r is None


def test_a_program_may_change_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with recorded(Path("runs")):
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
        generate([1], [2])
    with reading(tmp_path / "runs") as run:
        assert run.info().generations == 1


def test_half_a_character_is_stored_escaped_and_read_as_it_was(tmp_path: Path) -> None:
    with recorded(tmp_path), span(STEP, LONE, {"a": LONE, names.PROGRAM_RESULT: LONE}) as current:
        current.event(LONE, b=LONE)
        generate([1], [2], OUTPUT_TEXT=LONE)
    with reading(tmp_path) as run:
        (step,) = run.spans(kinds=[STEP])
        assert step.name == LONE.replace("\ud83d", "\\ud83d")
        found = run.attributes(step.id, large=True)
        assert (found["a"], found[names.PROGRAM_RESULT]) == (LONE, LONE)
        (event,) = run.events(step.id)
        assert event.attributes == {"b": LONE}
        (generation,) = run.spans(kinds=[SpanKind.GENERATION])
        assert run.texts.output(generation.id) == LONE
        assert run.info().dropped == 0


def test_what_no_column_can_hold_costs_only_itself(tmp_path: Path) -> None:
    with recorded(tmp_path):
        generate([1], [2], REQUEST_SEED=2**70)
        with span(STEP, "before"):
            generate([3], [4])
    with reading(tmp_path) as run:
        assert [s.name for s in run.spans(kinds=[STEP])] == ["before"]
        assert [run.texts.prompt_ids(s.id) for s in run.spans(kinds=[SpanKind.GENERATION])] == [
            None,
            [3],
        ]
        assert run.info().dropped == 1


def test_where_warnings_are_errors_they_are_said_and_nothing_ends(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    occupied = tmp_path / "file"
    occupied.write_text("no folder")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn("as it is")
        with recorded(occupied) as run:
            generate([1], [2])
            run.flush()
            run.flush()
    told = capsys.readouterr().err.splitlines()
    assert told[0] == "agentrt: as it is"
    (said,) = told[1:]
    assert "recorded no further" in said


@pytest.mark.parametrize("said", ["disk is full", "database is locked"])
def test_a_file_that_takes_no_more_ends_the_record_alone(
    said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: Any) -> None:
        raise sqlite3.OperationalError(said)

    with recorded(tmp_path) as run:
        first = generate([1], [2])
        run.flush()
        monkeypatch.setattr(Store, "_store_rows", failing)
        generate([3], [4])
        with pytest.warns(UserWarning, match=said) as warned:
            run.flush()
        generate([5], [6])
        run.flush()
    assert len(warned) == 1
    with reading(tmp_path) as kept:
        assert [s.id for s in kept.spans(kinds=[SpanKind.GENERATION])] == [first.id]


def test_a_locked_file_costs_a_wait_and_one_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentrt.trace.tables.LOCKED_S", 0.0)
    with recorded(tmp_path) as run:
        generate([1], [2])
        run.flush()
        other = sqlite3.connect(run.path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        generate([3], [4])
        with pytest.warns(UserWarning, match="locked"):
            run.flush()
        other.execute("ROLLBACK")
        other.close()


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_may_not_be_written(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with recorded(tmp_path / "runs") as run:
        generate([1], [2])
        with pytest.warns(UserWarning, match="Permission denied"):
            run.flush()


_KILLED = """
import os, signal, sys
from pathlib import Path
from agentrt.trace import TraceConfig
from tests.trace.recorded import generate, recorded

with recorded(Path(sys.argv[1])) as run:
    for i in range(50):
        generate([i, i + 1], [7])
    run.flush()
    generate([99], [98])
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no signals")
def test_a_run_that_was_killed_is_whole_up_to_its_last_commit(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", _KILLED, str(tmp_path)],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
        check=False,
    )
    assert done.returncode == -9
    with reading(tmp_path) as run:
        assert run.info().state == "interrupted"
        generations = run.spans(kinds=[SpanKind.GENERATION])
        assert len(generations) == 50
        assert run.texts.output(generations[-1].id) == "t7 "
        assert run.db.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_nothing_of_it_is_content(tmp_path: Path) -> None:
    """What stands for a value that could not be made does not quote the value."""
    with recorded(tmp_path), span(STEP, "s", {"a": lambda: json.loads("secret")}):
        pass
    assert b"secret" not in everything_in(tmp_path)
