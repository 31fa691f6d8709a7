"""How far a map is: a bar on a terminal, a line now and then where there is none."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any, Self

from agentrt.errors import EngineClosed, NoRuntime
from agentrt.runtime.runtime import current_runtime

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

EVERY_S = 5.0
"""Seconds between two lines, where there is no terminal."""


class MapProgress:
    """Counts what is done, failed and restored; shows it on stderr if it is `shown`.

    `total` is None where the inputs have no length.
    """

    def __init__(
        self,
        name: str,
        total: int | None,
        shown: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.done = 0
        self.failed = 0
        self.restored = 0
        self._name = name
        self._total = total
        self._shown = shown
        self._clock = clock
        self._began = self._said = clock()
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> Self:
        self._began = self._said = self._clock()
        if self._shown and sys.stderr.isatty():
            self._bar = _bar()
            self._task = self._bar.add_task(self._name, total=self._total, facts="")
            self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
        elif self._shown:
            self._say()

    def advance(self, *, failed: bool = False, restored: bool = False) -> None:
        """One more input is done."""
        self.done += 1
        self.failed += failed
        self.restored += restored
        if self._bar is not None:
            self._bar.update(self._task, completed=self.done, facts=self.facts)
        elif self._shown and self._clock() - self._said >= EVERY_S:
            self._say()

    @property
    def facts(self) -> str:
        """Rate, tokens a second, failures: what there is to say."""
        seconds = self._clock() - self._began
        fresh = self.done - self.restored
        parts = [f"{fresh / seconds:.1f}/s"] if fresh and seconds > 0 else []
        try:
            speed = current_runtime().stats().tokens_per_s
        except (NoRuntime, EngineClosed):
            speed = 0.0
        parts += [f"{speed:.0f} tokens/s"] if speed else []
        parts += [f"{self.restored} from before"] if self.restored else []
        parts += [f"{self.failed} failed"] if self.failed else []
        return ", ".join(parts)

    def _say(self) -> None:
        self._said = self._clock()
        of = f"/{self._total}" if self._total is not None else ""
        print(f"{self._name}: {self.done}{of} {self.facts}".rstrip(), file=sys.stderr, flush=True)


def _bar() -> Any:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[facts]}"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
    )
