"""`agentrt trace`, as it is typed."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentrt.errors import InvalidRequest
from agentrt.trace import commands, list_runs, open_run
from tests.trace.viewer.recorded import record


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("AGENTRT_TRACE", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    record(tmp_path).close()
    record(tmp_path, answer="Lyon", name="other.py").close()
    return tmp_path


def named(folder: Path, name: str) -> str:
    """The id of a run."""
    (found,) = [info.id for info in list_runs(folder) if info.name == name]
    return found


def trace(*arguments: str) -> int:
    parser = argparse.ArgumentParser(prog="agentrt")
    commands.add_to(parser.add_subparsers().add_parser("trace"))
    asked = parser.parse_args(["trace", *arguments])
    return asked.run(asked)


def test_the_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert trace() == 0
    text = capsys.readouterr().out
    assert "other.py" in text
    assert "triage.py" in text
    head, *rows = [line.split("\t") for line in text.splitlines()]
    assert {len(row) for row in (head, *rows)} == {10}
    assert {row[0] for row in rows} == {info.id for info in list_runs()}
    trace("list", "--json")
    runs = json.loads(capsys.readouterr().out)
    assert {run["name"] for run in runs} == {"other.py", "triage.py"}
    trace("list", "--json", "--limit", "1")
    assert len(json.loads(capsys.readouterr().out)) == 1


@pytest.mark.parametrize(("text", "names"), [("lyon", ["other.py"]), ("zzz", [])])
def test_the_list_searched(text: str, names: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    trace("list", "--search", text, "--json")
    assert [run["name"] for run in json.loads(capsys.readouterr().out)] == names


@pytest.mark.parametrize(
    ("view", "fact"),
    [
        ("tree", "✗ check  ValueError"),
        ("waterfall", "prefill"),
        ("tokens", '{"city": "Lyon"}'),
        ("usage", "solve"),
        ("radix", "46 tokens cached"),
    ],
)
def test_views(folder: Path, view: str, fact: str, capsys: pytest.CaptureFixture[str]) -> None:
    run = named(folder, "other.py")
    assert trace("show", run, "--view", view) == 0
    text = capsys.readouterr().out
    assert fact in text
    assert "\x1b" not in text
    assert trace("show", run, "--view", view, "--json") == 0
    assert json.loads(capsys.readouterr().out)


def test_without_a_terminal_the_tree_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert trace("show") == 0
    assert "✓ solve" in capsys.readouterr().out


def test_tokens_of_one_generation(capsys: pytest.CaptureFixture[str]) -> None:
    trace("show", "--view", "tokens", "--json")
    every = json.loads(capsys.readouterr().out)
    chosen = list(every)[1]
    trace("show", "--view", "tokens", "--span", chosen, "--json")
    assert json.loads(capsys.readouterr().out) == {chosen: every[chosen]}


def test_searching_a_run(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = named(folder, "other.py")
    assert trace("show", run, "--search", "lyon") == 0
    assert "Lyon" in capsys.readouterr().out
    assert trace("show", run, "--search", "paris") == 1
    assert trace("show", run, "--search", "lyon", "--json") == 0
    assert {"output.text", "name"} & {
        hit["field"].removeprefix("agentrt.") for hit in json.loads(capsys.readouterr().out)
    }


def test_differences(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, other = named(folder, "triage.py"), named(folder, "other.py")
    assert trace("diff", one, other) == 1
    assert '\'{"city": "Paris"}\' ->' in capsys.readouterr().out
    assert trace("diff", one, other, "--json") == 1
    found = json.loads(capsys.readouterr().out)
    assert found["differences"][0]["path"] == "solve > text_completion tiny"
    assert trace("diff", one, one) == 0


@pytest.mark.parametrize("form", ["jsonl", "html", "chrome", "svg", "png"])
def test_exports(form: str, folder: Path) -> None:
    assert trace("export", "--to", form) == 0
    suffix = {"chrome": "json"}.get(form, form)
    (made,) = folder.glob(f"*.{suffix}")
    assert made.stat().st_size > 500
    assert trace("export", "latest", "--to", form, "-o", "named") == 0
    assert (folder / "named").stat().st_size > 500


def test_an_export_says_what_it_wrote(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace("export", "--to", "html")
    (made,) = folder.glob("*.html")
    assert f"wrote {made.absolute()} (" in capsys.readouterr().err
    trace("export", "--to", "jsonl", "-o", "-")
    told = capsys.readouterr()
    assert json.loads(told.out.splitlines()[0])["type"] == "run"
    assert told.err == ""


def test_an_export_that_cannot_be_written() -> None:
    with pytest.raises(InvalidRequest, match="cannot be written"):
        trace("export", "--to", "jsonl", "-o", "no/such/folder/x")


def test_deleting(folder: Path) -> None:
    assert trace("delete", named(folder, "other.py")) == 0
    assert [info.name for info in list_runs(folder)] == ["triage.py"]


def test_a_run_that_is_not_there() -> None:
    for command in (("show",), ("diff", "latest"), ("export", "--to", "html"), ("delete",)):
        with pytest.raises(InvalidRequest, match=r"no run 'nothing'.*`agentrt trace list`"):
            trace(*command, "nothing")


def test_who_asks_in_python_is_not_told_of_commands(folder: Path) -> None:
    for ask in (lambda: open_run("nothing"), lambda: open_run(folder / "no.sqlite")):
        with pytest.raises(InvalidRequest) as raised:
            ask()
        assert "agentrt trace" not in str(raised.value)


def test_a_folder_without_runs_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace("--folder", str(tmp_path / "none"), "list")
    assert "no run is recorded in" in " ".join(capsys.readouterr().out.split())
    with pytest.raises(InvalidRequest, match=f"no run is recorded in {tmp_path / 'none'}"):
        trace("--folder", str(tmp_path / "none"), "show")
