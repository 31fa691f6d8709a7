"""The performance page has a place for every table, and a table is written from what a benchmark
reports."""

from __future__ import annotations

import shlex
import subprocess
import sys

import pytest

from benchmarks import tables
from benchmarks.figures import PAGE, PARTS, written
from benchmarks.workloads import WORKLOADS


@pytest.mark.parametrize("name", PARTS)
def test_the_page_has_one_place_for_every_part(name: str) -> None:
    assert PAGE.read_text().count(f"<!-- figures: {name} -->\n") == 1


def test_only_its_own_place_is_written() -> None:
    page = "a\n<!-- figures: startup -->\nold\n<!-- end -->\nb\n<!-- figures: scale -->\nc\n"
    kept = {
        "command": "python -m benchmarks.startup",
        "minutes": 0.25,
        "machine": "two cores",
        "report": {"seconds": [2.0, 3.0, 4.0], "median_s": 3.0},
    }
    changed = written(page, "startup", kept)
    assert "old" not in changed
    assert "`python -m benchmarks.startup` (0.2 min; two cores):\n" in changed
    assert "median of 3.0 s, 2.0 to 4.0 over 3 starts" in changed
    assert changed.startswith("a\n")
    assert changed.endswith("b\n<!-- figures: scale -->\nc\n")
    assert written(changed, "startup", kept) == changed


def test_a_page_without_the_place_is_refused() -> None:
    kept = {
        "command": "c",
        "minutes": 0.0,
        "machine": "",
        "report": {"seconds": [1], "median_s": 1},
    }
    with pytest.raises(ValueError, match="0 places"):
        written("nothing here", "startup", kept)


@pytest.mark.parametrize("name", PARTS)
def test_every_command_is_one_that_its_benchmark_takes(name: str) -> None:
    module, *options = shlex.split(PARTS[name].command)
    done = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{module}", *options, "--help"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert all(option in done.stdout for option in options if option.startswith("--"))


def test_workloads_of_a_command_exist() -> None:
    commands = [shlex.split(part.command) for part in PARTS.values()]
    named = [
        name
        for words in commands
        if "--workloads" in words
        for name in words[words.index("--workloads") + 1].split(",")
    ]
    assert named
    assert set(named) <= set(WORKLOADS)


def test_programs_are_shown_beside_each_other() -> None:
    own = {
        "programs_per_s": 4.0,
        "tokens_per_s": 100.0,
        "ttft_p50_s": 0.5,
        "ttft_p95_s": None,
        "hit_rate": 0.875,
        "computed_over_least": 1.02,
        "outside_model": 0.03,
        "valid": 1.0,
    }
    slow = {"programs_per_s": 0.5, "seconds": 45, "unfinished": True}
    report = {
        "programs": {
            "texts": "made up",
            "size": "medium",
            "workloads": {
                "json": {"agentrt": own, "outlines": slow, "ratio_best_peer": 8.0},
                "react": {"agentrt": own, "ratio_best_peer": None},
            },
        }
    }
    text = "\n".join(tables.programs(report))
    assert "| programs/s | agentrt | outlines | over the best peer |" in text
    assert "| json | 4 | < 0.5 | 8 |" in text
    assert "| react | 4 |  |  |" in text
    assert "| json | 4 | 100 | 0.5 |  | 87.5 % | 1.02 | 3.0 % |" in text
    assert "Valid answers of `json`: agentrt 100 %." in text


def test_a_figure_has_three_digits_that_count() -> None:
    assert [tables.shown(x) for x in (1234.5, 12.345, 0.012345, 7, "x", None)] == [
        "1,234",
        "12.3",
        "0.0123",
        "7",
        "x",
        "",
    ]
