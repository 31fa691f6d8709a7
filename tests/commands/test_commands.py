"""extract, chat, schema, models and info, as a person and as a machine uses them."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from agentrt.cli import main
from agentrt.commands.models import in_units

if TYPE_CHECKING:
    from tests.commands.conftest import Serve

KINDS = """
from pydantic import BaseModel

class Person(BaseModel):
    name: str
    age: int
"""
SCHEMA = '{"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}'


def by_text(prompt: str) -> str:
    said = prompt.rpartition("user: ")[2]
    return '{"name":"Anna","age":31}' if "Anna" in said else '{"name":"Bob","age":7}'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kinds.py").write_text(KINDS)
    (tmp_path / "a.txt").write_text("Anna is 31.")
    (tmp_path / "b.txt").write_text("Bob is 7.")
    (tmp_path / "schema.json").write_text(SCHEMA)
    return tmp_path


@pytest.mark.parametrize("kind", ["kinds:Person", "kinds.py:Person"])
def test_extract_writes_a_line_a_file(
    kind: str, folder: Path, serve: Serve, capsys: pytest.CaptureFixture[str]
) -> None:
    serve(by_text)
    assert main(["extract", "--type", kind, "a.txt", "b.txt"]) == 0
    shown = capsys.readouterr()
    assert shown.out.splitlines() == ['{"name":"Anna","age":31}', '{"name":"Bob","age":7}']
    assert shown.err.startswith("extracted: 2")


@pytest.mark.parametrize("kind", ["schema.json", SCHEMA])
def test_extract_by_schema_from_a_pipe(
    kind: str,
    folder: Path,
    serve: Serve,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    serve('{"name":"Anna"}')
    monkeypatch.setattr("sys.stdin", io.StringIO("Anna."))
    assert main(["extract", "--json", "--quiet", "--type", kind, "-"]) == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out) == {"file": "-", "result": {"name": "Anna"}}
    assert shown.err == ""


def test_extract_resumes(folder: Path, serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    asked: list[str] = []

    def counted(prompt: str) -> str:
        asked.append(prompt)
        return by_text(prompt)

    serve(counted)
    line = ["extract", "--quiet", "--type", "kinds:Person", "--resume", "run.db"]
    assert main([*line, "a.txt"]) == 0
    assert main([*line, "a.txt", "b.txt"]) == 0
    assert len(asked) == 2
    assert main([*line, "--instructions", "Names in capitals.", "a.txt"]) == 0
    assert len(asked) == 3  # other instructions, other answers
    (folder / "a.txt").write_text("Anna is 32.")
    assert main([*line, "a.txt"]) == 0
    assert len(asked) == 4


def test_a_file_that_fails_does_not_stop_the_others(
    folder: Path, serve: Serve, capsys: pytest.CaptureFixture[str]
) -> None:
    serve(by_text)
    (folder / "long.txt").write_text("word " * 4000)
    line = ["extract", "--type", "kinds:Person", "a.txt", "long.txt", "b.txt", "--quiet"]
    assert main(line) == 1
    shown = capsys.readouterr()
    assert len(shown.out.splitlines()) == 2
    assert "long.txt: PromptTooLong" in shown.err
    assert main([*line, "--output", "out.jsonl", "--json"]) == 1
    lines = [json.loads(each) for each in (folder / "out.jsonl").read_text().splitlines()]
    assert [each["file"] for each in lines] == ["a.txt", "long.txt", "b.txt"]
    assert "PromptTooLong" in lines[1]["error"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (["--type", "kinds:Nobody", "a.txt"], "kinds has no 'Nobody'"),
        (["--type", "nothing", "a.txt"], "names no type"),
        (["--type", "kinds:Person", "nowhere.txt"], "nowhere.txt cannot be read"),
        (["--type", "{broken", "a.txt"], "is no JSON"),
    ],
)
def test_extract_says_what_is_wrong(
    line: list[str],
    said: str,
    folder: Path,
    serve: Serve,
    capsys: pytest.CaptureFixture[str],
) -> None:
    serve(by_text)
    assert main(["extract", "--quiet", *line]) == 2
    assert said in capsys.readouterr().err


def test_chat_goes_on_and_begins_anew(
    serve: Serve, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    serve(lambda prompt: f"{prompt.count('user: ')} {'system' in prompt}")
    lines = "a\n\nb\n/usage\n/what\n/reset\nc\n/quit\nnever\n"
    monkeypatch.setattr("sys.stdin", io.StringIO(lines))
    assert main(["chat", "--system", "Be brief."]) == 0
    shown = capsys.readouterr()
    assert shown.out.splitlines() == ["1 True", "2 True", "1 True"]
    usage, help_ = shown.err.splitlines()
    assert "cached" in usage
    assert "/reset" in help_


def test_chat_counts_what_an_answer_took_that_was_stopped(
    serve: Serve, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Typed(io.StringIO):
        def isatty(self) -> bool:
            return True

    def stopping(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    serve("abc")
    monkeypatch.setattr("sys.stdin", Typed("a\n/usage\n/reset\n/usage\n"))
    monkeypatch.setattr("agentrt.commands.chat.print", stopping, raising=False)
    assert main(["chat"]) == 0
    stopped, afterwards = [x for x in capsys.readouterr().err.splitlines() if " written" in x]
    prompt, written = re.findall(r"(\d+) (?:prompt tokens|written)", stopped)
    assert int(prompt) > 0
    assert int(written) > 0
    assert afterwards.startswith("0 prompt tokens")


def test_chat_for_machines(
    serve: Serve, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    serve("abc")
    monkeypatch.setattr("sys.stdin", io.StringIO("a\nb\n"))
    assert main(["chat", "--json", "--max-tokens", "2"]) == 0
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert first["answer"] == second["answer"] == "ab"
    assert second["usage"]["cached_tokens"] > 0


def test_chat_says_which_line_was_too_long_and_goes_on(
    serve: Serve, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    serve(lambda prompt: str(prompt.count("user: ")))
    lines = ["a", "too long " * 1000, "b"]
    for options in ([], ["--json"]):
        monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(lines)))
        assert main(["chat", *options]) == 1
        shown = capsys.readouterr()
        (said,) = shown.err.splitlines()
        assert said.startswith(
            "agentrt: 'too long too...ong too long ': PromptTooLong: the prompt is"
        )
        if not options:
            assert shown.out.splitlines() == ["1", "2"]  # what was too long was never said
            continue
        first, failed, second = map(json.loads, shown.out.splitlines())
        assert (first["answer"], second["answer"]) == ("1", "2")
        assert failed["error"].startswith("PromptTooLong: the prompt is")


def test_chat_ends_where_nothing_can_be_answered(
    serve: Serve, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(prompt: str) -> str:
        raise RuntimeError("the model is gone")

    serve(broken)
    monkeypatch.setattr("sys.stdin", io.StringIO("a\nb\n"))
    assert main(["chat"]) == 1
    (said,) = capsys.readouterr().err.splitlines()
    assert said.startswith("agentrt: EngineFailed")


@pytest.mark.model
def test_schema_shows_what_a_type_compiles_to(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["schema", "kinds:Person"]) == 0
    shown = capsys.readouterr().out
    assert '{"name":"","age":0}' in shown
    assert main(["schema", "--json", '{"enum": ["yes", "no"]}']) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["regex"] == '"(?:no|yes)"'
    assert facts["all_states"] is True
    assert facts["min_tokens"] <= facts["shortest_tokens"]


@pytest.mark.model
def test_schema_says_why_it_is_refused_and_where(capsys: pytest.CaptureFixture[str]) -> None:
    schema = r'{"type": "object", "properties": {"a": {"type": "string", "pattern": "(b)\\1"}}}'
    assert main(["schema", schema]) == 2
    assert "at /properties/a/pattern: " in capsys.readouterr().err
    assert main(["schema", schema, "--json"]) == 2
    refused = json.loads(capsys.readouterr().out)["refused"]
    assert refused["pointer"] == "/properties/a/pattern"


@pytest.mark.model
def test_models_and_info(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "path"]) == 0
    folder = Path(capsys.readouterr().out.strip())
    assert (folder / "config.json").is_file()
    assert main(["models", "list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["models"]
    sizes = {each["name"]: each["bytes"] for each in listed}
    assert main(["models", "info", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["layers"], facts["bytes"]) == (30, sizes[folder.name])
    assert main(["info", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["is_stored"] is True
    assert facts["device"]


HTML = """<!doctype html><html><head><title>Page</title></head><body><nav>Home</nav>
<table><tr><td>Anna</td><td>31</td></tr></table><footer>Bob, 7</footer></body></html>"""


@pytest.mark.parametrize("name", ["page.html", "page.txt"])
def test_of_an_html_page_the_text_is_read(
    name: str, folder: Path, serve: Serve, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[str] = []

    def reply(prompt: str) -> str:
        asked.append(prompt)
        return '{"name":"Anna","age":31}'

    serve(reply)
    (folder / name).write_text(HTML)
    assert main(["extract", "--quiet", "--type", "kinds:Person", name]) == 0
    assert "Anna 31" in asked[0]
    assert not any(word in asked[0] for word in ("<td>", "Home", "Bob"))


def test_verbatim_copies_whatever_the_model_would_say(
    folder: Path, serve: Serve, capsys: pytest.CaptureFixture[str]
) -> None:
    serve(lambda prompt: '{"name":"Zoe","age":99}')
    assert main(["extract", "--quiet", "--verbatim", "--type", "kinds:Person", "a.txt"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["age"] == 31
    assert found["name"] in ("Anna", "is", "31", ".", "Anna is", "is 31", "Anna is 31", "31.")


def test_a_marked_field_is_copied_without_the_option(
    folder: Path, serve: Serve, capsys: pytest.CaptureFixture[str]
) -> None:
    marked = KINDS.replace("name: str", "name: Annotated[str, Verbatim]")
    imports = "from typing import Annotated\nfrom agentrt import Verbatim\n"
    (folder / "marked.py").write_text(imports + marked)
    serve(lambda prompt: '{"name":"Zoe","age":99}')
    assert main(["extract", "--quiet", "--type", "marked.py:Person", "a.txt"]) == 0
    assert json.loads(capsys.readouterr().out)["name"] in "Anna is 31."


def test_nothing_is_begun_for_a_file_that_is_not_there(
    folder: Path, serve: Serve, capsys: pytest.CaptureFixture[str]
) -> None:
    serve(by_text)
    line = ["extract", "--type", "kinds:Person", "a.txt", "nowhere.txt", "--output", "out"]
    assert main(line) == 2
    shown = capsys.readouterr()
    assert shown.err.startswith("agentrt: InvalidRequest: nowhere.txt cannot be read")
    assert shown.out == ""
    assert not (folder / "out").exists()


def test_a_type_may_import_what_stands_beside_it(
    folder: Path, serve: Serve, capsys: pytest.CaptureFixture[str]
) -> None:
    serve(by_text)
    (folder / "shelf").mkdir()
    (folder / "shelf/shelf_base.py").write_text(KINDS)
    (folder / "shelf/people.py").write_text("from shelf_base import Person\n")
    assert main(["extract", "--quiet", "--type", "shelf.people:Person", "a.txt"]) == 0


def test_a_size_is_told_as_people_do() -> None:
    assert [in_units(n) for n in (98_362_432, 999_000, 2_123_000_000)] == [
        "98 MB",
        "1 MB",
        "2.1 GB",
    ]


@pytest.mark.parametrize("text", ["", " \n\t"])
def test_nothing_is_extracted_from_nothing(
    text: str, folder: Path, serve: Serve, capsys: pytest.CaptureFixture[str]
) -> None:
    serve("7")
    (folder / "none.txt").write_text(text)
    assert main(["extract", "--quiet", "--type", "int", "none.txt"]) == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "none.txt: InvalidRequest" in shown.err
    assert "there is nothing to extract from" in shown.err


def test_a_plain_type_needs_no_module(
    folder: Path, serve: Serve, capsys: pytest.CaptureFixture[str]
) -> None:
    serve("31")
    assert main(["extract", "--quiet", "--type", "int", "a.txt"]) == 0
    assert capsys.readouterr().out == "31\n"


def test_a_schema_that_asks_for_nothing_is_named(
    folder: Path, serve: Serve, capsys: pytest.CaptureFixture[str]
) -> None:
    serve("{}")
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    line = ["extract", "--quiet", "a.txt", "--type"]
    assert main([*line, json.dumps(schema)]) == 0
    assert 'the schema names no "required" properties' in capsys.readouterr().err
    serve('{"a":1}')
    assert main([*line, json.dumps({**schema, "required": ["a"]})]) == 0
    assert capsys.readouterr().err == ""
