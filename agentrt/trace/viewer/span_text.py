"""A span as a line: in the tree, and in the waterfall."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.text import Text

from agentrt.errors import InvalidRequest
from agentrt.trace import attributes as names
from agentrt.trace.attributes import TEXT_COMPLETION
from agentrt.trace.spans import SpanKind, SpanStatus
from agentrt.trace.viewer.live_draw import clipped
from agentrt.trace.viewer.words import STATUS_STYLES, Glyphs, counted, lasted, one_line

if TYPE_CHECKING:
    from agentrt.trace.reading import RecordedRun
    from agentrt.trace.records import GenerationRow, SpanRow
    from agentrt.trace.viewer.span_tree import TreeRow

KIND_STYLES = {
    SpanKind.RUN: "bold",
    SpanKind.PROGRAM: "bold",
    SpanKind.TOOL: "cyan",
    SpanKind.VALIDATION: "magenta",
}
PHASES = (("queue", "dim"), ("prefill", "blue"), ("decode", "green"))
GENERATING = {SpanKind.GENERATION, SpanKind.SELECT}
"""Kinds of spans that have tokens and phases."""
_GLANCE = 200
_TIME = 7


def label(span: SpanRow) -> str:
    """What a span is called on a screen: of a generation what is done, without the model."""
    name = one_line(span.name)
    if span.kind in GENERATING:
        done = name.partition(" ")[0]
        return "generate" if done == TEXT_COMPLETION else done
    return name or span.kind.value


def glance(run: RecordedRun, span: SpanRow) -> str:
    """The beginning of what a span came to: a text, an error, a tool's arguments; or nothing."""
    if span.status is SpanStatus.ERROR:
        found = run.attributes(span.id)
        kind = str(found.get(names.ERROR_TYPE) or "error").rpartition(".")[2]
        message = found.get(names.EXCEPTION_MESSAGE)
        return f"{kind}: {message}" if message else kind
    if span.kind in GENERATING:
        return (run.texts.output(span.id) or "")[:_GLANCE]
    key = {
        SpanKind.TOOL: names.TOOL_CALL_ARGUMENTS,
        SpanKind.PROGRAM: names.PROGRAM_RESULT,
        SpanKind.VALIDATION: names.VALIDATION_ERRORS,
    }.get(span.kind)
    value = None if key is None else run.texts.one(span.id, key)
    return "" if value is None else str(value)[:_GLANCE]


def tree_line(run: RecordedRun, row: TreeRow, width: int, glyphs: Glyphs) -> Text:
    """A row of the tree: what, how it ended, what came of it, tokens and time."""
    span = row.span
    ends = _ending(run, span, width)
    text = _head(row, glyphs)
    room = max(0, width - text.cell_len - len(ends) - 1)
    name = clipped(label(span), max(12, room // 2), glyphs)
    text.append(name, KIND_STYLES.get(span.kind, ""))
    said = one_line(glance(run, span)).strip()
    style = "red" if span.status is SpanStatus.ERROR else "dim"
    text.append("  ").append(clipped(said, room - cell_len(name) - 2, glyphs), style)
    text.truncate(max(0, width - len(ends) - 1), pad=True)
    return text.append(f" {ends}", "dim")


def waterfall_line(
    run: RecordedRun, row: TreeRow, width: int, glyphs: Glyphs, extent: tuple[int, int]
) -> Text:
    """A row of the waterfall: what, its time as a bar in the run's, and how long it took."""
    span = row.span
    left, room = waterfall_columns(width)
    text = _head(row, glyphs)
    text.append(label(span), KIND_STYLES.get(span.kind, ""))
    text.truncate(left, overflow="ellipsis", pad=True)
    time = f"{lasted(span.duration_s) if span.duration_s is not None else '':>{_TIME}}"
    generation = run.generation(span.id) if span.kind in GENERATING else None
    text.append(" ").append_text(bar(span, generation, extent, room, glyphs))
    return text.append(time, "dim")


def waterfall_columns(width: int) -> tuple[int, int]:
    """The columns of a waterfall that names take, and those that times are drawn in."""
    left = min(max(12, width * 2 // 5), 48)
    return left, max(0, width - left - 1 - _TIME)


def bar(
    span: SpanRow,
    generation: GenerationRow | None,
    extent: tuple[int, int],
    width: int,
    glyphs: Glyphs,
) -> Text:
    """A span's time as `width` columns of an extent in nanoseconds; a generation's in phases."""
    start, stop = columns(span.started_ns, span.ended_ns or extent[1], extent, width)
    text = Text(" " * start)
    if generation is None or generation.timings is None:
        sign = glyphs.line if span.kind is not SpanKind.TOOL else glyphs.full
        style = STATUS_STYLES[span.status] if span.kind is not SpanKind.TOOL else "cyan"
        text.append(sign * (stop - start), style)
    else:
        for (_, style), sign, (begin, end) in zip(
            PHASES,
            (glyphs.empty, glyphs.half, glyphs.full),
            phase_columns(span, generation, start, stop),
            strict=True,
        ):
            text.append(sign * (end - begin), style)
    text.truncate(width, pad=True)
    return text


def columns(begin_ns: int, end_ns: int, extent: tuple[int, int], width: int) -> tuple[int, int]:
    """The columns that a time takes, one at least."""
    whole = max(1, extent[1] - extent[0])
    start = min((begin_ns - extent[0]) * width // whole, max(0, width - 1))
    stop = -(-(end_ns - extent[0]) * width // whole)
    return max(0, start), min(max(stop, start + 1), width)


def phase_columns(
    span: SpanRow, generation: GenerationRow, start: int, stop: int
) -> list[tuple[int, int]]:
    """The columns of queue, prefill and decode within those of a span."""
    timings = generation.timings
    assert timings is not None
    total = max(timings.total_s, span.duration_s or 0.0, 1e-9)
    queue = start + round((stop - start) * timings.queue_s / total)
    prefill = queue + round((stop - start) * timings.prefill_s / total)
    return [(start, queue), (queue, min(prefill, stop)), (min(prefill, stop), stop)]


def extent_of(run: RecordedRun) -> tuple[int, int]:
    """When a run began and ended, so far, in nanoseconds since 1970."""
    start, stop, latest = run.db.execute(
        "SELECT min(started_ns), max(ended_ns), max(started_ns) FROM spans"
    ).fetchone()
    if start is None:
        raise InvalidRequest(f"{run.path.stem} has no span yet")
    return start, max(stop or 0, latest, start + 1)


def _head(row: TreeRow, glyphs: Glyphs) -> Text:
    """The lines that lead to a row, whether it is open, and how it ended."""
    lasts = row.lasts[1:]
    lead = "".join("  " if last else glyphs.bar for last in lasts[:-1])
    if lasts:
        lead += glyphs.corner if lasts[-1] else glyphs.tee
    text = Text().append(lead, "dim")
    if row.span.children:
        text.append(f"{glyphs.opened if row.is_open else glyphs.closed} ", "dim")
    return text.append(f"{glyphs.status[row.span.status]} ", STATUS_STYLES[row.span.status])


def _ending(run: RecordedRun, span: SpanRow, width: int) -> str:
    time = f"{lasted(span.duration_s) if span.duration_s is not None else '':>6}"
    if width < 60:
        return time
    generation = run.generation(span.id) if span.kind in GENERATING else None
    if generation is None or generation.usage is None:
        tokens = f"{counted(span.children)} inside" if span.children else ""
    else:
        usage = generation.usage
        tokens = f"{counted(usage.prompt_tokens)}+{counted(usage.output_tokens)} tok"
    return f"{tokens:>14} {time}"
