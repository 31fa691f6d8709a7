"""What of a JSON text Pydantic refuses: which value, or which key, and where it is written."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, cast

from agentrt.errors import SchemaError
from agentrt.schema import Span
from agentrt.schema import partial as parse_partial
from agentrt.schema.load.resources import pointer_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pydantic import ValidationError
    from pydantic_core import ErrorDetails

Path = tuple[str | int, ...]

_ANY = object()
_OF_ANOTHER_SCHEMA = ("missing", "extra_forbidden", "literal_error", "enum", "union_tag_invalid")


@dataclass(frozen=True, slots=True)
class Fault:
    """What was refused of a value: the value at `path`, or where `is_key` the key it is under."""

    path: Path
    is_key: bool
    span: Span
    refused: Any
    reason: str
    members: tuple[tuple[Path, str | int], ...]
    """The members of unions that said so, outermost first, and where the unions are."""
    is_of_schema: bool
    """The member's schema already refuses it: the text was written as another member."""

    @property
    def within(self) -> Path:
        """Where it is excluded from."""
        return self.path[:-1] if self.is_key else self.path


@dataclass(frozen=True, slots=True)
class Written:
    """A JSON text, its value, and where each value in it is written, in bytes by pointer."""

    text: str
    value: Any
    spans: Mapping[str, Span]

    @classmethod
    def of(cls, text: str) -> Written:
        # a bare number could still go on, for all that its text says
        whole = Span(0, len(text.encode()))
        return cls(text, json.loads(text), {"": whole, **parse_partial(text).spans})

    def span(self, path: Path) -> Span:
        return self.spans[pointer_of(path)]

    def at(self, path: Path) -> Any:
        value = self.value
        for step in path:
            value = value[step]
        return value

    def before(self, path: Path) -> Path | None:
        """The value written before the one at `path`, in the same object or array."""
        siblings = self.at(path[:-1])
        keys = list(cast("dict[str, Any]", siblings)) if isinstance(siblings, dict) else None
        place = keys.index(str(path[-1])) if keys else int(path[-1])
        if place == 0:
            return None
        return (*path[:-1], keys[place - 1] if keys else place - 1)

    def entry(self, path: Path) -> int:
        """Where the one before a value ends, or its object or array begins: a comma may follow."""
        before = self.before(path)
        return self.span(path[:-1]).start + 1 if before is None else self.span(before).end


def first_fault(written: Written, error: ValidationError) -> Fault:
    """The fault that is written first. Raises SchemaError where type and schema disagree."""
    errors = error.errors()
    if all(each["type"] == "missing" for each in errors):
        names = ", ".join(".".join(map(str, each["loc"])) for each in errors)
        raise SchemaError(
            "",
            f"{error.title} wants {names} of a value that has all its JSON schema asks for",
            "see what its validators with mode='before' take away",
        )
    return _first([_fault(written, each) for each in errors], 0)


def _first(faults: Iterable[Fault], depth: int) -> Fault:
    """The first fault; of a union, all of whose members refuse the value, that of the member it
    was written as."""

    def member(fault: Fault) -> tuple[Path, str]:
        path, name = fault.members[depth]
        return path, str(name)

    plain = [fault for fault in faults if len(fault.members) == depth]
    inner = sorted((fault for fault in faults if len(fault.members) > depth), key=member)
    for _, union in groupby(inner, key=lambda fault: fault.members[depth][0]):
        members = [list(said) for _, said in groupby(union, key=member)]
        fits = [said for said in members if not any(fault.is_of_schema for fault in said)]
        found = (_first(said, depth + 1) for said in fits or members)
        plain.append(max(found, key=lambda fault: fault.span.start))
    return min(plain, key=lambda fault: fault.span.start)


def _fault(written: Written, error: ErrorDetails) -> Fault:
    """What one of Pydantic's errors is about. Its location ends in "[key]" where that is a key."""
    loc, kind = error["loc"], error["type"]
    is_of_schema = kind in _OF_ANOTHER_SCHEMA or kind.endswith("_type")
    if loc and loc[-1] == "[key]":
        path, members = _path(written.value, loc[:-1])
        container = written.at(path[:-1])
        if path[-1:] == loc[-2:-1] and isinstance(container, dict):
            start = written.entry(path) + (written.before(path) is not None)
            span = Span(start, written.span(path).end)
            return Fault(path, True, span, path[-1], error["msg"], members, is_of_schema)
    path, members = _path(written.value, loc, error["input"])
    span, refused = written.span(path), written.at(path)
    return Fault(path, False, span, refused, error["msg"], members, is_of_schema)


_Way = tuple[Path, tuple[tuple[Path, "str | int"], ...]]


def _path(value: Any, loc: Sequence[str | int], refused: Any = _ANY) -> _Way:
    """Where in the JSON value Pydantic's location is; it names union members and aliases too.

    A name in it may be that of a union's member and of a field: the way that leads to what was
    `refused` is the right one, or else the one that takes every name for a field.
    """
    ways = list(_ways(value, loc, ()))
    return next((way for way, found in ways if found == refused), ways[0][0])


def _ways(value: Any, loc: Sequence[str | int], path: Path) -> Iterator[tuple[_Way, Any]]:
    """Every way through a value that a location can mean, and what is there; the longest first."""
    if not loc:
        yield (path, ()), value
        return
    step, rest = loc[0], loc[1:]
    is_field = isinstance(value, dict) and step in value
    if is_field or (isinstance(value, list) and isinstance(step, int) and step < len(value)):
        yield from _ways(cast("Any", value)[step], rest, (*path, step))
    for (at, members), found in _ways(value, rest, path):
        yield (at, ((path, step), *members)), found
