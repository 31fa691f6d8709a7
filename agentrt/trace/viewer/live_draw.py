"""The live view as lines: a function of what runs, the time and the size of the screen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from agentrt.trace.spans import SpanKind, SpanStatus
from agentrt.trace.viewer.live_fold import Row, folded
from agentrt.trace.viewer.words import (
    STATUS_STYLES,
    UNICODE,
    Glyphs,
    counted,
    lasted,
    one_line,
    plural,
    share,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from agentrt.runtime.stats import RuntimeStats
    from agentrt.trace.viewer.live_model import LiveModel, Node

_WIDE = 60
"""Columns from which rows say how many tokens they took."""
_TALL = 12
"""Lines from which two of them may be the title."""
_BARRED = 48
"""Columns from which the pool is drawn as well as said."""
_WORDS = {
    SpanStatus.RUNNING: "running",
    SpanStatus.OK: "done",
    SpanStatus.ERROR: "failed",
    SpanStatus.CANCELLED: "cancelled",
}
_WAITING = {SpanKind.GENERATION: "reading", SpanKind.SELECT: "choosing"}
"""What is said of those that have not written anything yet."""


@dataclass(frozen=True, slots=True)
class Screen:
    """What is drawn on: `height` None is a page without an end."""

    width: int
    height: int | None
    glyphs: Glyphs = UNICODE


@dataclass(frozen=True, slots=True)
class Left:
    """What a budget still gives; None where it has no such limit."""

    tokens: float | None = None
    calls: float | None = None
    seconds: float | None = None


def drawn(
    model: LiveModel,
    now_ns: int,
    screen: Screen,
    *,
    stats: RuntimeStats | None = None,
    left: Left | None = None,
) -> list[Text]:
    """Lines no wider than the screen and no more than fit: figures above, the tree below."""
    lines = [*_title(model, now_ns, screen), *_figures(model, screen, stats, left)]
    top, indent = _top(model)
    room = 10**6 if screen.height is None else screen.height - len(lines)
    rows = folded(top, max(room, 0))
    lines += [_row(model, row, now_ns, screen, indent) for row in rows]
    return lines if screen.height is None else lines[: screen.height]


def _top(model: LiveModel) -> tuple[Node, int]:
    """The node whose children begin the tree, and how many levels are above them."""
    runs = list(model.root.children.values())
    if len(runs) == 1 and runs[0].kind is SpanKind.RUN and not model.root.forgotten:
        return runs[0], 0
    return model.root, 0


def _title(model: LiveModel, now_ns: int, screen: Screen) -> list[Text]:
    top = _top(model)[0]
    glyph = screen.glyphs.status[top.status]
    parts = [
        Text.assemble(
            (f"{glyph} ", STATUS_STYLES[top.status]), (one_line(top.name) or "agentrt", "bold")
        ),
        Text(lasted(top.seconds(now_ns)), "dim"),
    ]
    for counts, noun in ((model.programs, "program"), (model.branches, "branch")):
        total = counts.total()
        if total:
            parts.append(Text.assemble(plural(total, noun), _standing(counts, screen)))
    is_low = screen.height is not None and screen.height < _TALL
    return _joined(parts, screen)[: 1 if is_low else 2]


def _standing(counts: Mapping[SpanStatus, int], screen: Screen) -> Text:
    """How many of them stand how, each with its sign."""
    text = Text()
    for status in _WORDS:
        if counts.get(status):
            style = STATUS_STYLES[status]
            text.append(f" {screen.glyphs.status[status]}{counted(counts[status])}", style)
    return text


def _figures(
    model: LiveModel, screen: Screen, stats: RuntimeStats | None, left: Left | None
) -> list[Text]:
    usage = model.usage
    parts = [
        Text(f"{counted(usage.computed_tokens)} computed"),
        Text(f"{counted(usage.cached_tokens)} cached"),
        Text(f"{counted(usage.forced_tokens)} forced"),
        Text(f"{counted(usage.sampled_tokens)} sampled"),
    ]
    if stats is not None:
        parts.append(Text(f"{counted(stats.tokens_per_s)} tok/s", "bold"))
        parts.append(_pool(stats, screen))
    parts.append(Text(f"hit rate {share(usage.cached_tokens, usage.prompt_tokens)}"))
    if stats is not None:
        parts.append(Text(f"{stats.running} decoding, {stats.waiting} waiting", "dim"))
    spare = [] if left is None else list(_left(left))
    if spare:
        parts.append(Text(f"left: {', '.join(spare)}", "magenta"))
    return _joined(parts, screen)


def _left(left: Left) -> Iterable[str]:
    if left.tokens is not None:
        yield f"{counted(max(left.tokens, 0))} tokens"
    if left.calls is not None:
        yield plural(int(max(left.calls, 0)), "call")
    if left.seconds is not None:
        yield lasted(max(left.seconds, 0))


def _pool(stats: RuntimeStats, screen: Screen) -> Text:
    total = max(1, stats.slots_held + stats.slots_cached + stats.slots_free)
    cells = 10 if screen.width >= _WIDE else 6 if screen.width >= _BARRED else 0
    held = min(cells, -(-stats.slots_held * cells // total))
    cached = min(cells - held, round(stats.slots_cached * cells / total))
    glyphs = screen.glyphs
    return Text.assemble(
        "pool ",
        (glyphs.full * held, "blue"),
        (glyphs.half * cached, "cyan"),
        (glyphs.empty * (cells - held - cached), "dim"),
        " " if cells else "",
        f"{counted(stats.slots_held)} held",
        f" {counted(stats.slots_cached)} cached",
        f" {counted(stats.slots_free)} free",
    )


def _joined(parts: Sequence[Text], screen: Screen) -> list[Text]:
    """Parts one after the other, on as many lines as it takes; none is broken."""
    lines: list[Text] = []
    gap = f" {screen.glyphs.dot} "
    for part in parts:
        if lines and lines[-1].cell_len + len(gap) + part.cell_len <= screen.width:
            lines[-1].append(gap, "dim").append_text(part)
        else:
            lines.append(part.copy())
    for line in lines:
        line.truncate(screen.width, overflow="ellipsis")
    return lines


def _row(model: LiveModel, row: Row, now_ns: int, screen: Screen, indent: int) -> Text:
    lines = _branches(row.lasts[indent:], screen)
    if row.hidden is not None:
        return _summary(row.hidden, lines, screen)
    node = row.node
    ends = _ending(node, now_ns, screen)
    text = Text().append(lines, "dim")
    text.append(f"{screen.glyphs.status[node.status]} ", STATUS_STYLES[node.status])
    room = max(0, screen.width - text.cell_len - len(ends) - 1)
    name = clipped(one_line(node.name), max(8, room * 2 // 5), screen.glyphs)
    text.append(name, "bold" if node.kind is SpanKind.PROGRAM else "")
    said = _saying(model, node, room - cell_len(name) - 2, screen)
    text.append("  ").append_text(said)
    text.truncate(max(0, screen.width - len(ends) - 1), pad=True)
    return text.append(f" {ends}", "dim") if screen.width > len(ends) + 12 else text


def _branches(lasts: tuple[bool, ...], screen: Screen) -> str:
    """The lines that lead to a row. Deep ones are cut so that half the screen stays for words."""
    if not lasts:
        return ""
    glyphs = screen.glyphs
    through = "".join("  " if last else glyphs.bar for last in lasts[:-1])
    lead = through + (glyphs.corner if lasts[-1] else glyphs.tee)
    return lead if len(lead) <= screen.width // 2 else glyphs.cut + lead[1 - screen.width // 2 :]


def _summary(hidden: Mapping[SpanStatus, int], lines: str, screen: Screen) -> Text:
    text = Text.assemble((lines, "dim"), f"{screen.glyphs.cut} ")
    for status, word in _WORDS.items():
        if hidden.get(status):
            text.append(f"{counted(hidden[status])} {word}  ", STATUS_STYLES[status])
    text.rstrip()
    text.truncate(screen.width, overflow="ellipsis")
    return text


def _ending(node: Node, now_ns: int, screen: Screen) -> str:
    """The columns on the right: output tokens where there is room, and the time."""
    # A running time in tenths would change every row in every frame.
    spent = node.seconds(now_ns)
    time = f"{lasted(spent if not node.is_running or spent >= 60 else int(spent)):>6}"
    if node.is_running and spent < 1:
        time = f"{'<1s':>6}"
    return time if screen.width < _WIDE else f"{counted(node.usage.output_tokens):>6} tok {time}"


def _saying(model: LiveModel, node: Node, room: int, screen: Screen) -> Text:
    """What a row is doing or came to; of a text that is being written, its end."""
    glyphs = screen.glyphs
    if not node.is_running:
        if node.error:
            return Text(clipped(one_line(node.error), room, glyphs), "red")
        parts = [part for part in (_inside(node), one_line(node.said)) if part]
        return Text(clipped("  ".join(parts), room, glyphs), "dim")
    if not node.doing:
        return Text(clipped(_inside(node), room, glyphs), "dim")
    # The first of several is shown until it ends: a row that jumps between them is unreadable.
    span = next(iter(node.doing.values()))
    several = f"({len(node.doing)} at once) " if len(node.doing) > 1 else ""
    text = one_line(model.text_of(span)).strip()
    if span.kind is SpanKind.TOOL:
        said = clipped(f"{several}tool {text}", room, glyphs)
    elif text:
        said = several + clipped_left(text, room - len(several), glyphs)
    else:
        said = clipped(f"{several}{_WAITING.get(span.kind, span.name)}{glyphs.cut}", room, glyphs)
    return Text(said, "cyan" if span.kind is SpanKind.TOOL else "")


def _inside(node: Node) -> str:
    """How many branches and programs are in a row, and how they stand."""
    counts = {SpanStatus.RUNNING: node.running, **node.ended}
    parts = [f"{counted(counts[s])} {word}" for s, word in _WORDS.items() if counts.get(s)]
    return f"inside: {', '.join(parts)}" if parts else ""


def clipped(text: str, width: int, glyphs: Glyphs) -> str:
    """The beginning of a text in no more than `width` columns."""
    if cell_len(text) <= width:
        return text
    return set_cell_size(text, width - 1).rstrip() + glyphs.cut if width > 0 else ""


def clipped_left(text: str, width: int, glyphs: Glyphs) -> str:
    """The end of a text in no more than `width` columns."""
    if cell_len(text) <= width:
        return text
    if width <= 0:
        return ""
    end = text[-(width - 1) :] if width > 1 else ""
    while cell_len(end) > width - 1:
        end = end[1:]
    return glyphs.cut + end
