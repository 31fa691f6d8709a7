"""The live view as it is used: around programs, on consoles of several kinds."""

from __future__ import annotations

import io
import warnings

import pytest
from rich.console import Console

from agentrt import Budget, Runtime, State, program, trace
from agentrt.testing import ScriptedModel
from agentrt.trace import spans
from agentrt.trace.spans import SpanKind, span
from agentrt.trace.viewer import live_view
from agentrt.trace.viewer.live import LiveView


def console(*, terminal: bool, width: int = 80, **more: object) -> tuple[Console, io.StringIO]:
    out = io.StringIO()
    made = Console(
        file=out,
        force_terminal=terminal,
        width=width,
        height=24,
        _environ={"TERM": "xterm-256color", **more},  # pyright: ignore[reportArgumentType]
    )
    return made, out


@program
async def solve(s: State, question: str) -> list[str]:
    s.user(question)

    async def branch(b: State, hint: str) -> str:
        b.user(hint)
        return await b.gen(max_tokens=8)

    return await s.each(branch, ["one", "two", "three"])


@pytest.mark.anyio
@pytest.mark.parametrize("terminal", [False, True])
async def test_around_a_program(terminal: bool) -> None:
    screen, out = console(terminal=terminal)
    async with (
        Runtime(ScriptedModel.replying(lambda _: "fine")),
        trace.live_view(console=screen),
    ):
        assert await solve("why?") == ["fine"] * 3
    text = out.getvalue()
    assert "solve" in text
    assert "3 branches" in text
    if not terminal:
        lines = text.splitlines()
        assert sum("done      solve > branch" in line for line in lines) == 3
        assert sum(line.endswith("done      solve") for line in lines) == 1
        assert "\x1b" not in text


def test_without_colour() -> None:
    screen, out = console(terminal=True, NO_COLOR="1")
    with live_view(console=screen), span(SpanKind.PROGRAM, "work"):
        pass
    assert "work" in out.getvalue()
    assert not any(f"\x1b[{code}m" in out.getvalue() for code in range(30, 38))


def test_a_dumb_terminal_gets_lines() -> None:
    screen, out = console(terminal=True, TERM="dumb")
    with live_view(console=screen), span(SpanKind.PROGRAM, "work"):
        pass
    assert "\x1b[" not in out.getvalue()
    assert "done      work" in out.getvalue()


@pytest.mark.parametrize("terminal", [False, True])
def test_an_exception_goes_on_up_and_is_shown(terminal: bool) -> None:
    screen, out = console(terminal=terminal)
    with (
        pytest.raises(ValueError, match="not today"),
        live_view(console=screen),
        span(SpanKind.PROGRAM, "work"),
    ):
        raise ValueError("not today")
    assert "ValueError: not today" in out.getvalue()
    assert not spans.is_recording()


def test_what_a_program_prints_goes_where_it_was_sent(capsys: pytest.CaptureFixture[str]) -> None:
    screen, out = console(terminal=True)
    with live_view(console=screen), span(SpanKind.PROGRAM, "work"):
        print("the result")
    assert capsys.readouterr().out == "the result\n"
    assert "the result" not in out.getvalue()


def test_a_summary_is_left_behind() -> None:
    screen, out = console(terminal=True)
    with live_view(console=screen):
        for at in range(40):
            with span(SpanKind.PROGRAM, f"work {at}"):
                pass
    last = out.getvalue().rsplit("\x1b[2K", 1)[-1]
    assert "40 programs" in last
    assert "✓ " in last.splitlines()[0]
    assert sum("work" in line for line in last.splitlines()) == 17
    assert "23 done" in last


def test_a_terminal_that_breaks_stops_nothing() -> None:
    screen, _ = console(terminal=True)
    view = LiveView(screen, is_animated=False)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        view._draw = lambda: 1 / 0  # pyright: ignore
        view._work()
    assert "shows no more" in str(caught[0].message)


@pytest.mark.anyio
async def test_it_knows_the_runtime_and_the_budget_of_what_it_shows() -> None:
    screen, out = console(terminal=True, width=120)
    async with live_view(console=screen), Runtime(ScriptedModel.replying(lambda _: "fine")):
        with Budget(tokens=1_000, calls=9):
            await solve("why?")
    last = out.getvalue().rsplit("\x1b[2K", 1)[-1]
    assert "pool" in last
    assert "left: 985 tokens, 6 calls" in last
