"""Every block of Python in the README and the docs runs as it stands."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
BLOCKS = [
    pytest.param(block, id=f"{page.name}-{number}")
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    for number, block in enumerate(BLOCK.findall(page.read_text(encoding="utf-8")), 1)
]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    return done


def test_there_are_blocks_to_run() -> None:
    assert len(BLOCKS) >= 4


@pytest.mark.model
@pytest.mark.parametrize("block", BLOCKS)
def test_a_block_runs(block: str) -> None:
    assert run("-c", block).returncode == 0
