"""The live view: what a program does while it runs, in the terminal it runs in."""

from __future__ import annotations

import math
import sys
import threading
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Literal, Self

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from agentrt.errors import EngineClosed, InvalidRequest, NoRuntime
from agentrt.programs.budget import current_budget
from agentrt.runtime.runtime import current_runtime
from agentrt.trace.config import resolve
from agentrt.trace.privacy import Privacy
from agentrt.trace.session import current_recording
from agentrt.trace.spans import SpanKind, add_sink, now_ns, remove_sink, status_of
from agentrt.trace.viewer.live_draw import Left, Screen, drawn
from agentrt.trace.viewer.live_model import LiveModel
from agentrt.trace.viewer.live_plain import plain_line, plain_summary
from agentrt.trace.viewer.words import glyphs_for
from agentrt.trace.warning import warn

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from agentrt.programs.budget import Budget
    from agentrt.runtime.runtime import Runtime
    from agentrt.runtime.stats import RuntimeStats
    from agentrt.trace.config import TraceConfig
    from agentrt.trace.spans import Event, Span, Value

_PER_SECOND = 8
_SUMMARY_ROWS = 20
_IN_A_BUDGET = {SpanKind.PROGRAM, SpanKind.GENERATION}
Told = tuple["Span", 'Event | Literal["started", "ended"]']


class LiveView:
    """Shows what runs inside its block; made by :func:`live_view`.

    As a sink it only queues what it is told. A thread of its own digests that about eight times a
    second and draws when a line has changed; where it cannot draw, it warns and shows no more.
    """

    def __init__(self, console: Console, *, is_animated: bool) -> None:
        self._console = console
        self._is_animated = is_animated
        self._told: deque[Told] = deque()
        self._model = LiveModel(now_ns())
        self._config: TraceConfig | None = None
        self._runtime: Runtime | None = None
        self._figures: RuntimeStats | None = None
        self._budget: Budget | None = None
        self._live: Live | None = None
        self._shown: list[Text] = []
        self._tallest = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="agentrt-live-view", daemon=True)

    def __repr__(self) -> str:
        return f"<LiveView {'animated' if self._is_animated else 'plain'}>"

    def __enter__(self) -> Self:
        with suppress(InvalidRequest):  # the environment is wrong: nothing is recorded
            self._respect(resolve())
        self._look_around()
        if self._is_animated:
            self._live = Live(
                console=self._console,
                auto_refresh=False,
                vertical_overflow="crop",
                # Above the view where they go to the terminal; else where they were sent.
                redirect_stdout=sys.stdout.isatty(),
                redirect_stderr=sys.stderr.isatty(),
            )
            self._live.start()
        add_sink(self, chunks=True)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        remove_sink(self)
        self._stop.set()
        self._thread.join()
        self._digest()
        self._model.close(status_of(error), now_ns())
        self._finish()

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.__exit__(kind, error, trace)

    # As a sink

    def started(self, span: Span) -> None:
        recording = current_recording()
        if recording is not None:
            self._respect(recording.config)
        if self._runtime is None or span.kind in _IN_A_BUDGET:
            self._look_around()
        self._told.append((span, "started"))

    def changed(self, span: Span, changes: Mapping[str, Value]) -> None:
        """Attributes are read from the span when it is drawn."""

    def event(self, span: Span, event: Event) -> None:
        self._told.append((span, event))

    def ended(self, span: Span) -> None:
        if span.kind is SpanKind.PROGRAM:
            self._stats()  # its runtime may be closed before the next frame
        self._told.append((span, "ended"))

    def _look_around(self) -> None:
        """Notes the runtime and the budget of the task that calls: only it knows them."""
        budget = current_budget()
        if budget is not None:
            self._budget = budget.chain[-1]  # the outermost: the others come and go
        try:
            self._runtime = current_runtime()
        except NoRuntime:
            return

    def _respect(self, config: TraceConfig) -> None:
        """Shows no more of texts than a run with these options stores of them."""
        if config is not self._config:
            self._config = config
            self._model.privacy = Privacy(content=config.content, redact=config.redact)

    # As a screen

    def _work(self) -> None:
        try:
            while not self._stop.wait(1 / _PER_SECOND):
                self._digest()
                self._draw()
        except Exception as error:  # a terminal that went away is no reason to stop a program
            remove_sink(self)
            warn(f"the live view shows no more: {type(error).__name__}: {error}")

    def _digest(self) -> None:
        """Takes in what was told, and in plain mode says it."""
        while self._told:
            span, what = self._told.popleft()
            if what == "started":
                self._model.started(span)
            elif what != "ended":
                self._model.event(span, what)
            else:
                node = self._model.ended(span)
                line = None if self._is_animated else plain_line(span, node, self._model.privacy)
                if line:
                    self._console.print(Text(line), soft_wrap=True)

    def _draw(self) -> None:
        if self._live is None:
            return
        self._model.refresh()
        size = self._console.size
        # One line is left for the cursor: a screen that is full would scroll.
        lines = self._lines(Screen(size.width, size.height - 1, glyphs_for(self._console)))
        self._tallest = min(max(self._tallest, len(lines)), size.height - 1)
        if lines != self._shown:
            self._shown = lines
            padding = [Text("")] * (self._tallest - len(lines))
            self._live.update(Group(*lines, *padding), refresh=True)

    def _finish(self) -> None:
        """Leaves a summary where the view was."""
        width = self._console.width
        if self._live is None:
            for line in plain_summary(self._model, now_ns()):
                self._console.print(Text(line), soft_wrap=True)
            return
        height = min(_SUMMARY_ROWS, self._console.height - 1)
        lines = self._lines(Screen(width, height, glyphs_for(self._console)))
        self._live.update(Group(*lines))
        self._live.stop()

    def _lines(self, screen: Screen) -> list[Text]:
        return drawn(self._model, now_ns(), screen, stats=self._stats(), left=self._left())

    def _stats(self) -> RuntimeStats | None:
        """The runtime's figures, its last ones when it is closed."""
        if self._runtime is not None:
            with suppress(EngineClosed):
                self._figures = self._runtime.stats()
        return self._figures

    def _left(self) -> Left | None:
        if self._budget is None:
            return None
        budget = self._budget
        left = (budget.tokens_left, budget.calls_left, budget.seconds_left)
        return Left(*[None if value == math.inf else value for value in left])


def live_view(*, console: Console | None = None, animated: bool | None = None) -> LiveView:
    """Shows programs and branches as they fork, write and join: `async with live_view(): ...`.

        async with Runtime(), live_view():
            await solve("...")

    Also as a plain `with`. Where the output is no terminal, one line is printed for each program,
    branch and tool that ends; `animated` says which of the two, `console` where (stderr, so that a
    program's own output can be piped). Colours are the terminal's own, and none with NO_COLOR. What
    it shows is left behind, summed up, when the block ends.
    """
    console = console if console is not None else Console(stderr=True, highlight=False)
    if animated is None:
        animated = console.is_terminal and not console.is_dumb_terminal
    return LiveView(console, is_animated=animated)
