"""Records one run: what its spans say is queued where it happens and stored by a thread."""

from __future__ import annotations

import sqlite3
import threading
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING

from agentrt.trace.attributes import CHUNK
from agentrt.trace.engines import RecordedRuntime
from agentrt.trace.files import prune, run_path
from agentrt.trace.privacy import Privacy
from agentrt.trace.spans import Event, Span, remove_sink
from agentrt.trace.store import Store
from agentrt.trace.warning import warn

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from pathlib import Path

    from agentrt.trace.config import TraceConfig
    from agentrt.trace.engines import EngineStep
    from agentrt.trace.spans import Value

_INTERVAL_S = 0.4
"""Between two commits, so about what a kill can lose."""
_MOST_PENDING = 50_000
"""Queued records above which details are dropped, and twice as many above which spans are."""
_PRUNE_EVERY = 64 << 20

Pending = Span | tuple[Span, Event]


class Recorder:
    """A sink that stores the spans of one run in a file of their own.

    What it is told is one entry in a queue; a thread of its own takes the entries two or three
    times a second, reads what the spans say by then and commits. Where the thread cannot keep up,
    the record loses detail, never the run time: first events and large attributes, then whole
    spans; the run says how many. Where the file cannot be written, recording ends with a warning.

    The file is made when there is something to say besides that the run began.
    """

    def __init__(
        self, run: Span, config: TraceConfig, folder: Path, *, most_pending: int = _MOST_PENDING
    ) -> None:
        self.path = run_path(folder, run.run_id)
        self._run = run
        self._run_id = run.run_id
        self._config = config
        self._most_pending = most_pending
        self._privacy = Privacy(content=config.content, redact=config.redact)
        self._pending: deque[Pending] = deque([run])
        self._refused: set[int] = set()
        self._dropped = 0
        self._without_content = 0
        self._runtimes: list[RecordedRuntime] = []
        self._stored_runtimes = 0
        self._store: Store | None = None
        self._failed = False
        self._pruned_at = 0
        self._stop = threading.Event()
        self._writing = threading.Lock()
        self._thread = threading.Thread(target=self._work, name="agentrt-trace", daemon=True)

    def __repr__(self) -> str:
        return f"<Recorder {self.path}>"

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Stores what is left and closes the file. Blocking."""
        self._stop.set()
        self._thread.join()

    def add_runtime(
        self,
        model: str,
        token_bytes: Callable[[int], bytes],
        attributes: Mapping[str, Value],
        steps: deque[EngineStep] | None = None,
    ) -> RecordedRuntime:
        """Makes known a model that generations of this run will be of, which name it by its `id`.

        `token_bytes` gives what a token stands for in a text; it is called on another thread.
        `steps` is where its engine will leave what it did.
        """
        runtime = RecordedRuntime(len(self._runtimes) + 1, model, token_bytes, attributes)
        if steps is not None:
            runtime.steps = steps
        self._runtimes.append(runtime)
        return runtime

    def started(self, span: Span) -> None:
        if span.run_id != self._run_id:
            return
        if len(self._pending) < 2 * self._most_pending:
            self._pending.append(span)
        else:
            self._refused.add(span.id)

    def changed(self, span: Span, changes: Mapping[str, Value]) -> None:  # noqa: ARG002
        # Read when it is stored; this only makes sure that it is read again.
        self._detail(span, span)

    def event(self, span: Span, event: Event) -> None:
        if event.name != CHUNK:  # the whole output comes with the end
            self._detail(span, (span, event))

    def ended(self, span: Span) -> None:
        if span.run_id != self._run_id:
            return
        if span.id in self._refused:
            self._refused.discard(span.id)
            if len(self._pending) >= self._most_pending:
                self._dropped += 1
                return
        self._pending.append(span)

    def _detail(self, span: Span, what: Pending) -> None:
        if span.run_id != self._run_id or span.id in self._refused:
            return
        if len(self._pending) < self._most_pending:
            self._pending.append(what)
        else:
            self._dropped += 1

    def flush(self) -> None:
        """Stores what was said so far; does nothing once recording has failed. Blocking."""
        with self._writing:
            if self._failed:
                return
            try:
                self._flush()
            except Exception as error:  # whatever it is, it must not reach the program
                self._fail(error)

    def _work(self) -> None:
        while not self._stop.wait(_INTERVAL_S):
            self.flush()
        self.flush()
        if self._store is not None:
            with suppress(sqlite3.Error):  # what was committed is there
                self._store.close()

    def _fail(self, error: Exception) -> None:
        self._failed = True
        remove_sink(self)
        self._pending.clear()
        # Without the file's name, so that the next run's warning is the same and not shown again.
        warn(
            f"this run is recorded no further: its file in {self.path.parent} cannot be written "
            f"({error}); set AGENTRT_TRACE to another folder, or to off"
        )

    def _flush(self) -> None:
        if self._store is None and all(entry is self._run for entry in tuple(self._pending)):
            return
        crowded = len(self._pending) > self._most_pending // 2
        spans: dict[Span, None] = {}
        events: list[tuple[int, Event]] = []
        for _ in range(len(self._pending)):
            entry = self._pending.popleft()
            if isinstance(entry, Span):
                spans[entry] = None
            else:
                events.append((entry[0].id, entry[1]))
        store = self._opened()
        if spans or events or any(r.steps or r.trees for r in self._runtimes):
            self._write(store, spans, events, crowded=crowded)

    def _opened(self) -> Store:
        """The store, made when it is first needed, with every runtime in it."""
        if self._store is None:
            prune(self.path.parent, self._config.limit_bytes)
            self._store = Store(self.path, self._run, self._privacy)
        for runtime in self._runtimes[self._stored_runtimes :]:
            self._store.add_runtime(runtime)
            self._stored_runtimes += 1
        return self._store

    def _write(
        self,
        store: Store,
        spans: Collection[Span],
        events: Collection[tuple[int, Event]],
        *,
        crowded: bool,
    ) -> None:
        size = store.size_bytes
        content = not crowded and size < self._config.limit_bytes
        if not content:
            self._without_content += sum(span.ended_ns is not None for span in spans)
        store.write(
            spans,
            events,
            self._runtimes,
            content=content,
            dropped=self._dropped,
            without_content=self._without_content,
        )
        if size - self._pruned_at > _PRUNE_EVERY:
            self._pruned_at = size
            prune(self.path.parent, self._config.limit_bytes)
