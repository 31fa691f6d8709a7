"""What the engines of a recorded run did, step by step or summed up over short stretches."""

from __future__ import annotations

from bisect import bisect_left
from functools import lru_cache
from itertools import groupby
from typing import TYPE_CHECKING

from agentrt.trace.encoding import unpack
from agentrt.trace.engines import EngineBatches, EngineStep, unpack_steps

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Iterator, Sequence

FOREVER_NS = 2**63 - 1
STRETCH_NS = 100_000_000
_MOST_UNPACKED = 256
"""Rows of steps that are kept unpacked, about a minute and a half of them."""


class EngineLog:
    """Reads the steps of a run's engines. Rows of them follow each other in time and never change:
    where each is, and what was in the last ones, is remembered."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._rows: dict[int, list[tuple[int, int, int]]] = {}
        """By runtime: when each row ended and began, and its id."""
        self._summed: dict[int, list[EngineBatches]] = {}
        self._unpacked = lru_cache(_MOST_UNPACKED)(self._unpack)

    def steps(
        self, runtime: int, from_ns: int = 0, until_ns: int = FOREVER_NS
    ) -> Iterator[EngineStep]:
        """The steps that ended in a stretch of time."""
        rows = self._known(runtime)
        for at in range(bisect_left(rows, (from_ns,)), len(rows)):
            _, began, row = rows[at]
            if began > until_ns:
                return
            for step in self._unpacked(row):
                if from_ns <= step.ended_ns <= until_ns:
                    yield step

    def batches(self, runtime: int, stretch_ns: int = STRETCH_NS) -> Iterator[EngineBatches]:
        """The steps summed up by stretches of that length; none for one without a step."""
        if stretch_ns < STRETCH_NS:
            parts = map(_alone, self.steps(runtime))
        else:
            parts = (part for _, _, row in self._known(runtime) for part in self._short(row))
        return _by_stretch(parts, stretch_ns)

    def pressure(self, runtime: int, from_ns: int, until_ns: int) -> tuple[int, int] | None:
        """The most slots that were held in a stretch of time, and how many tokens were evicted in
        it; None where no step ended in it."""
        steps = list(self.steps(runtime, from_ns, until_ns))
        if not steps:
            return None
        return max(step.slots_held for step in steps), sum(step.evicted for step in steps)

    def _known(self, runtime: int) -> list[tuple[int, int, int]]:
        rows = self._rows.setdefault(runtime, [])
        rows += self._db.execute(
            "SELECT ended_ns, started_ns, id FROM steps WHERE runtime = ? AND id > ? ORDER BY id",
            (runtime, rows[-1][2] if rows else 0),
        )
        return rows

    def _short(self, row: int) -> list[EngineBatches]:
        """A row by stretches that are short; they are few, so they are kept."""
        if row not in self._summed:
            parts = map(_alone, self._unpack(row))
            self._summed[row] = list(_by_stretch(parts, STRETCH_NS))
        return self._summed[row]

    def _unpack(self, row: int) -> list[EngineStep]:
        (data,) = self._db.execute("SELECT data FROM steps WHERE id = ?", (row,)).fetchone()
        return unpack_steps(unpack(data))


def _by_stretch(parts: Iterable[EngineBatches], stretch_ns: int) -> Iterator[EngineBatches]:
    for _, same in groupby(parts, lambda part: part.ended_ns // stretch_ns):
        yield _summed(list(same))


def _alone(step: EngineStep) -> EngineBatches:
    return EngineBatches(
        started_ns=step.ended_ns - int(step.seconds * 1e9),
        ended_ns=step.ended_ns,
        steps=1,
        seconds=step.seconds,
        computed=step.computed,
        written=step.written,
        evicted=step.evicted,
        running=step.running,
        waiting=step.waiting,
        slots_held=step.slots_held,
        slots_cached=step.slots_cached,
        slots_free=step.slots_free,
    )


def _summed(parts: Sequence[EngineBatches]) -> EngineBatches:
    last = parts[-1]
    return EngineBatches(
        started_ns=parts[0].started_ns,
        ended_ns=last.ended_ns,
        steps=sum(part.steps for part in parts),
        seconds=sum(part.seconds for part in parts),
        computed=sum(part.computed for part in parts),
        written=sum(part.written for part in parts),
        evicted=sum(part.evicted for part in parts),
        running=max(part.running for part in parts),
        waiting=max(part.waiting for part in parts),
        slots_held=max(part.slots_held for part in parts),
        slots_cached=last.slots_cached,
        slots_free=last.slots_free,
    )
