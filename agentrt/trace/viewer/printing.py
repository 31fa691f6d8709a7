"""The views of recorded runs as plain pages, for a pipe or a terminal that is not asked."""

from __future__ import annotations

import time
from itertools import islice
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.console import Group
from rich.table import Table
from rich.text import Text

from agentrt.trace.records import RunState
from agentrt.trace.spans import SpanKind
from agentrt.trace.viewer.diff import differences, figures
from agentrt.trace.viewer.engine_text import engine_lines
from agentrt.trace.viewer.radix_text import radix_line, radix_rows
from agentrt.trace.viewer.span_text import PHASES, extent_of, tree_line, waterfall_line
from agentrt.trace.viewer.span_tree import SpanTree
from agentrt.trace.viewer.token_text import legend, pieces, tokens_text
from agentrt.trace.viewer.words import counted, glyphs_for, harmless, lasted, one_line, share, sized

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rich.console import Console, RenderableType

    from agentrt.trace.reading import RecordedRun
    from agentrt.trace.records import Hit, ProgramUsage, RunInfo
    from agentrt.trace.viewer.diff import Difference

STATE_STYLES = {
    RunState.RUNNING: "blue",
    RunState.OK: "green",
    RunState.ERROR: "bold red",
    RunState.CANCELLED: "magenta",
    RunState.INTERRUPTED: "magenta",
}
MOST_DIFFERENCES = 500


_GAP = 2
_LONGEST_NAME = 24
_RUN_COLUMNS = ("run", "what", "state", "took", "spans", "gens", "prompt", "hit", "output", "size")
_LEAST_WANTED = ("size", "spans", "gens", "hit", "prompt", "output", "took", "state")
"""Columns of the list of runs, in the order in which they go where there is no room."""


def runs_table(runs: Iterable[RunInfo], width: int) -> Table:
    """Runs, one a row, in as many columns as there is room for; ids, which begin with when the run
    began, in UTC, are always whole."""
    rows = [_facts(info) for info in runs]
    shown = list(_RUN_COLUMNS)
    for name in _LEAST_WANTED:
        if _room_for(shown, rows) <= width:
            break
        shown.remove(name)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in shown:
        is_word = name in ("run", "what", "state")
        table.add_column(
            name,
            justify="left" if is_word else "right",
            no_wrap=True,
            overflow="ellipsis" if name == "what" else "fold",
            min_width=None if name == "what" else max(len(row[name]) for row in rows),
        )
    for row in rows:
        state = Text(row["state"], STATE_STYLES[RunState(row["state"])])
        table.add_row(*[state if name == "state" else Text(row[name]) for name in shown])
    return table


def runs_lines(runs: Iterable[RunInfo]) -> Iterator[str]:
    """The same for other programs: all columns, whole, with tabs between them."""
    yield "\t".join(_RUN_COLUMNS)
    for info in runs:
        yield "\t".join(_facts(info).values())


def _facts(info: RunInfo) -> dict[str, str]:
    """A row of the list of runs, by column."""
    facts = (
        info.id,
        one_line(info.name),
        info.state.value,
        "" if info.duration_s is None else lasted(info.duration_s),
        counted(info.spans),
        counted(info.generations),
        counted(info.usage.prompt_tokens),
        share(info.usage.cached_tokens, info.usage.prompt_tokens),
        counted(info.usage.output_tokens),
        sized(info.size_bytes),
    )
    return dict(zip(_RUN_COLUMNS, facts, strict=True))


def _room_for(shown: Sequence[str], rows: Sequence[dict[str, str]]) -> int:
    """Characters that these columns take; of a long name, as much as tells it from others."""
    widest = {name: max(len(name), *(cell_len(row[name]) for row in rows)) for name in shown}
    widest["what"] = min(widest["what"], _LONGEST_NAME)
    return sum(widest.values()) + _GAP * (len(shown) - 1)


