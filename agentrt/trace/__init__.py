"""What runs leave behind: spans as they happen, a record of each run, and reading it again.

from agentrt import trace

trace.configure(content=False)                # names, numbers and times, but no texts
with trace.latest_run() as run:
    for span in run.children(run.root().id):
        print(span.name, span.duration_s)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from agentrt.trace.config import TraceConfig, configure
from agentrt.trace.reading import RecordedRun
from agentrt.trace.records import RunInfo, RunState
from agentrt.trace.runs import delete_run, latest_run, list_runs, open_run
from agentrt.trace.session import Recording, current_recording, recording
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
    "RecordedRun",
    "Recording",
    "RunInfo",
    "RunState",
    "Sink",
    "Span",
    "SpanKind",
    "SpanStatus",
    "TraceConfig",
    "add_sink",
    "configure",
    "current_recording",
    "current_span",
    "delete_run",
    "inside",
    "is_recording",
    "latest_run",
    "list_runs",
    "live_view",
    "open_run",
    "recording",
    "remove_sink",
    "span",
    "start_span",
]


def __getattr__(name: str) -> Any:
    # The viewer stands above the programs, and spans below them: it is loaded when it is asked for.
    if name in {"LiveView", "live_view"}:
        return getattr(importlib.import_module("agentrt.trace.viewer"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
