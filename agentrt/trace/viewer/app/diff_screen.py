"""Two runs, and what differs."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from rich.console import Group
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import Screen
from textual.widgets import Footer, Static

from agentrt.trace.reading import RecordedRun
from agentrt.trace.viewer.printing import diff_page, first_differences

if TYPE_CHECKING:
    from pathlib import Path

    from textual.app import ComposeResult


class DiffScreen(Screen[None]):
    """What a second run did otherwise than a first."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q", "app.pop_screen", "back")]

    def __init__(self, left: Path, right: Path) -> None:
        super().__init__()
        self._left, self._right = left, right

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="diff"):
            yield Static("comparing...", id="page")
        yield Footer()

    def on_mount(self) -> None:
        self.query_one("#diff").focus()
        self.run_worker(self._compare, thread=True)  # of large runs it takes some seconds

    def _compare(self) -> None:
        with RecordedRun(self._left) as left, RecordedRun(self._right) as right:
            page = Group(*diff_page(left, right, first_differences(left, right)))
        self.app.call_from_thread(self.query_one("#page", Static).update, page)
