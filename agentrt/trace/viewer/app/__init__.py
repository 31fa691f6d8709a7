"""The viewer of recorded runs: keys, a terminal, nothing to configure."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from textual.app import App

from agentrt.trace.viewer.app.run_screen import RunScreen
from agentrt.trace.viewer.app.runs_screen import RunsScreen

if TYPE_CHECKING:
    from pathlib import Path

    from agentrt.trace.reading import RecordedRun


class ViewerApp(App[None]):
    """The list of runs, or one of them. Colours are those of the terminal, on its background."""

    ENABLE_COMMAND_PALETTE = False
    CSS = "Screen { background: ansi_default; }"

    def __init__(self, folder: Path | None = None, run: RecordedRun | None = None) -> None:
        super().__init__(ansi_color=True)
        self._folder = folder
        self._run = run
        self.theme = os.environ.get("TEXTUAL_THEME", "textual-ansi")

    def on_mount(self) -> None:
        self.push_screen(RunsScreen(self._folder))
        if self._run is not None:
            self.push_screen(RunScreen(self._run))
