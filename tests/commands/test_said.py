"""What a person is told: of files that cannot be run so, of their own mistakes, of interrupts."""

from __future__ import annotations

import re
import signal
from typing import TYPE_CHECKING

import pytest

from agentrt.cli import main

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.commands.conftest import Serve

LOADS = (
    "import asyncio\nfrom agentrt import State, program\n"
    + """
@program
async def ask(s: State) -> str:
    print("asked")
    return "x"

async def main() -> None:
    print("ran main")
"""
)


@pytest.mark.parametrize(
    "work", ["asyncio.run(main())", "if True:\n    asyncio.run(main())", "found = ask.sync()"]
)
@pytest.mark.parametrize("given", [[], ["--help"]])
def test_a_program_of_a_file_that_works_when_it_is_loaded_is_refused_and_nothing_runs(
    work: str, given: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "work.py"
    script.write_text(LOADS + work)
    assert main(["run", f"{script}:ask", *given]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    line = LOADS.count("\n") + 1
    assert f"as soon as it is loaded (line {line})" in shown.err
    assert 'under `if __name__ == "__main__":`' in shown.err


def test_a_run_of_something_else_is_not_the_work_of_a_file(
    tmp_path: Path, serve: Serve, capsys: pytest.CaptureFixture[str]
) -> None:
    serve("x")
    script = tmp_path / "work.py"
    script.write_text(f"{LOADS}import subprocess\nsubprocess.run(['true'])\n")
    assert main(["run", f"{script}:ask"]) == 0
    assert capsys.readouterr().out == "asked\nx\n"


def test_nothing_to_run_is_said_by_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["run"])
    assert capsys.readouterr().err.endswith("required: FILE[:PROGRAM]\n")


@pytest.mark.parametrize(
    ("line", "command"),
    [
        (["models", "list", "--bogus"], "agentrt models list"),
        (["extract", "--type", "int", "a.txt", "--bogus"], "agentrt extract"),
        (["trace", "list", "--bogus"], "agentrt trace list"),
    ],
)
def test_an_unknown_option_shows_the_usage_of_its_command(
    line: list[str], command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(line)
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert said.startswith(f"usage: {command} [-h]")
    assert said.endswith(f"{command}: error: unrecognized arguments: --bogus\n")


def test_an_error_names_the_users_line(
    tmp_path: Path, serve: Serve, capsys: pytest.CaptureFixture[str]
) -> None:
    serve("x")
    script = tmp_path / "work.py"
    script.write_text(f"{LOADS}@program\nasync def boom(s: State):\n    raise ValueError('boom')\n")
    assert main(["run", f"{script}:boom"]) == 1
    line = script.read_text().count("\n")
    [said] = capsys.readouterr().err.splitlines()
    assert said.startswith("agentrt: ValueError: boom (")
    assert said.endswith(f"work.py, line {line}, in boom; --debug shows all of it)")


@pytest.mark.parametrize("options", [["--json"], ["--json", "--seed", "3"], ["--max-tokens", "3"]])
def test_options_that_a_script_has_no_use_for_are_named(
    options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "work.py"
    script.write_text("def main():\n    print('worked')\n")
    assert main(["run", *options, str(script)]) == 0
    shown = capsys.readouterr()
    assert shown.out == "worked\n"
    named = ", ".join(each for each in options if each.startswith("--"))
    assert shown.err.startswith(f"agentrt: {named} has no effect here")


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Interrupts do what they do at a terminal, also where whoever began the tests ignores them."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("is_recorded", [False, True])
def test_an_interrupted_run_says_where_to_look(
    is_recorded: bool,
    tmp_path: Path,
    serve: Serve,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    serve("x")
    monkeypatch.setenv("AGENTRT_TRACE", str(tmp_path / "traces") if is_recorded else "off")
    script = tmp_path / "work.py"
    script.write_text(
        "import signal\nfrom agentrt import State, program\n\n@program\nasync def stops(s: State):"
        "\n    signal.raise_signal(signal.SIGINT)\n    await s.gen()\n"
    )
    assert main(["run", f"{script}:stops"]) == 130
    said = capsys.readouterr().err
    where = "; `agentrt trace` shows how far it came" if is_recorded else ""
    assert said == f"agentrt: interrupted{where}\n"


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("with_ledger", [False, True])
def test_an_interrupted_extraction_says_what_is_done(
    with_ledger: bool, tmp_path: Path, serve: Serve, capsys: pytest.CaptureFixture[str]
) -> None:
    def stopping(prompt: str) -> str:
        if "two" in prompt:
            signal.raise_signal(signal.SIGINT)
        return "1"

    serve(stopping)
    files = [tmp_path / name for name in ("one", "two", "three")]
    for file in files:
        file.write_text(file.name)
    target, ledger = tmp_path / "out.jsonl", tmp_path / "run.db"
    line = ["extract", "--type", "int", "--quiet", "--limit", "1", "-o", str(target)]
    line += ["--resume", str(ledger)] if with_ledger else []
    assert main([*line, *map(str, files)]) == 130
    said = capsys.readouterr().err
    assert re.match(
        rf"agentrt: interrupted; [12] of 3 files were done, {target} was not written", said
    )
    assert ("the same command goes on from there" in said) == with_ledger
    assert not target.exists()
