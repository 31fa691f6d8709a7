"""Bounds on dates and times as patterns: texts of fixed width are in order as what they mean."""

from __future__ import annotations

from datetime import UTC, datetime, time
from typing import TYPE_CHECKING, Literal

from agentrt.errors import SchemaError
from agentrt.schema.flat.spelling import digit_runs

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import date

Bound = Literal["ge", "gt", "le", "lt"]
BOUNDS: tuple[Bound, ...] = ("gt", "ge", "lt", "le")

_DATE = ("year", "month", "day")
_TIME = ("hour", "minute", "second")
_AFTER = {"year": "-", "month": "-", "day": "T", "hour": ":", "minute": ":", "second": ""}


def bound_patterns(limits: Mapping[str, object]) -> list[str]:
    """A pattern for each bound on a date, a time of day or a moment in a core schema."""
    return [_pattern(bound, limits[bound]) for bound in BOUNDS if limits.get(bound) is not None]


def zone_of(limits: Mapping[str, object]) -> Literal["naive", "aware"] | None:
    """How texts with these bounds say their zone: not at all, or as UTC. None without bounds.

    Raises SchemaError where bounds and what is asked of zones do not go together.
    """
    asked = limits.get("tz_constraint")
    zones = {"naive" if g.tzinfo is None else "aware" for b in BOUNDS
             if isinstance(g := limits.get(b), datetime | time)}  # fmt: skip
    if not zones:
        return None
    if len(zones | ({asked} if asked else set())) > 1:
        raise SchemaError("", "bounds with a time zone and without one are not compared")
    return "aware" if "aware" in zones else "naive"


def _pattern(bound: Bound, given: object) -> str:
    if isinstance(given, datetime):
        given = given.astimezone(UTC) if given.tzinfo else given
        return _ordered(_whole(bound, given.microsecond), given, (*_DATE, *_TIME))
    if isinstance(given, time):
        if given.tzinfo is not None:
            raise SchemaError("", "bounds on times of day with a zone are not enforced")
        return _ordered(_whole(bound, given.microsecond), given, _TIME)
    return date_pattern(bound, given)  # pyright: ignore[reportArgumentType]


def _whole(bound: Bound, microsecond: int) -> Bound:
    """The bound on whole seconds, of which the given one is the last before the fraction."""
    after: dict[Bound, Bound] = {"ge": "gt", "gt": "gt", "lt": "le", "le": "le"}
    return after[bound] if microsecond else bound


def date_pattern(bound: Bound, given: date) -> str:
    """The texts YYYY-MM-DD on one side of a date. What is no date is left to `format`."""
    return _ordered(bound, given, _DATE)


def _ordered(bound: Bound, given: object, fields: tuple[str, ...]) -> str:
    """The texts on one side, by the first of these fields that differs."""
    ways: list[str] = []
    same = ""
    for i, name in enumerate(fields):
        part, width = int(getattr(given, name)), 4 if name == "year" else 2
        strictly = i < len(fields) - 1 or bound in ("gt", "lt")
        after = bound in ("ge", "gt")
        lo, hi = (part + strictly, 10**width - 1) if after else (0, part - strictly)
        if lo <= hi:
            ways.append(f"{same}({'|'.join(digit_runs(lo, hi, width))})")
        same += f"{part:0{width}}{_AFTER[name]}"
    return f"^({'|'.join(ways)})"
