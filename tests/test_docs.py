"""Every block of Python in the README and the docs runs as it stands, and prints what they say."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# A block of Python, and its output where that stands after it as an indented line.
BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\n    ([^\n]+)\n)?", re.DOTALL | re.MULTILINE)
PAGES = {
    page.name: [
        (code, output or None) for code, output in BLOCK.findall(page.read_text(encoding="utf-8"))
    ]
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
}
# Each block in a namespace of its own; one process a page, since importing torch takes seconds. So
# does opening a model: what a block opened for the process serves the next one that opens it, too.
RUN_ALL = """
import contextlib, io, json, sys, traceback
from agentrt.programs import ambient
from agentrt.runtime import runtime
kept, first = [], ambient._opened
def opened():
    runtime._process = kept.pop() if kept else first()
    return runtime._process
ambient._opened = opened
for number, (block, wanted) in enumerate(json.load(sys.stdin), 1):
    try:
        with contextlib.redirect_stdout(io.StringIO()) as said:
            exec(compile(block, f"block {number}", "exec"), {"__name__": "__main__"})
        assert wanted is None or said.getvalue().strip() == wanted, said.getvalue()
        if runtime._process is not None:
            kept.append(runtime._process)
            runtime._process = None
    except BaseException:
        traceback.print_exc()
        sys.exit(f"block {number} failed")
"""


def test_there_are_blocks_to_run() -> None:
    assert sum(map(len, PAGES.values())) >= 8
    assert sum(output is not None for _, output in PAGES["README.md"]) == 2


JOURNEY = re.compile(
    r"^## ([^\n]*): (\d+) lines, (\d+) names?\n\n```python\n(.*?)^```", re.DOTALL | re.MULTILINE
)
MOST = {
    "Extract": (3, 1),
    "ReAct with two tools": (6, 2),
    "Game of 24": (20, 3),
    "Branch, solve, merge": (12, 3),
    "Map 1,000 documents": (4, 2),
}
"""Lines and concepts that each of the journeys may take."""


def lines_of(code: str) -> int:
    """How many lines are neither blank nor imports."""
    imports = {
        number
        for node in ast.parse(code).body
        if isinstance(node, ast.Import | ast.ImportFrom)
        for number in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    lines = enumerate(code.splitlines(), 1)
    return sum(bool(line.strip()) and number not in imports for number, line in lines)


def names_of(code: str) -> set[str]:
    """The names that come from agentrt."""
    nodes = list(ast.walk(ast.parse(code)))
    imported = {
        name.name
        for node in nodes
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("agentrt")
        for name in node.names
    }
    return imported | {
        node.attr
        for node in nodes
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "agentrt"
    }


def test_the_journeys_take_the_lines_and_names_they_say_and_no_more_than_they_may() -> None:
    page = (ROOT / "docs" / "journeys.md").read_text(encoding="utf-8")
    found = {
        name: (int(lines), int(names), code) for name, lines, names, code in JOURNEY.findall(page)
    }
    assert list(found) == list(MOST)
    for name, (lines, names, code) in found.items():
        assert (lines_of(code), len(names_of(code))) == (lines, names), name
        assert lines <= MOST[name][0], name
        assert names <= MOST[name][1], name


SLOW = {"journeys.md"}  # a thousand documents


@pytest.mark.model
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else [])
        for name, blocks in PAGES.items()
        if blocks
    ],
)
def test_every_block_of_a_page_runs(page: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", RUN_ALL],
        input=json.dumps(PAGES[page]),
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
