"""`agentrt trace replay` and `branch`, as they are typed."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from agentrt.cli import main
from agentrt.trace import TraceConfig, list_runs, recording
from tests.commands.conftest import Serve

WORK = """
from agentrt import State, program

@program
async def ask(s: State, question: str, times: int = 1) -> str:
    for _ in range(times):
        s.user(f"GREETING {question}")
        await s.gen(max_tokens=20)
    return "done"
"""


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, serve: Serve) -> Path:
    """A file with a program that was run, and recorded, from the command line."""
    monkeypatch.setenv("AGENTRT_TRACE", str(tmp_path / "runs"))
    file = tmp_path / "asking.py"
    file.write_text(WORK.replace("GREETING", "Please:"))
    serve(lambda prompt: f"heard {len(prompt)}")
    words = ["run", str(file), "Why?", "--times", "2"]
    monkeypatch.setattr(sys, "argv", ["agentrt", *words])
    assert main(words) == 0
    return file


def test_replay_runs_what_was_run(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert work.is_file()
    assert main(["trace", "replay", "latest"]) == 0
    assert capsys.readouterr().out == "OK: 2 generations and 0 tool calls were as recorded\n"


def test_runs_are_named_by_what_they_run(
    work: Path, serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve('{"name": "Bo"}')
    (tmp_path / "text.txt").write_text("Bo was here.")
    (tmp_path / "people.json").write_text(
        '{"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}'
    )
    words = ["extract", str(tmp_path / "text.txt"), "--type", str(tmp_path / "people.json")]
    assert main([*words, "--quiet"]) == 0
    assert [info.name for info in list_runs(tmp_path / "runs")] == ["extract people", work.stem]


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["/somewhere/triage.py", "x"], "triage"),
        (["/bin/agentrt", "--debug", "chat", "--model", "m"], "chat"),
        (["/lib/agentrt/__main__.py", "chat"], "chat"),
        (["/lib/pytest/__main__.py", "tests"], "pytest"),
        (["-c"], "python"),
        ([""], "python"),
        ([], "python"),
    ],
)
def test_a_run_without_a_name_is_called_by_its_script(
    command: list[str], name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", command)
    with recording(TraceConfig(folder=tmp_path)) as run:
        assert run is not None
        assert run.span.name == name


def test_replay_names_the_first_drift(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    work.write_text(WORK.replace("GREETING", "Please!"))
    capsys.readouterr()
    assert main(["trace", "replay", "latest"]) == 1
    told = capsys.readouterr().out
    assert "drift: a prompt is not in the record" in told
    assert "is '!' where ':' was recorded" in told


def test_replay_of_a_named_program_that_stops_early(
    work: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert main(["trace", "replay", "--json", "latest", f"{work}:ask", "Why?"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["ok"], found["answered"], found["unasked"]) == (False, 1, 1)
    assert "1 recorded generation was not asked for" in found["drift"]


def test_branch_shows_both(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert work.is_file()
    capsys.readouterr()
    main(["trace", "show", "--json"])
    spans = json.loads(capsys.readouterr().out)["spans"]
    (span, *_) = [each["id"] for each in spans if each["kind"] == "generation"]
    change = ["--prompt-replace", "Why?", "How long?"]
    assert main(["trace", "branch", "latest", str(span), *change, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["branch"]["prompt"] == found["recorded"]["prompt"].replace("Why?", "How long?")
    assert (found["recorded"]["output"], found["branch"]["output"]) == ("heard 30", "heard 35")
    assert main(["trace", "branch", "latest", str(span), *change]) == 0
    told = capsys.readouterr().out
    assert "heard 30" in told
    assert "heard 35" in told
    assert main(["trace", "branch", "latest", "999999"]) == 2


def test_replay_samples_as_the_run_was_told_to(
    work: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An option of `agentrt run` goes before the program's own default, here as there."""
    bare = WORK.replace("max_tokens=20", "")
    limited = bare.replace("@program", "@program(max_tokens=9)")
    work.write_text(limited)
    words = ["run", str(work), "Why?", "--max-tokens", "4"]
    monkeypatch.setattr(sys, "argv", ["agentrt", *words])
    assert main(words) == 0
    capsys.readouterr()
    assert main(["trace", "replay", "latest"]) == 0
    assert capsys.readouterr().out == "OK: 1 generations and 0 tool calls were as recorded\n"
