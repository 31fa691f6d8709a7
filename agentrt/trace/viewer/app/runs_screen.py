"""The list of recorded runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual import on
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.widgets import Footer, Input, Static

from agentrt.trace.reading import RecordedRun
from agentrt.trace.runs import delete_run, list_runs
from agentrt.trace.viewer.app.diff_screen import DiffScreen
from agentrt.trace.viewer.app.rows import Rows
from agentrt.trace.viewer.app.run_screen import RunScreen
from agentrt.trace.viewer.live_draw import clipped
from agentrt.trace.viewer.printing import STATE_STYLES, when
from agentrt.trace.viewer.words import UNICODE, counted, lasted, one_line, share

if TYPE_CHECKING:
    from pathlib import Path

    from textual.app import ComposeResult

    from agentrt.trace.records import RunInfo


class RunsScreen(Screen[None]):
    """Every recorded run, the newest first."""

    CSS = "#head { height: 1; padding: 0 1; } #find { display: none; height: 3; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "search", "search"),
        Binding("d", "mark", "mark, then diff"),
        Binding("delete", "delete", "delete"),
        Binding("r", "reread", "refresh"),
        Binding("escape", "clear", "all runs", show=False),
        Binding("q", "app.quit", "quit"),
    ]

    def __init__(self, folder: Path | None) -> None:
        super().__init__()
        self._folder = folder
        self._all: list[RunInfo] = []
        self._shown: list[RunInfo] = []
        self._marked: RunInfo | None = None
        self._searched = ""
        self._doomed = ""

    def compose(self) -> ComposeResult:
        yield Static(id="head")
        yield Rows(lambda: len(self._shown), self._line, id="runs")
        yield Input(placeholder="search names of runs and their texts", id="find")
        yield Footer()

    def on_mount(self) -> None:
        self.action_reread()
        self.query_one(Rows).focus()

    def on_screen_resume(self) -> None:
        if self._all:
            self.action_reread()

    def _line(self, index: int, width: int) -> Text:
        info = self._shown[index]
        mark = "◆ " if self._marked is not None and info.id == self._marked.id else "  "
        took = "" if info.duration_s is None else lasted(info.duration_s)
        text = (
            Text()
            .append(mark, "magenta")
            .append(f"{info.state.value:<12}", STATE_STYLES[info.state])
        )
        ends = f"{when(info.started_ns):>17} {took:>6}"
        if width >= 80:
            usage = info.usage
            hit = share(usage.cached_tokens, usage.prompt_tokens)
            ends = f"{counted(info.generations):>6} gens {hit:>5} hit {ends}"
        room = max(8, width - text.cell_len - len(ends) - 1)
        text.append(clipped(one_line(info.name), room, UNICODE), "bold")
        text.truncate(max(0, width - len(ends) - 1), pad=True)
        return text.append(f" {ends}", "dim")

    def action_reread(self) -> None:
        self._all = list(list_runs(self._folder))
        self._choose()

    def _choose(self) -> None:
        self._shown = [info for info in self._all if self._matches(info)]
        head = f"{len(self._shown)} runs" + (f" with {self._searched!r}" if self._searched else "")
        if not self._all:
            head = "no run is recorded yet: run a program first"
        self.query_one("#head", Static).update(Text(head, "bold"))
        self.query_one(Rows).reload()

    def _matches(self, info: RunInfo) -> bool:
        if not self._searched or self._searched.lower() in f"{info.id} {info.name}".lower():
            return True
        with RecordedRun(info.path) as run:
            return next(iter(run.search(self._searched, limit=1)), None) is not None

    @on(Rows.Chosen)
    def _open(self, event: Rows.Chosen) -> None:
        self.app.push_screen(RunScreen(RecordedRun(self._shown[event.index].path)))

    def action_search(self) -> None:
        find = self.query_one("#find", Input)
        find.display = True
        find.focus()

    @on(Input.Submitted, "#find")
    def _search(self, event: Input.Submitted) -> None:
        self._searched = event.value
        self.query_one("#find", Input).display = False
        self._choose()
        self.query_one(Rows).focus()

    def action_clear(self) -> None:
        self._searched, self._marked = "", None
        self.query_one("#find", Input).display = False
        self._choose()
        self.query_one(Rows).focus()

    def action_mark(self) -> None:
        """Marks a run; with one marked, shows how the one under the cursor differs from it."""
        if not self._shown:
            return
        info = self._shown[self.query_one(Rows).cursor]
        if self._marked is None:
            self._marked = info
            self.notify("marked; press d on another run to see what differs")
        elif self._marked.id != info.id:
            self.app.push_screen(DiffScreen(self._marked.path, info.path))
            self._marked = None
        else:
            self._marked = None
        self.query_one(Rows).refresh()

    def action_delete(self) -> None:
        """Deletes the run under the cursor, when asked for twice."""
        if not self._shown:
            return
        info = self._shown[self.query_one(Rows).cursor]
        if self._doomed != info.id:
            self._doomed = info.id
            self.notify("press delete once more to delete this run", severity="warning")
            return
        delete_run(info.path)
        self.action_reread()
