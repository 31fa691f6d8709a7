"""Pictures of a recorded run, for a paper or an issue: its tree of forks, and its waterfall."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape, quoteattr

from agentrt.errors import InvalidRequest
from agentrt.trace.spans import SpanKind, SpanStatus
from agentrt.trace.viewer.live_draw import clipped
from agentrt.trace.viewer.span_text import GENERATING, extent_of, glance, label
from agentrt.trace.viewer.span_tree import SpanTree
from agentrt.trace.viewer.words import UNICODE, lasted, one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentrt.trace.reading import RecordedRun
    from agentrt.trace.records import SpanRow
    from agentrt.trace.viewer.span_tree import TreeRow

MOST_ROWS = 300
_ROW, _STEP, _PAD = 22, 20, 16
_LABELS, _BARS, _TIMES = 330, 640, 70
_CHAR = 7.4
"""The width of a character, as the fonts asked for have it at this size; a little more is safe."""
_INK, _DIM, _LINE, _BACK = "#1b1f24", "#667080", "#c9d0d8", "#ffffff"
_COLOURS = {
    SpanStatus.OK: "#1a7f43",
    SpanStatus.ERROR: "#c0282d",
    SpanStatus.CANCELLED: "#8a3fb0",
    SpanStatus.RUNNING: "#1f5fbf",
}
_PHASES = (("queue", "#c9d0d8"), ("prefill", "#1f5fbf"), ("decode", "#1a7f43"))
_TOOL = "#0c7285"
_TICKS = 5


def tree_svg(run: RecordedRun) -> str:
    """The tree of spans: a line from each to what it started, a dot for how it ended."""
    rows, more = _rows(run)
    width = 2 * _PAD + _LABELS + _BARS
    parts = [_forks(rows)]
    for at, row in enumerate(rows):
        x, y = _place(row, at)
        room = int((width - _PAD - _TIMES - x - 18) / _CHAR) - len(label(row.span))
        text = clipped(one_line(glance(run, row.span)).strip(), room, UNICODE)
        parts.append(f'<circle cx="{x}" cy="{y}" r="4" fill="{_COLOURS[row.span.status]}"/>')
        name = f'<tspan font-weight="{_weight(row.span)}">{_text(label(row.span))}</tspan>'
        said = f'<tspan fill="{_DIM}" dx="8">{_text(text)}</tspan>' if text else ""
        parts.append(f'<text x="{x + 10}" y="{y + 4}">{name}{said}</text>')
        parts.append(_took(row.span, width - _PAD, y))
    return _page(run, width, len(rows), more, parts)


def waterfall_svg(run: RecordedRun) -> str:
    """When each span ran, a generation's queue, prefill and decode apart, under an axis of time."""
    rows, more = _rows(run)
    extent = extent_of(run)
    scale = _BARS / (extent[1] - extent[0])
    left = _PAD + _LABELS
    parts = list(_axis(extent, left, len(rows)))
    for at, row in enumerate(rows):
        x, y = _place(row, at)
        name = _text(clipped(label(row.span), int((left - x - 8) / _CHAR), UNICODE))
        parts.append(f'<text x="{x}" y="{y + 4}" font-weight="{_weight(row.span)}">{name}</text>')
        begin = left + (row.span.started_ns - extent[0]) * scale
        length = ((row.span.ended_ns or extent[1]) - row.span.started_ns) * scale
        parts += _bars(run, row.span, begin, max(length, 1.0), y)
        parts.append(_took(row.span, left + _BARS + _TIMES, y))
    return _page(run, left + _BARS + _TIMES + _PAD, len(rows), more, parts)


def png(svg: str, *, zoom: float = 2.0) -> bytes:
    """A picture as PNG, `zoom` pixels to one of its units.

    Raises InvalidRequest without the extra `png`.
    """
    try:
        import resvg_py
    except ImportError as error:
        raise InvalidRequest(
            "PNG needs resvg, which is not installed; pip install 'agentrt[png]', or export SVG"
        ) from error
    return bytes(resvg_py.svg_to_bytes(svg_string=svg, zoom=zoom))


