"""What a recorded run cost, by program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentrt.generation import Timings, Usage
from agentrt.trace.records import ProgramUsage
from agentrt.trace.spans import SpanKind, SpanStatus

if TYPE_CHECKING:
    import sqlite3

OUTSIDE = ""
"""The name of what is outside of any program."""


def usage_by_program(db: sqlite3.Connection) -> list[ProgramUsage]:
    """Generations are counted to the innermost program they ran in."""
    totals: dict[str, ProgramUsage] = {}
    owners: dict[int | None, str] = {None: OUTSIDE}
    for span, parent, kind, name, status in db.execute(
        "SELECT id, parent, kind, name, status FROM spans ORDER BY id"
    ):
        if kind != SpanKind.PROGRAM:
            owners[span] = owners.get(parent, OUTSIDE)
            continue
        owners[span] = name
        total = totals.setdefault(name, ProgramUsage(name))
        total.calls += 1
        total.failed += status == SpanStatus.ERROR
    for span, *numbers in db.execute(
        "SELECT span, input_tokens, cached_tokens, sampled_tokens, forced_tokens, queue_s, "
        "prefill_s, decode_s FROM generations WHERE input_tokens IS NOT NULL"
    ):
        name = owners.get(span, OUTSIDE)
        _add(totals.setdefault(name, ProgramUsage(name)), *numbers)
    return sorted(totals.values(), key=_cost, reverse=True)


def _add(total: ProgramUsage, *numbers: Any) -> None:
    *counts, queue, prefill, decode = [number or 0 for number in numbers]
    total.generations += 1
    total.usage += Usage(*counts)
    total.timings += Timings(queue, prefill, decode)


def _cost(total: ProgramUsage) -> float:
    return total.timings.prefill_s + total.timings.decode_s