def when(at_ns: int) -> str:
    """A moment in local time."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at_ns / 1e9))


def headline(info: RunInfo) -> Text:
    """A run in one line."""
    usage = info.usage
    text = Text.assemble(
        (one_line(info.name), "bold"), "  ", (info.state.value, STATE_STYLES[info.state])
    )
    if info.duration_s is not None:
        text.append(f"  {lasted(info.duration_s)}")
    text.append(
        f"  {counted(info.spans)} spans, {counted(info.generations)} generations, "
        f"{counted(usage.prompt_tokens)} prompt tokens "
        f"({share(usage.cached_tokens, usage.prompt_tokens)} cached), "
        f"{counted(usage.output_tokens)} output tokens",
        "dim",
    )
    if info.dropped or info.without_content:
        text.append(
            f"  {info.dropped} records dropped, {info.without_content} without texts", "magenta"
        )
    return text


def tree_page(run: RecordedRun, console: Console) -> Iterator[Text]:
    """The tree of spans, everything open; a very large one as far as it fits a page."""
    tree = _opened(run)
    for row in tree.rows(0, len(tree)):
        yield tree_line(run, row, console.width, glyphs_for(console))


def waterfall_page(run: RecordedRun, console: Console) -> Iterator[Text]:
    """When each span ran, generations in phases; above, what the engine did meanwhile."""
    glyphs = glyphs_for(console)
    signs = (glyphs.empty, glyphs.half, glyphs.full)
    text = Text()
    for (name, style), sign in zip(PHASES, signs, strict=True):
        text.append(f"{sign * 2} ", style).append(f"{name}  ")
    yield text
    tree, extent = _opened(run), extent_of(run)
    yield from engine_lines(run, console.width, glyphs, extent)
    for row in tree.rows(0, len(tree)):
        yield waterfall_line(run, row, console.width, glyphs, extent)


def tokens_page(run: RecordedRun, span_ids: Iterable[int]) -> Iterator[RenderableType]:
    """Prompts and outputs of generations, token by token."""
    for span_id in span_ids:
        span = run.span(span_id)
        shown = pieces(run, span_id)
        yield Text.assemble((f"{span_id} ", "dim"), (one_line(span.name), "bold"))
        if shown:
            yield legend(shown)
            yield Group(tokens_text(shown))
            continue
        prompt, output = run.texts.prompt(span_id), run.texts.output(span_id)
        if prompt is None and output is None:
            yield Text("(texts are not recorded)", "dim")
        else:
            yield Text(harmless(prompt or ""), "dim").append(harmless(output or ""), "not dim")


def usage_table(rows: Iterable[ProgramUsage]) -> Table:
    """What each program's own generations took."""
    rows = list(rows)
    has_failed = any(row.failed for row in rows)  # else there is no column, and all fit on 80
    failed = ("failed",) if has_failed else ()
    table = Table(box=None, pad_edge=False, collapse_padding=True, header_style="bold")
    table.add_column("program")
    for name in ("calls", *failed, "gens", "computed", "cached", "hit", "sampled", "forced"):
        table.add_column(name, justify="right")
    for name in ("queue", "prefill", "decode"):
        table.add_column(name, justify="right")
    for row in rows:
        usage, timings = row.usage, row.timings
        table.add_row(
            Text(one_line(row.name) or "(outside of programs)"),
            counted(row.calls),
            *([counted(row.failed)] if has_failed else []),
            counted(row.generations),
            counted(usage.computed_tokens),
            counted(usage.cached_tokens),
            share(usage.cached_tokens, usage.prompt_tokens),
            counted(usage.sampled_tokens),
            counted(usage.forced_tokens),
            *[
                lasted(seconds)
                for seconds in (timings.queue_s, timings.prefill_s, timings.decode_s)
            ],
        )
    return table


def radix_page(run: RecordedRun, console: Console) -> Iterator[Text]:
    """The radix caches as the run left them."""
    rows = radix_rows(run)
    if not rows:
        yield Text("(the cache was not recorded)", "dim")
    for row in rows:
        yield radix_line(row, console.width, glyphs_for(console))


def hits_page(run: RecordedRun, hits: Iterable[Hit]) -> Iterator[Text]:
    """Where a text was found."""
    for hit in hits:
        span = run.span(hit.span_id)
        yield hit_line(hit, span.name)


def hit_line(hit: Hit, name: str) -> Text:
    """One place where a text was found."""
    text = Text.assemble((f"{hit.span_id:>7} ", "dim"), (one_line(name), "bold"))
    text.append(f" {hit.field.removeprefix('agentrt.')}: ", "dim")
    text.append(one_line(hit.excerpt[: hit.start]))
    text.append(one_line(hit.excerpt[hit.start : hit.end]), "reverse")
    text.append(one_line(hit.excerpt[hit.end :]))
    return text.append(f" (and {hit.others:,} more)", "dim") if hit.others else text


def diff_page(
    left: RecordedRun, right: RecordedRun, found: Sequence[Difference]
) -> Iterator[RenderableType]:
    """Two runs side by side: totals, then each span that is not the same, of those `found`."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("")
    for title in (left.info().id, right.info().id, "change"):
        table.add_column(title, justify="right")
    for figure in figures(left, right):
        show = lasted if figure.name == "seconds" else counted
        change = f"{figure.right / figure.left - 1:+.0%}" if figure.left else ""
        table.add_row(figure.name, show(figure.left), show(figure.right), change)
    yield table
    yield Text("")
    if not found:
        yield Text("The same spans, prompts and outputs.")
    for difference in found[:MOST_DIFFERENCES]:
        yield from difference_lines(difference)
    if len(found) > MOST_DIFFERENCES:
        yield Text(f"... only the first {MOST_DIFFERENCES} differences are shown", "dim")


def first_differences(left: RecordedRun, right: RecordedRun) -> list[Difference]:
    """The differences that a page shows, and one more where there are more."""
    return list(islice(differences(left, right), MOST_DIFFERENCES + 1))


def difference_lines(difference: Difference) -> Iterator[Text]:
    """One difference: its place, then what differs."""
    if difference.right is None:
        yield Text.assemble(("- ", "red"), one_line(difference.path))
    elif difference.left is None:
        yield Text.assemble(("+ ", "green"), one_line(difference.path))
    else:
        yield Text.assemble(("~ ", "magenta"), (one_line(difference.path) or "run", "bold"))
        for name, change in difference.changes:
            yield Text.assemble((f"    {name}: ", "dim"), one_line(change))


def generations_of(run: RecordedRun, limit: int | None = None) -> list[int]:
    """The ids of a run's generations."""
    spans = run.spans(kinds=[SpanKind.GENERATION], limit=limit)
    return [span.id for span in spans]


def _opened(run: RecordedRun) -> SpanTree:
    tree = SpanTree(run)
    tree.open_all()
    return tree
