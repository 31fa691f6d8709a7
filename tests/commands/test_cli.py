"""The command itself: quick, with exit codes, one line for an error, nothing half-written."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from agentrt.cli import main
from agentrt.commands.common import output_to

if TYPE_CHECKING:
    from tests.commands.conftest import Serve

ROOT = Path(__file__).parents[2]
COMMANDS = ["run", "extract", "chat", "models", "schema", "info"]


def command(*arguments: str, **options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "agentrt.cli", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT), **options},
    )


def test_help_needs_nothing_heavy() -> None:
    heavy = {"torch", "transformers", "pydantic", "numpy", "rich", "argcomplete", "anyio"}
    code = (
        "import sys; from agentrt.cli import main\n"
        "try: main(['--help'])\n"
        f"finally: print(sorted({heavy!r} & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert done.stderr.strip() == "[]"
    assert all(name in done.stdout for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_tells_what_it_takes(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([name, "--help"])
    assert ended.value.code == 0
    assert f"usage: agentrt {name}" in capsys.readouterr().out


def test_alone_it_shows_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert "COMMAND" in capsys.readouterr().out


def test_an_unknown_command_is_a_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["fly"])
    assert ended.value.code == 2


def test_errors_are_one_line_and_a_traceback_on_request(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["schema", "nowhere:Thing"]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("agentrt: InvalidRequest: there is no module 'nowhere'")
    assert main(["schema", "nowhere:Thing", "--debug"]) == 2
    assert "Traceback" in capsys.readouterr().err


def test_completion_knows_commands_and_options() -> None:
    def completed(line: str) -> set[str]:
        code = "import os, sys; os.dup2(1, 8); from agentrt.cli import main; main([])"
        done = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=False,
            env={
                **os.environ,
                "PYTHONPATH": str(ROOT),
                "_ARGCOMPLETE": "1",
                "_ARGCOMPLETE_IFS": "\n",
                "COMP_LINE": line,
                "COMP_POINT": str(len(line)),
                "COMP_TYPE": "9",
            },
        )
        return {each.strip() for each in done.stdout.splitlines()}

    assert {"extract", "run", "schema"} <= completed("agentrt ")
    assert completed("agentrt ex") == {"extract"}
    assert {"--type", "--resume"} <= completed("agentrt extract --")


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "out.jsonl"
    target.write_text("before")

    def interrupted() -> None:
        with output_to(target) as file:
            file.write("half a line")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert target.read_text() == "before"
    with output_to(target) as file:
        file.write("after")
    assert target.read_text() == "after"
    assert list(tmp_path.iterdir()) == [target]


def test_ctrl_c_is_130_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "work.py").write_text(
        "import os, signal\n"
        "def main():\n"
        # a shell's background jobs ignore interrupts, and pass that on
        "    signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
    )
    done = command("run", str(tmp_path / "work.py"))
    assert done.returncode == 128 + signal.SIGINT
    assert "Traceback" not in done.stderr


def test_whoever_reads_may_stop(tmp_path: Path) -> None:
    (tmp_path / "work.py").write_text("def main():\n    print('line\\n' * 100_000)\n")
    line = f"{sys.executable} -m agentrt.cli run {tmp_path / 'work.py'} | head -1"
    done = subprocess.run(
        ["bash", "-c", line],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert (done.stdout, done.stderr) == ("line\n", "")


PROGRAM = '''
from typing import Literal
from agentrt import BudgetExhausted, State, program

@program(max_tokens=3)
async def ask(s: State, question: str, times: int = 1, tone: Literal["kind", "rude"] = "kind",
              loud: bool = False, words: list[str] = ()) -> dict:
    """Asks."""
    s.user(question)
    return {"answer": await s.gen(), "times": times, "tone": tone, "loud": loud, "words": words}

@program
async def fails(s: State) -> str:
    raise BudgetExhausted("tokens", 1, 1, 1)
'''


@pytest.fixture
def work(tmp_path: Path) -> str:
    path = tmp_path / "work.py"
    path.write_text(PROGRAM)
    return str(path)


def test_run_takes_arguments_by_the_signature(
    work: str, serve: Serve, capsys: pytest.CaptureFixture[str]
) -> None:
    serve("abcdef")
    given = ["Why?", "--times", "2", "--tone", "rude", "--loud", "--words", "a", "b"]
    assert main(["run", f"{work}:ask", *given]) == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out) == {
        "answer": "abc",
        "times": 2,
        "tone": "rude",
        "loud": True,
        "words": ["a", "b"],
    }
    assert "computed" in shown.err


def test_run_for_machines_with_options_before_or_after(
    work: str, serve: Serve, capsys: pytest.CaptureFixture[str]
) -> None:
    serve("abcdef")
    assert main(["run", "--json", "--max-tokens", "5", f"{work}:ask", "Why?"]) == 0
    first = json.loads(capsys.readouterr().out)
    assert first["result"]["answer"] == "abcde"
    assert first["usage"]["sampled_tokens"] == 5
    assert main(["run", f"{work}:ask", "Why?", "--max-tokens", "4", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["result"]["answer"] == "abcd"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["Why?", "--times", "x"], "--times: 'x': Input should be a valid integer"),
        (["Why?", "--tone", "odd"], "'odd': Input should be 'kind' or 'rude'"),
        ([], "required: question"),
    ],
)
def test_run_refuses_what_does_not_fit(
    work: str, given: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["run", f"{work}:ask", *given])
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


def test_run_says_what_there_is_to_run(work: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", work]) == 2
    assert "its programs: ask, fails" in capsys.readouterr().err
    assert main(["run", f"{work}:nothing"]) == 2
    assert "'nothing'" in capsys.readouterr().err
    assert main(["run", "nowhere.py"]) == 2


def test_a_run_that_fails_is_1(work: str, serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    serve("x")
    assert main(["run", f"{work}:fails"]) == 1
    assert capsys.readouterr().err.startswith("agentrt: BudgetExhausted: the budget of 1 tokens")


def test_run_starts_a_script_of_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "work.py"
    script.write_text("import sys\nasync def main():\n    print(sys.argv[1:])\n")
    assert main(["run", str(script), "--fast", "x"]) == 0
    assert capsys.readouterr().out == "['--fast', 'x']\n"


@pytest.mark.parametrize(
    "source",
    [
        "print('worked')\nmain = 3\nlist(map(str, ()))\nrun = print\nrun()\n",
        "import asyncio\nasync def main():\n    print('worked')\nasyncio.run(main())\n",
        "def main():\n    print('worked')\nif __name__ == '__main__':\n    main()\n",
        "def work():\n    print('worked')\nif __name__ == '__main__':\n    work()\n",
        "import beside\nasync def main():\n    print(beside.WORD)\n",
    ],
)
def test_a_script_does_its_work_once(
    source: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "beside.py").write_text("WORD = 'worked'\n")
    script = tmp_path / "script.py"
    script.write_text(source)
    assert main(["run", str(script)]) == 0
    assert capsys.readouterr().out.count("worked") == 1


def test_a_name_that_is_not_there_runs_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "script.py"
    script.write_text("print('ran')\n" + PROGRAM)
    assert main(["run", f"{script}:nobody"]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "has no 'nobody'; its programs: ask, fails" in shown.err
    script.write_text("def broken(:\n")
    assert main(["run", str(script)]) == 2
    assert "is no Python file" in capsys.readouterr().err
