"""What a program did, as a tree of spans: recorded, shown, replayed."""

from agentrt.trace.spans import (
    Event,
    Sink,
    Span,
    SpanKind,
    SpanStatus,
    add_sink,
    current_span,
    inside,
    is_recording,
    remove_sink,
    span,
    start_span,
)

__all__ = [
    "Event",
    "Sink",
    "Span",
    "SpanKind",
    "SpanStatus",
    "add_sink",
    "current_span",
    "inside",
    "is_recording",
    "remove_sink",
    "span",
    "start_span",
]
