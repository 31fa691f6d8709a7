"""A recorded run in the Trace Event Format that chrome://tracing, Perfetto and Speedscope open.

Source: "Trace Event Format" (Google, 2016): complete events X, instants i, counters C, metadata M;
times in microseconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentrt.trace.export.values import json_text, spans_of
from agentrt.trace.viewer.span_text import GENERATING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentrt.trace.reading import RecordedRun
    from agentrt.trace.records import GenerationRow, SpanRow

_SPANS, _ENGINE = 1, 2
"""The two processes: what the program did, and what its engines did."""


def chrome(run: RecordedRun) -> Iterator[str]:
    """Pieces of one JSON object."""
    yield '{"displayTimeUnit":"ms","traceEvents":['
    for at, event in enumerate(_events(run)):
        yield f"{',' if at else ''}\n{json_text(event)}"
    yield "\n]}\n"


def _events(run: RecordedRun) -> Iterator[dict[str, Any]]:
    info = run.info()
    for process, name in ((_SPANS, info.name), (_ENGINE, "engine")):
        yield {"ph": "M", "pid": process, "name": "process_name", "args": {"name": name}}
    zero, lanes = info.started_ns, Lanes()
    for span in spans_of(run):
        end_ns = span.ended_ns or info.ended_ns or span.started_ns
        lane = lanes.place(span, end_ns)
        yield from _span_events(run, span, end_ns, lane, zero)
    for runtime in run.runtimes():
        for batches in run.batches(runtime.id):
            yield {
                "ph": "X",
                "pid": _ENGINE,
                "tid": runtime.id,
                "name": runtime.model,
                "cat": "batch",
                "ts": _us(batches.started_ns - zero),
                "dur": _us(batches.ended_ns - batches.started_ns),
                "args": batches._asdict(),
            }
        for step in run.steps(runtime.id):
            counted = {
                "held": step.slots_held,
                "cached": step.slots_cached,
                "free": step.slots_free,
            }
            load = {"running": step.running, "waiting": step.waiting}
            for name, values in (("slots", counted), ("requests", load)):
                yield {
                    "ph": "C",
                    "pid": _ENGINE,
                    "name": f"{runtime.model} {name}",
                    "ts": _us(step.ended_ns - zero),
                    "args": values,
                }


def _span_events(
    run: RecordedRun, span: SpanRow, end_ns: int, lane: int, zero: int
) -> Iterator[dict[str, Any]]:
    common = {"pid": _SPANS, "tid": lane}
    yield {
        "ph": "X",
        **common,
        "name": span.name,
        "cat": span.kind.value,
        "ts": _us(span.started_ns - zero),
        "dur": _us(end_ns - span.started_ns),
        "args": {"id": span.id, "status": span.status.value, **run.attributes(span.id)},
    }
    generation = run.generation(span.id) if span.kind in GENERATING else None
    if generation is not None:
        for name, start_s, seconds in _phases(generation):
            yield {
                "ph": "X",
                **common,
                "name": name,
                "cat": "phase",
                "ts": _us(span.started_ns - zero + start_s * 1e9),
                "dur": _us(min(seconds * 1e9, end_ns - span.started_ns - start_s * 1e9)),
            }
    for event in run.events(span.id):
        yield {
            "ph": "i",
            "s": "t",
            **common,
            "name": event.name,
            "ts": _us(event.at_ns - zero),
            "args": dict(event.attributes),
        }


def _phases(generation: GenerationRow) -> Iterator[tuple[str, float, float]]:
    """Queue, prefill and decode: name, start within the generation, and length in seconds."""
    timings = generation.timings
    if timings is None:
        return
    yield "queue", 0.0, timings.queue_s
    yield "prefill", timings.queue_s, timings.prefill_s
    yield "decode", timings.queue_s + timings.prefill_s, timings.decode_s


class Lanes:
    """Puts spans on lanes so that those of a lane are beside each other or one within the other.

    A span goes where the one around it is if there is room, else to the first lane that is empty:
    concurrent branches get lanes of their own, and lanes are used again.
    """

    def __init__(self) -> None:
        self._lanes: list[list[tuple[int, int]]] = []
        """For each lane the open spans on it, the outermost first: id and end."""
        self._of: dict[int, int] = {}

    def place(self, span: SpanRow, end_ns: int) -> int:
        """The lane of a span; spans are to be given in the order they began."""
        parent = None if span.parent_id is None else self._of.get(span.parent_id)
        lane = parent if parent is not None and self._fits(parent, span, end_ns) else None
        if lane is None:
            empty = (at for at in range(len(self._lanes)) if not self._open(at, span.started_ns))
            lane = next(empty, len(self._lanes))
        if lane == len(self._lanes):
            self._lanes.append([])
        self._lanes[lane].append((span.id, end_ns))
        self._of[span.id] = lane
        return lane

    def _fits(self, lane: int, span: SpanRow, end_ns: int) -> bool:
        inside = self._open(lane, span.started_ns)
        return not inside or (inside[-1][0] == span.parent_id and end_ns <= inside[-1][1])

    def _open(self, lane: int, at_ns: int) -> list[tuple[int, int]]:
        """What is on a lane at a time, later than all before."""
        spans = self._lanes[lane]
        while spans and spans[-1][1] <= at_ns:
            spans.pop()
        return spans


def _us(nanoseconds: float) -> float:
    return max(0.0, round(nanoseconds / 1e3, 3))
