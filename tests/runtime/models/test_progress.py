from __future__ import annotations

import io
import logging
from collections.abc import Generator
from contextlib import contextmanager, redirect_stderr

import pytest

from agentrt.runtime.models.progress import announce, progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@contextmanager
def terminal() -> Generator[Terminal]:
    # Not by a fixture: the test runner puts its own stream in place before the test begins.
    with redirect_stderr(screen := Terminal()):
        yield screen


@pytest.mark.parametrize("total", [10, None])
def test_a_terminal_shows_a_bar(total: int | None) -> None:
    with terminal() as screen, progress("fetching it", total, in_bytes=total is not None) as report:
        report(5)
    assert "fetching it" in screen.getvalue()


def test_a_bar_ends_full() -> None:
    with terminal() as screen, progress("counting", 4) as report:
        report(3)
    assert "100%" in screen.getvalue()


def test_elsewhere_it_is_only_logged(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "agentrt"), progress("fetching it", 10) as report:
        report(5)
        announce("waiting")
    assert capsys.readouterr() == ("", "")
    assert caplog.messages == ["fetching it", "waiting"]


def test_a_person_waiting_is_told() -> None:
    with terminal() as screen:
        announce("waiting for another process")
    assert screen.getvalue() == "waiting for another process\n"
