"""A sink that remembers what it was told."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from agentrt.trace.spans import Event, Span, Value, add_sink, remove_sink


class Remembering:
    """Everything it was told, in order, as (what, name of the span, detail)."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str, object]] = []
        self.spans: list[Span] = []

    def started(self, span: Span) -> None:
        self.told.append(("started", span.name, dict(span.attributes)))
        self.spans.append(span)

    def changed(self, span: Span, changes: Mapping[str, Value]) -> None:
        self.told.append(("changed", span.name, dict(changes)))

    def event(self, span: Span, event: Event) -> None:
        self.told.append(("event", span.name, (event.name, dict(event.attributes))))

    def ended(self, span: Span) -> None:
        self.told.append(("ended", span.name, span.status))

    def named(self, name: str) -> Span:
        (found,) = [span for span in self.spans if span.name == name]
        return found


@contextmanager
def listening() -> Iterator[Remembering]:
    """A remembering sink that listens inside the block."""
    sink = Remembering()
    add_sink(sink)
    try:
        yield sink
    finally:
        remove_sink(sink)
