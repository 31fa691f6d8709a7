"""Mistakes on the command line: what was given, what there is, and nothing is begun."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from agentrt.cli import main
from agentrt.errors import StorageError
from agentrt.trace import SpanKind, list_runs, recording, span

if TYPE_CHECKING:
    from pathlib import Path

    from tests.commands.conftest import Serve

KINDS = """
from pydantic import BaseModel

class Line(BaseModel):
    item: str

class Bare:
    pass
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, serve: Serve) -> Path:
    """A folder with types and texts, on a model that fails whoever begins."""

    def begun(prompt: str) -> str:
        raise AssertionError(f"begun: {prompt}")

    serve(begun)
    (tmp_path / "kinds.py").write_text(KINDS)
    (tmp_path / "a.txt").write_text("a text")
    (tmp_path / "a.dat").write_bytes(b"\x81\xff")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (["--type", "kinds.py:Lines", "a.txt"], "has no 'Lines'; its classes: Line, Bare"),
        (["--type", "kinds.py:Bare", "a.txt"], "make it a BaseModel, a dataclass"),
        (["--type", "kinds.json", "a.txt"], "there is no file kinds.json; give module:Class"),
        (["--type", '{"type": "objct"}', "a.txt"], "at /type: unknown type 'objct'"),
        (["--type", "int", "-o", ".", "a.txt"], "InvalidRequest: . is a folder; name the file"),
        (["--type", "int", "a.txt", "a.dat"], "InvalidRequest: a.dat is no UTF-8 text"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_what_cannot_be_extracted_is_refused_before_anything_is_begun(
    line: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["extract", *line]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert said in shown.err
    assert shown.err.count("\n") == 1
    assert "arbitrary_types_allowed" not in shown.err


def test_a_file_without_programs_says_how_to_make_one(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", str(folder / "kinds.py")]) == 2
    said = capsys.readouterr().err
    assert "no single program; make an `async def f(s: State, ...)` of it one with @program" in said


def test_models_alone_lists_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models"]) == 0
    shown = capsys.readouterr().out
    assert main(["models", "list"]) == 0
    assert capsys.readouterr().out == shown


def test_mistakes_about_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AGENTRT_TRACE", str(tmp_path))
    with recording(), span(SpanKind.STEP, "work"):
        pass
    [run] = list_runs(tmp_path)
    traces = ["trace", "--folder", str(tmp_path)]
    with pytest.raises(SystemExit):
        main([*traces, "list", "--limit", "0"])
    assert "argument --limit: " in capsys.readouterr().err
    assert main([*traces, "show", "--search", "zebra"]) == 1
    assert capsys.readouterr().err == f"'zebra' is not in {run.path.stem}\n"
    assert main([*traces, "show", "--span", "99"]) == 2
    said = capsys.readouterr().err
    assert f"{run.path.stem} has no span 99; `agentrt trace show {run.path.stem}` shows" in said
    assert main([*traces, "show", "--span", "1", "--view", "usage"]) == 2
    assert "--span is of --view tokens" in capsys.readouterr().err
    assert main([*traces, "export", "--to", "jsonl", "-o", str(tmp_path)]) == 2
    assert capsys.readouterr().err.endswith(f"{tmp_path} cannot be written: Is a directory\n")


def test_an_error_of_storage_is_its_sentence_alone() -> None:
    assert str(StorageError(2, "it cannot be written; do this", "/a/path")) == (
        "it cannot be written; do this"
    )
    assert str(StorageError("it cannot be written")) == "it cannot be written"
