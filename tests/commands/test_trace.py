"""`agentrt trace replay` and `branch`, as they are typed."""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import suppress
from pathlib import Path
from typing import cast

import pytest

from agentrt.cli import main
from agentrt.commands import trace
from agentrt.trace import SpanKind, TraceConfig, list_runs, recording, span
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


def test_every_option_says_what_it_is() -> None:
    top = argparse.ArgumentParser()
    trace.add_to(top)
    (inner,) = [each for each in top._actions if isinstance(each.choices, dict)]
    parsers = [top, *cast("dict[str, argparse.ArgumentParser]", inner.choices).values()]
    assert len(parsers) == 8
    silent = [each.dest for parser in parsers for each in parser._actions if not each.help]
    assert silent == [inner.dest]


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


OWN = """
import asyncio, sys
from agentrt import Runtime, State

async def ask(question):
    async with Runtime("some-model", kv_tokens=512):
        s = State()
        s.user(f"GREETING {question}")
        print(await s.gen(max_tokens=20))

async def main():
    for word in sys.argv[1:]:
        await ask(word)

async def other():
    await ask("other")
"""
GUARD = "\nif __name__ == '__main__':\n    asyncio.run(main())\n    sys.exit(3)\n"
AT_ONCE = "\nasyncio.run(main())\n"


def _run(
    work: Path, source: str, *words: str, monkeypatch: pytest.MonkeyPatch, serve: Serve
) -> list[str]:
    """A file that opens its own runtimes, run and recorded; what is typed to run it."""
    monkeypatch.setenv("AGENTRT_TRACE", str(work / "runs"))
    file = work / "alone.py"
    file.write_text(source.replace("GREETING", "Please:"))
    serve(lambda prompt: f"heard {len(prompt)}")
    typed = ["run", f"{file}{words[0]}", *words[1:]]
    monkeypatch.setattr(sys, "argv", ["agentrt", *typed])
    with suppress(SystemExit):
        assert main(typed) == 0
    return typed


@pytest.mark.parametrize(
    ("source", "words", "count"),
    [
        (OWN, ("", "Why?"), 1),
        (OWN, (":other",), 1),
        (OWN + GUARD, ("", "Why?"), 1),
        (OWN + AT_ONCE, ("", "Why?"), 1),
    ],
)
def test_a_file_that_opens_its_own_runtime_is_replayed(
    source: str,
    words: tuple[str, ...],
    count: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    serve: Serve,
    capsys: pytest.CaptureFixture[str],
) -> None:
    _run(tmp_path, source, *words, monkeypatch=monkeypatch, serve=serve)
    assert [info.name for info in list_runs(tmp_path / "runs")] == ["alone"]
    said = capsys.readouterr().out
    serve("a model was asked")
    monkeypatch.setattr(sys, "argv", ["agentrt", "trace", "replay", "latest"])
    assert main(["trace", "replay", "latest"]) == 0
    verdict = f"OK: {count} generations and 0 tool calls were as recorded\n"
    assert capsys.readouterr().out == said + verdict
    file = tmp_path / "alone.py"
    file.write_text(source.replace("GREETING", "Please!"))
    assert main(["trace", "replay", "latest"]) == 1
    assert "is '!' where ':' was recorded" in capsys.readouterr().out
    assert len(list(list_runs(tmp_path / "runs"))) == 1  # a replay is no run


def test_several_runtimes_are_answered_from_one_record(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    serve: Serve,
) -> None:
    both = OWN.replace("for word", "async with Runtime():\n      for word")
    _run(tmp_path, both, "", "Why?", "How?", monkeypatch=monkeypatch, serve=serve)
    capsys.readouterr()
    file = str(tmp_path / "alone.py")
    assert main(["trace", "replay", "--json", "latest", file, "Why?", "How?"]) == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out)["answered"] == 2
    assert shown.err.count("heard") == 2  # what the program prints is beside the document
    assert main(["trace", "replay", "latest", file, "How?"]) == 1
    assert "1 recorded generation was not asked for" in capsys.readouterr().out


def test_work_that_a_file_does_when_it_is_loaded_is_called_as_the_file(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    serve: Serve,
    capsys: pytest.CaptureFixture[str],
) -> None:
    _run(tmp_path, OWN + AT_ONCE, "", "Why?", monkeypatch=monkeypatch, serve=serve)
    assert [info.name for info in list_runs(tmp_path / "runs")] == ["alone"]


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["/bin/agentrt", "chat"], "started by `/bin/agentrt chat`, which is neither"),
        (["-c"], "started by `-c`, which is neither"),
        (["/lib/pytest/__main__.py"], "which is neither"),
        (["nowhere.py", "x"], "no such file is here"),
    ],
)
def test_what_cannot_be_run_again_is_said(
    command: list[str],
    said: str,
    work: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", command)
    with recording(), span(SpanKind.STEP, "work"):
        pass
    capsys.readouterr()
    assert main(["trace", "replay", "latest"]) == 2
    assert said in capsys.readouterr().err
