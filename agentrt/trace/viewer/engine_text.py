"""What the engine of a run did, as lines on the time of its waterfall."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.text import Text

from agentrt.trace.viewer.span_text import columns, waterfall_columns
from agentrt.trace.viewer.words import Glyphs, counted, one_line, share

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from agentrt.trace.engines import EngineBatches
    from agentrt.trace.reading import RecordedRun


@dataclass(frozen=True, slots=True)
class Lane:
    """One figure over time: a value from 0 to 1 for each column, and the figure in short."""

    name: str
    values: Sequence[float]
    said: str
    style: str


def engine_lines(
    run: RecordedRun, width: int, glyphs: Glyphs, extent: tuple[int, int]
) -> list[Text]:
    """For each runtime: the pool's slots held and cached, output tokens a second, hit rate,
    evictions.

    Under the columns of the waterfall's bars; at the right the most, of the hit rate the mean.
    Nothing where no step is recorded.
    """
    left, room = waterfall_columns(width)
    runtimes = run.runtimes()
    lines: list[Text] = []
    for runtime in runtimes if room > 0 else ():
        title = one_line(runtime.model) if len(runtimes) > 1 else "engine"
        for lane in lanes(run, runtime.id, extent, room):
            line = Text(f"{title} {lane.name}", "dim")
            line.truncate(left, overflow="ellipsis", pad=True)
            line.append(" ").append(_sparks(lane.values, glyphs), lane.style)
            lines.append(line.append(f"{lane.said:>7}", "dim"))
    return lines


def lanes(run: RecordedRun, runtime: int, extent: tuple[int, int], room: int) -> Iterator[Lane]:
    """The figures of one runtime over time, in `room` columns."""
    whole = max(1, extent[1] - extent[0])
    batches = list(run.batches(runtime, stretch_ns=max(1, whole // room)))
    if not batches:
        return
    held, cached = [0.0] * room, [0.0] * room
    rates, evicted = [0.0] * room, [0.0] * room
    slots = max(b.slots_held + b.slots_cached + b.slots_free for b in batches) or 1
    for batch in batches:
        start, stop = columns(batch.started_ns, batch.ended_ns, extent, room)
        for at in range(start, stop):
            held[at] = max(held[at], batch.slots_held / slots)
            cached[at] = max(cached[at], batch.slots_cached / slots)
            rates[at] = max(rates[at], _rate(batch, whole // room))
        evicted[stop - 1] += batch.evicted
    yield Lane("pool held", held, f"{100 * max(held):.0f}%", "blue")
    yield Lane("pool cached", cached, f"{100 * max(cached):.0f}%", "cyan")
    yield Lane("tokens/s", _scaled(rates), counted(max(rates)), "green")
    hits, mean = _hit_rates(run, runtime, extent, room)
    yield Lane("hit rate", hits, mean, "yellow")
    if any(evicted):
        yield Lane("evicted", _scaled(evicted), counted(sum(evicted)), "magenta")


def _rate(batch: EngineBatches, column_ns: int) -> float:
    """Output tokens a second, over a column at least: one step is no stretch of time."""
    return batch.written * 1e9 / max(batch.ended_ns - batch.started_ns, column_ns, 1)


def _hit_rates(
    run: RecordedRun, runtime: int, extent: tuple[int, int], room: int
) -> tuple[list[float], str]:
    """Of the prompt tokens of the generations that ended in each column, the share cached."""
    cached, asked = [0] * room, [0] * room
    for ended, hits, tokens in run.db.execute(
        "SELECT ended_ns, cached_tokens, input_tokens FROM generations "
        "JOIN spans ON spans.id = span WHERE runtime = ? AND input_tokens AND ended_ns",
        (runtime,),
    ):
        at, _ = columns(ended, ended, extent, room)
        cached[at] += hits or 0
        asked[at] += tokens
    rates = [hits / tokens if tokens else 0.0 for hits, tokens in zip(cached, asked, strict=True)]
    return rates, share(sum(cached), sum(asked))


def _scaled(values: Sequence[float]) -> list[float]:
    most = max(values) or 1.0
    return [value / most for value in values]


def _sparks(values: Sequence[float], glyphs: Glyphs) -> str:
    """Each value as a column of its height; what is not nothing is seen."""
    top = len(glyphs.levels) - 1
    return "".join(glyphs.levels[min(top, -int(-value * top // 1))] for value in values)
