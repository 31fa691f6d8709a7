"""The fixture that users' tests get, under each of pytest's async plugins."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

TEST = """
import pytest
from agentrt import EngineFailed, State, program

@program
async def greet(s: State, who: str) -> str:
    s.user(f"Hello, I am {{who}}.")
    return await s.gen(max_tokens=20)

{mark}
async def test_a_mapping(scripted_runtime):
    async with scripted_runtime({{"I am Bob.": "Hi Bob.", "am Anna.": "Hi Anna."}}) as runtime:
        assert await greet("Bob") == "Hi Bob."
        assert await greet("Anna") == "Hi Anna."
        with pytest.raises(EngineFailed) as failed:
            await greet("Eve")
        assert "no reply is scripted" in str(failed.value.__cause__)

{mark}
async def test_one_reply_and_a_function(scripted_runtime):
    async with scripted_runtime("yes", context_length=100) as runtime:
        assert runtime.context_length == 100
        assert await greet("Bob") == "yes"
    async with scripted_runtime(lambda prompt: str(len(prompt)), kv_tokens=64) as runtime:
        assert runtime.num_slots == 64
        assert await greet("Bob") == str(len("user: Hello, I am Bob.\\nassistant: "))
"""


@pytest.mark.parametrize(
    ("plugin", "mark", "passed"),
    [("pytest_asyncio.plugin", "asyncio", 2), ("anyio.pytest_plugin", "anyio", 4)],
)
def test_the_fixture_works_with(plugin: str, mark: str, passed: int, tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(TEST.format(mark=f"@pytest.mark.{mark}"))
    plugins = ["-p", plugin, "-p", "agentrt.pytest_plugin"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *plugins, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
    )
    assert f"{passed} passed" in done.stdout, done.stdout + done.stderr


def test_having_the_plugin_costs_nothing() -> None:
    heavy = {"numpy", "pydantic", "torch", "agentrt.testing"}
    code = f"import sys, agentrt.pytest_plugin; print(sorted({heavy!r} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout.strip() == "[]"
