"""The viewer, driven by keys on a screen that is not there."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Group
from textual.pilot import Pilot
from textual.widgets import Static, TabbedContent

from agentrt.trace import list_runs
from agentrt.trace.viewer.app import ViewerApp, is_light
from agentrt.trace.viewer.app.detail import Detail
from agentrt.trace.viewer.app.diff_screen import DiffScreen
from agentrt.trace.viewer.app.rows import Rows
from agentrt.trace.viewer.app.run_screen import RunScreen
from agentrt.trace.viewer.app.runs_screen import RunsScreen
from tests.trace.viewer.recorded import record

pytestmark = pytest.mark.asyncio


async def press(pilot: Pilot[None], *keys: str) -> None:
    await pilot.press(*keys)
    await pilot.pause()


def line(app: ViewerApp, index: int | None = None) -> str:
    """A line of the list that has the focus; that under the cursor."""
    rows = app.focused
    assert isinstance(rows, Rows)
    at = rows.cursor if index is None else index
    strip = rows.render_line(at - rows.scroll_offset.y)
    return "".join(segment.text for segment in strip)


@pytest.mark.parametrize("size", [(120, 30), (80, 24), (40, 12)])
async def test_walking_through_a_run(tmp_path: Path, size: tuple[int, int]) -> None:
    app = ViewerApp(run=record(tmp_path))
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        assert "triage.py" in line(app)
        await press(pilot, "down", "down")
        assert "generate" in line(app)
        await press(pilot, "left")
        assert "solve" in line(app)
        await press(pilot, "left", "down")
        assert "check" in line(app)
        await press(pilot, "up", "right", "end")
        assert "check" in line(app)
        await press(pilot, "home", "enter")
        assert isinstance(app.focused, Detail)
        await press(pilot, "escape")
        assert isinstance(app.focused, Rows)


async def test_views_by_tab(tmp_path: Path) -> None:
    app = ViewerApp(run=record(tmp_path))
    async with app.run_test(size=(100, 24)) as pilot:
        await pilot.pause()
        seen: list[str] = []
        for _ in range(4):
            seen.append(app.screen.query_one(TabbedContent).active)
            await press(pilot, "tab")
        assert seen == ["tree", "waterfall", "usage", "radix"]
        await press(pilot, "tab")
        assert "━" in line(app)
        await press(pilot, "shift+tab", "shift+tab")
        assert "46 tokens cached" in line(app)


async def test_tokens_one_after_the_other(tmp_path: Path) -> None:
    app = ViewerApp(run=record(tmp_path))
    async with app.run_test(size=(100, 24)) as pilot:
        await pilot.pause()
        await press(pilot, "down", "down", "enter", "right", "right", "right")
        choices = app.screen.query_one("#choices")
        text = str(choices.render())
        assert "'c'" in text
        assert "forced" in text
        assert "77.9%" in text
        assert "8.2%" in text


async def test_searching(tmp_path: Path) -> None:
    app = ViewerApp(run=record(tmp_path))
    async with app.run_test(size=(100, 24)) as pilot:
        await pilot.pause()
        await press(pilot, "slash", *"city", "enter")
        assert "repair City" in line(app)
        await press(pilot, "n")
        assert "check" in line(app)
        await press(pilot, "n")
        assert "generate" in line(app)
        await press(pilot, "N")
        assert "check" in line(app)
        await press(pilot, "slash", *"nowhere", "enter")
        assert "check" in line(app)


async def test_from_the_list_into_a_run_and_back(tmp_path: Path) -> None:
    for answer in ("Paris", "Lyon"):
        record(tmp_path, answer=answer, name=f"{answer}.py").close()
    app = ViewerApp(tmp_path)
    async with app.run_test(size=(100, 24)) as pilot:
        await pilot.pause()
        first = line(app)
        await press(pilot, "enter")
        assert isinstance(app.screen, RunScreen)
        assert app.screen.run.info().name in first
        await press(pilot, "q")
        assert isinstance(app.screen, RunsScreen)
        await press(pilot, "d", "down", "d")
        assert isinstance(app.screen, DiffScreen)
        await app.workers.wait_for_complete()
        await pilot.pause()
        assert isinstance(app.screen.query_one("#page", Static).content, Group)
        await press(pilot, "q", "slash", *"lyon", "enter")
        assert "Lyon.py" in line(app)
        assert app.screen.query_one(Rows)._count() == 1
        await press(pilot, "delete")
        assert len(list(list_runs(tmp_path))) == 2
        await press(pilot, "delete")
        assert [info.name for info in list_runs(tmp_path)] == ["Paris.py"]


async def test_nothing_recorded_yet(tmp_path: Path) -> None:
    app = ViewerApp(tmp_path)
    async with app.run_test(size=(60, 10)) as pilot:
        await press(pilot, "enter", "d", "delete", "down", "G")
        assert isinstance(app.screen, RunsScreen)
        assert "no run" in str(app.screen.query_one("#head").render())


async def test_light_and_dark() -> None:
    assert is_light({"COLORFGBG": "0;15"})
    assert is_light({"COLORFGBG": "0;default;7"})
    assert not is_light({"COLORFGBG": "15;0"})
    assert not is_light({})
    app = ViewerApp(Path("/nowhere"))
    async with app.run_test() as pilot:
        before = app.theme
        await press(pilot, "t")
        assert {before, app.theme} == {"ansi-dark", "ansi-light"}
