"""The viewer of recorded runs: keys, a terminal, nothing to configure."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, ClassVar

from textual.app import App
from textual.binding import Binding, BindingType

from agentrt.trace.viewer.app.run_screen import RunScreen
from agentrt.trace.viewer.app.runs_screen import RunsScreen

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from agentrt.trace.reading import RecordedRun


class ViewerApp(App[None]):
    """The list of runs, or one of them. Colours are the terminal's own, on its background."""

    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("t", "light_or_dark", "light/dark", show=False)
    ]

    def __init__(self, folder: Path | None = None, run: RecordedRun | None = None) -> None:
        super().__init__()
        self._folder = folder
        self._run = run
        self.theme = "ansi-light" if is_light(os.environ) else "ansi-dark"

    def on_mount(self) -> None:
        self.push_screen(RunsScreen(self._folder))
        if self._run is not None:
            self.push_screen(RunScreen(self._run))

    def action_light_or_dark(self) -> None:
        """For a background that the terminal did not tell of."""
        self.theme = "ansi-dark" if self.theme == "ansi-light" else "ansi-light"


def is_light(environment: Mapping[str, str]) -> bool:
    """Whether a terminal says that its background is light: COLORFGBG, as rxvt and others set it;
    7 and 9 to 15 are the light ones of the sixteen colours."""
    background = environment.get("COLORFGBG", "").rpartition(";")[2]
    return background in {"7", *map(str, range(9, 16))}
