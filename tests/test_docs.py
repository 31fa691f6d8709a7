"""Every block of Python in the README and the docs runs as it stands, and prints what they say."""

from __future__ import annotations

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
# Each block in a namespace of its own; one process a page, since importing torch takes seconds.
RUN_ALL = """
import contextlib, io, json, sys, traceback
for number, (block, wanted) in enumerate(json.load(sys.stdin), 1):
    try:
        with contextlib.redirect_stdout(io.StringIO()) as said:
            exec(compile(block, f"block {number}", "exec"), {"__name__": "__main__"})
        assert wanted is None or said.getvalue().strip() == wanted, said.getvalue()
    except BaseException:
        traceback.print_exc()
        sys.exit(f"block {number} failed")
"""


def test_there_are_blocks_to_run() -> None:
    assert sum(map(len, PAGES.values())) >= 8
    assert sum(output is not None for _, output in PAGES["README.md"]) == 2


@pytest.mark.model
@pytest.mark.parametrize("page", [name for name, blocks in PAGES.items() if blocks])
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
