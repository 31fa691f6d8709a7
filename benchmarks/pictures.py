"""Makes the pictures of docs/trace.md anew: each view of a run on the provided model, as PNG.

    python -m benchmarks.pictures [--into docs/images]

Terminals are drawn by rich and textual as SVG and by resvg (the extra `png`) as PNG; the page needs
a headless Chromium and is left as it is where there is none.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import shutil
import subprocess
import tempfile
from pathlib import Path

import anyio
from pydantic import BaseModel, Field
from rich.console import Console, Group

from agentrt import Budget, Runtime, State, program, trace
from agentrt.trace import SpanKind, TraceConfig, open_run
from agentrt.trace.export.html import html
from agentrt.trace.export.svg import png
from agentrt.trace.viewer.app import ViewerApp
from agentrt.trace.viewer.live import LiveView
from agentrt.trace.viewer.live_draw import Screen

KINDS = ("food", "museums", "beaches", "music", "hiking", "history", "night life", "a rainy day")
WIDTH = 100
DIFFERENT = "slowly"
"""What the second of the two runs that are compared is asked for."""


class Trip(BaseModel):
    city: str = Field(max_length=20)
    country: str = Field(max_length=20)
    days: int


@program
async def plan(s: State, wish: str) -> Trip:
    s.system("You plan short trips. Answer in one sentence.")
    s.user(wish)

    async def idea(branch: State, kind: str) -> str:
        branch.user(f"Suggest one city for {kind} and say why.")
        return await branch.gen(max_tokens=32)

    ideas = await s.each(idea, KINDS)
    s.user("These were suggested: " + " ".join(ideas) + " Choose one.")
    return await s.gen(Trip, max_tokens=60, top_logprobs=4)


@program
async def tone(s: State, wish: str) -> str:
    s.user(f"Is this wish friendly or angry? {wish}")
    return await s.select(["friendly", "angry"])


async def run(folder: Path, wish: str, into: Path | None = None) -> Path:
    """Records a run and returns its file; with `into` the live view is drawn in the middle."""
    with trace.recording(TraceConfig(folder=folder), name="trips") as recorded:
        assert recorded is not None
        async with Runtime(kv_tokens=2048):
            console = Console(file=io.StringIO(), force_terminal=True, width=WIDTH, height=24)
            view = LiveView(console, is_animated=True)
            with view:
                await tone(wish)
                async with anyio.create_task_group() as group:
                    if into is not None:
                        group.start_soon(_photograph, view, into)
                    await plan.using(budget=Budget(tokens=2_000, seconds=600))(wish)
    return recorded.path


async def _photograph(view: LiveView, into: Path) -> None:
    """Draws the view once every branch has written something."""
    while view._model.usage.sampled_tokens < 14 * len(KINDS):
        await anyio.sleep(0.02)
    terminal("trace-live", view._lines(Screen(WIDTH, 23)), into)


def terminal(name: str, lines: list, into: Path) -> None:
    """Lines as a picture of a terminal."""
    console = Console(record=True, file=io.StringIO(), width=WIDTH, force_terminal=True)
    console.print(Group(*lines))
    save(name, console.export_svg(title=""), into)


def save(name: str, svg: str, into: Path) -> None:
    drawable = svg.replace("Fira Code", "DejaVu Sans Mono")  # what is to be had without a network
    (into / f"{name}.png").write_bytes(png(drawable, zoom=0.9))
    print(into / f"{name}.png")


async def browse(folder: Path, first: Path, second: Path, into: Path) -> None:
    """The views of the recorded run, by the keys that lead to them."""
    with open_run(first) as record:
        app = ViewerApp(folder, record)
        async with app.run_test(size=(130, 28)) as pilot:
            for name, keys in (
                ("trace-tree", ["down"] * 5),
                ("trace-waterfall", ["tab"]),
                ("trace-usage", ["tab"]),
                ("trace-radix", ["tab"]),
            ):
                await pilot.press(*keys)
                await pilot.pause()
                save(name, app.export_screenshot(), into)
            typed = record.spans(kinds=[SpanKind.GENERATION])[-1]
            await pilot.press("tab", "home")
            down = ["down"] * app.screen.tree_of_spans.index_of(typed.id)  # type: ignore[attr-defined]
            await pilot.press(*down, "enter", *["right"] * 4)
            await pilot.pause()
            save("trace-tokens", app.export_screenshot(), into)
    app = ViewerApp(folder)
    async with app.run_test(size=(130, 28)) as pilot:
        await pilot.press("d", "down", "d")
        await app.workers.wait_for_complete()
        await pilot.pause()
        save("trace-diff", app.export_screenshot(), into)
    assert second.exists()


def page(path: Path, into: Path) -> None:
    """The waterfall of the HTML page, in a browser."""
    browser = next(filter(None, map(shutil.which, ["chromium-headless-shell", "chromium"])), None)
    if browser is None:
        print("there is no browser: trace-page.png stays as it is")
        return
    with open_run(path) as record:
        made = path.with_suffix(".html")
        made.write_text(html(record), encoding="utf-8")
        chosen = record.spans(kinds=[SpanKind.GENERATION])[1].id
    subprocess.run(
        [
            browser,
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            "--window-size=1280,560",
            f"--screenshot={into / 'trace-page.png'}",
            f"{made.as_uri()}#waterfall/{chosen}",
        ],
        check=True,
        capture_output=True,
    )
    print(into / "trace-page.png")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--into", type=Path, default=Path("docs/images"))
    into = parser.parse_args().into.absolute()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wish = "A weekend in Europe in May, by train, for two."
        first = asyncio.run(run(folder, wish, into))
        second = asyncio.run(run(folder, f"{wish} We travel {DIFFERENT}."))
        asyncio.run(browse(folder, first, second, into))
        page(first, into)


if __name__ == "__main__":
    main()
