"""A recorded run as JSON lines: the run, its runtimes, its spans as they began, then its engines'
batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentrt.trace.export.values import (
    batches_value,
    json_text,
    run_value,
    span_value,
    spans_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentrt.trace.reading import RecordedRun


def jsonl(run: RecordedRun) -> Iterator[str]:
    """Lines, each an object whose `type` is run, runtime, span or batch: what an engine did in a
    tenth of a second."""
    yield _line("run", run_value(run.info()))
    for runtime in run.runtimes():
        value: dict[str, Any] = {
            "id": runtime.id,
            "model": runtime.model,
            "attributes": dict(runtime.attributes),
        }
        yield _line("runtime", value)
    for span in spans_of(run):
        yield _line("span", span_value(run, span))
    for runtime in run.runtimes():
        for batches in run.batches(runtime.id):
            yield _line("batch", batches_value(runtime.id, batches))


def _line(kind: str, value: dict[str, Any]) -> str:
    return json_text({"type": kind, **value}) + "\n"
