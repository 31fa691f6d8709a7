"""Runs to look at, made of spans alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from agentrt.trace import attributes as names
from agentrt.trace.spans import Span, SpanKind, add_sink, now_ns, remove_sink, start_span
from agentrt.trace.viewer.live_draw import Screen, drawn
from agentrt.trace.viewer.live_model import LiveModel


class Feeding:
    """A sink that gives a model what it is told at once."""

    def __init__(self) -> None:
        self.model = LiveModel(now_ns())

    def started(self, span: Span) -> None:
        self.model.started(span)

    def changed(self, span: Span, changes: object) -> None:
        pass

    def event(self, span: Span, event: object) -> None:
        self.model.event(span, event)  # pyright: ignore[reportArgumentType]

    def ended(self, span: Span) -> None:
        self.model.ended(span)


@contextmanager
def watching() -> Iterator[LiveModel]:
    sink = Feeding()
    add_sink(sink)
    try:
        yield sink.model
    finally:
        remove_sink(sink)


def generation(parent: Span | None, *, name: str = "gen") -> Span:
    return start_span(SpanKind.GENERATION, name, parent=parent)


def written(span: Span, text: str, usage: tuple[int, int, int, int] = (100, 80, 12, 3)) -> None:
    """Ends a generation; usage is prompt, cached, sampled, forced tokens."""
    keys = (
        names.USAGE_INPUT_TOKENS,
        names.USAGE_CACHED_TOKENS,
        names.USAGE_SAMPLED_TOKENS,
        names.USAGE_FORCED_TOKENS,
    )
    span.set({**dict(zip(keys, usage, strict=True)), names.OUTPUT_TEXT: text})
    span.end()


def screen_of(model: LiveModel, width: int, height: int | None, **more: object) -> list[str]:
    lines = drawn(model, now_ns(), Screen(width, height), **more)  # pyright: ignore[reportArgumentType]
    return [line.plain for line in lines]
