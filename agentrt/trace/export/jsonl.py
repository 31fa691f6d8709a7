"""A recorded run as JSON lines: the run, its runtimes, then its spans as they began."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from agentrt.trace.export.values import run_value, span_value, spans_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentrt.trace.reading import RecordedRun


def jsonl(run: RecordedRun) -> Iterator[str]:
    """Lines, each an object whose `type` is run, runtime or span."""
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


def _line(kind: str, value: dict[str, Any]) -> str:
    return json.dumps({"type": kind, **value}, ensure_ascii=False, separators=(",", ":")) + "\n"
