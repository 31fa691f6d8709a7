"""Bounds on dates as patterns: dates of fixed width are in order as texts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from agentrt.schema.flat.spelling import digit_runs

if TYPE_CHECKING:
    from datetime import date

_WIDTHS = (4, 2, 2)
Bound = Literal["ge", "gt", "le", "lt"]


def date_pattern(bound: Bound, given: date) -> str:
    """The texts YYYY-MM-DD on one side of a date. What is no date is left to `format`."""
    parts = (given.year, given.month, given.day)
    ways: list[str] = []
    for i, (part, width) in enumerate(zip(parts, _WIDTHS, strict=True)):
        strictly = i < len(parts) - 1 or bound in ("gt", "lt")
        after = bound in ("ge", "gt")
        lo, hi = (part + strictly, 10**width - 1) if after else (0, part - strictly)
        if lo > hi:
            continue
        same = "".join(f"{p:0{w}}-" for p, w in zip(parts[:i], _WIDTHS, strict=False))
        ways.append(f"{same}({'|'.join(digit_runs(lo, hi, width))})")
    return f"^({'|'.join(ways)})"
