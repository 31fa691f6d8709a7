"""Engines in processes of their own: one that takes too long is ended, and asked anew next time."""

from __future__ import annotations

import sys

import pytest

from benchmarks.peers import process
from benchmarks.peers.process import DIED, Worker, started

ENGINE = """
import json, sys
print(json.dumps({"ready": ["text"]}), flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    if asked.get("hang"):
        sys.stdin.read()
    if asked.get("die"):
        break
    print(json.dumps({"seconds": 1.0, "asked": asked}), flush=True)
"""


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every worker runs the script above."""
    popen = process.subprocess.Popen

    def scripted(_: list[str], **options: object) -> object:
        return popen([sys.executable, "-c", ENGINE], **options)

    monkeypatch.setattr(process.subprocess, "Popen", scripted)


@pytest.mark.usefixtures("engine")
def test_an_engine_is_asked_as_often_as_it_answers() -> None:
    with started(["a", "b"], threads=1) as workers:
        assert [worker.name for worker in workers] == ["a", "b"]
        assert workers[0].ask(limit=60, prompts=["x"], new=2)["asked"] == {
            "prompts": ["x"],
            "new": 2,
        }
        assert workers[0].ask(limit=60, new=3)["asked"] == {"new": 3}


@pytest.mark.usefixtures("engine")
def test_what_takes_too_long_is_ended_and_started_anew() -> None:
    worker = Worker("a", 1)
    assert worker.ask(limit=0.1, hang=True) == {"over_s": 0.1}
    assert worker.ask(limit=60)["seconds"] == 1.0
    worker.stop()


@pytest.mark.usefixtures("engine")
def test_one_that_dies_says_so_and_is_started_anew() -> None:
    worker = Worker("a", 1)
    assert worker.ask(limit=60, die=True) == DIED
    assert worker.ask(limit=60)["seconds"] == 1.0
    worker.stop()
