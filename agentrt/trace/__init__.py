"""What a program did, as a tree of spans: recorded, shown, replayed."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from agentrt.trace.viewer import LiveView, live_view

__all__ = [
    "Event",
    "LiveView",
    "Sink",
    "Span",
    "SpanKind",
    "SpanStatus",
    "add_sink",
    "current_span",
    "inside",
    "is_recording",
    "live_view",
    "remove_sink",
    "span",
    "start_span",
]


def __getattr__(name: str) -> Any:
    # The viewer stands above the programs, and spans below them: it is loaded when it is asked for.
    if name in {"LiveView", "live_view"}:
        return getattr(importlib.import_module("agentrt.trace.viewer"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
