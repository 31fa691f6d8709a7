"""What runs leave behind: spans as they happen, a record of each run, and reading it again.

from agentrt import trace

trace.configure(content=False)                # names, numbers and times, but no texts
with trace.latest_run() as run:
    for span in run.children(run.root().id):
        print(span.name, span.duration_s)
"""

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

__all__ = [
    "Event",
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
    "open_run",
    "recording",
    "remove_sink",
    "span",
    "start_span",
]