def _rows(run: RecordedRun) -> tuple[list[TreeRow], int]:
    """The rows of a picture, from the top of the tree down, and how many spans have none."""
    tree = SpanTree(run)
    tree.open_around(MOST_ROWS)
    rows = list(islice(tree.rows(0, len(tree)), MOST_ROWS))
    return rows, run.info().spans - len(rows)


def _place(row: TreeRow, at: int) -> tuple[int, int]:
    return _PAD + _STEP * (len(row.lasts) - 1) + 4, _PAD + 30 + _ROW * at + _ROW // 2


def _forks(rows: list[TreeRow]) -> str:
    """The lines from each span to those inside it."""
    places = {row.span.id: _place(row, at) for at, row in enumerate(rows)}
    paths: list[str] = []
    for row in rows:
        above = places.get(row.span.parent_id or 0)
        if above is not None:
            x, y = places[row.span.id]
            paths.append(f"M{above[0]} {above[1]}V{y - 8}Q{above[0]} {y} {above[0] + 8} {y}H{x}")
    return f'<path d="{"".join(paths)}" fill="none" stroke="{_LINE}" stroke-width="1.5"/>'


def _axis(extent: tuple[int, int], left: int, rows: int) -> Iterator[str]:
    bottom = _PAD + 34 + _ROW * rows
    for tick in range(_TICKS + 1):
        x = left + _BARS * tick / _TICKS
        time = lasted((extent[1] - extent[0]) * tick / _TICKS / 1e9)
        yield f'<path d="M{x:.1f} {_PAD + 24}V{bottom}" stroke="{_LINE}" stroke-dasharray="2 3"/>'
        yield f'<text x="{x:.1f}" y="{_PAD + 20}" fill="{_DIM}" text-anchor="middle">{time}</text>'


def _bars(run: RecordedRun, span: SpanRow, begin: float, length: float, y: int) -> Iterator[str]:
    generation = run.generation(span.id) if span.kind in GENERATING else None
    if generation is None or generation.timings is None:
        colour = _TOOL if span.kind is SpanKind.TOOL else _COLOURS[span.status]
        yield _bar(begin, length, y - 2, 4, colour, span.kind.value)
        return
    timings = generation.timings
    whole = max(timings.total_s, span.duration_s or 0.0, 1e-9)
    for name, colour in _PHASES:
        seconds = getattr(timings, f"{name}_s")
        part = length * seconds / whole
        yield _bar(begin, max(part, 0.5), y - 6, 12, colour, f"{name} {lasted(seconds)}")
        begin += part


def _bar(x: float, width: float, y: float, height: int, colour: str, title: str) -> str:
    return (
        f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{height}" rx="1.5" '
        f'fill="{colour}"><title>{_text(title)}</title></rect>'
    )


def _took(span: SpanRow, right: int, y: int) -> str:
    took = "" if span.duration_s is None else lasted(span.duration_s)
    return f'<text x="{right}" y="{y + 4}" fill="{_DIM}" text-anchor="end">{took}</text>'


def _weight(span: SpanRow) -> str:
    return "600" if span.kind in {SpanKind.RUN, SpanKind.PROGRAM} else "400"


def _text(text: str) -> str:
    return escape(one_line(text))


def _page(run: RecordedRun, width: int, rows: int, more: int, parts: list[str]) -> str:
    height = 2 * _PAD + 34 + _ROW * (rows + (more > 0))
    if more > 0:
        y = height - _PAD
        parts.append(f'<text x="{_PAD}" y="{y}" fill="{_DIM}">and {more:,} more spans</text>')
    title = quoteattr(f"{one_line(run.info().name)}, recorded by agentrt")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" role="img" aria-label={title} fill="{_INK}" '
        "font-family=\"ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace\" "
        'font-size="12">\n'
        f'<rect width="100%" height="100%" fill="{_BACK}"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )
