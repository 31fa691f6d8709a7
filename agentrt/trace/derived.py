"""Attributes that are stored in columns, or follow from what is around a span: found when read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentrt.generation import Usage
from agentrt.trace import attributes as names
from agentrt.trace.engine_log import FOREVER_NS
from agentrt.trace.rows import NUMBERS
from agentrt.trace.spans import SpanKind

if TYPE_CHECKING:
    import sqlite3

    from agentrt.trace.engine_log import EngineLog
    from agentrt.trace.spans import Value
    from agentrt.trace.texts import RunTexts

USAGE = (
    names.USAGE_INPUT_TOKENS,
    names.USAGE_CACHED_TOKENS,
    names.USAGE_SAMPLED_TOKENS,
    names.USAGE_FORCED_TOKENS,
)


def usage_of(*counts: int | None) -> Usage | None:
    """The usage of these counts, in the order of `USAGE`, if all are known."""
    known = [count for count in counts if count is not None]
    return Usage(*known) if len(known) == len(counts) else None


def numbers(db: sqlite3.Connection, span_id: int) -> dict[str, Value]:
    """Attributes that are kept in columns, under their names again."""
    columns = ", ".join(NUMBERS.values())
    row = db.execute(f"SELECT {columns} FROM generations WHERE span = ?", (span_id,)).fetchone()
    if row is None:
        return {}
    found: dict[str, Any] = {
        key: value for key, value in zip(NUMBERS, row, strict=True) if value is not None
    }
    usage = usage_of(*[found.get(key) for key in USAGE])
    if usage is not None:
        found[names.USAGE_OUTPUT_TOKENS] = usage.output_tokens
        found[names.USAGE_COMPUTED_TOKENS] = usage.computed_tokens
        found[names.USAGE_CACHE_READ_INPUT_TOKENS] = usage.cached_tokens
    return found


def around(
    db: sqlite3.Connection, texts: RunTexts, kind: str, parent: int | None
) -> dict[str, Value]:
    """The branch that a generation or a branch is in, and what a generation repairs."""
    found: dict[str, Value] = {}
    row = (kind, None, parent)
    while row[2] is not None and names.BRANCH_PARENT not in found:
        row = db.execute("SELECT kind, id, parent FROM spans WHERE id = ?", (row[2],)).fetchone()
        if row is None:
            break
        if row[0] == SpanKind.BRANCH:
            found[names.BRANCH_PARENT] = row[1]
        elif row[0] == SpanKind.VALIDATION and kind != SpanKind.BRANCH:
            refused = str(texts.one(row[1], names.VALIDATION_ERRORS) or "")
            if refused.startswith("/"):
                found[names.CONSTRAINT_POINTER] = refused.partition(": ")[0]
    return found


def pressure(
    engines: EngineLog, runtime: Value, started_ns: int, ended_ns: int | None
) -> dict[str, Value]:
    """How full the pool was while a generation ran."""
    if not isinstance(runtime, int):
        return {}
    found = engines.pressure(runtime, started_ns, ended_ns or FOREVER_NS)
    if found is None:
        return {}
    return dict(zip((names.POOL_SLOTS_HELD, names.POOL_EVICTED_TOKENS), found, strict=True))
