"""What a person is shown while a model is fetched or converted: a bar on a terminal, else a log."""

from __future__ import annotations

import logging
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Generator

log = logging.getLogger("agentrt.models")


class Report(Protocol):
    """Says how far the work has come, in the units of its total."""

    def __call__(self, done: float) -> None: ...


def announce(text: str) -> None:
    """One line for the person waiting: printed on a terminal, logged everywhere."""
    log.info(text)
    if sys.stderr.isatty():
        print(text, file=sys.stderr, flush=True)


@contextmanager
def progress(text: str, total: float | None, *, in_bytes: bool = False) -> Generator[Report]:
    """A bar for one piece of work of a known or unknown `total`, on standard error."""
    log.info(text)
    if not sys.stderr.isatty():
        yield _ignore
        return
    # Imported here: most starts convert nothing and should not pay for it.
    from rich import progress as bars
    from rich.console import Console

    amount = bars.DownloadColumn() if in_bytes else bars.TaskProgressColumn()
    columns = (bars.TextColumn("{task.description}"), bars.BarColumn(), amount)
    with bars.Progress(*columns, bars.TimeElapsedColumn(), console=Console(stderr=True)) as shown:
        task = shown.add_task(text, total=total)
        yield lambda done: shown.update(task, completed=done)
        if total is not None:
            shown.update(task, completed=total)


def _ignore(done: float) -> None:
    pass
