"""Which choices led to a value of a union, and how to exclude the value under these alone.

A value that one member of a union refuses may be right in another. What chose the member is written
before it: a tag, or a key that the others do not have.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from agentrt.programs.faults import Fault, Path, Written

Schema = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Mark:
    """What tells one member of a union from another: that the value at `path` has this JSON text,
    or, without one, that it is there."""

    path: Path
    value: str | int | bool | None = None
    is_key: bool = False

    def other(self) -> Schema:
        """A schema of the values that do not have it."""
        return _nested(self.path, False if self.is_key else {"not": {"const": self.value}})


def marks(written: Written, path: Path, schema: Schema) -> tuple[Mark, ...]:
    """What was written before the value at `path` that ruled a member of a union out."""
    found: list[Mark] = []
    members = _members([schema], schema)
    for depth, step in enumerate(path):
        inside = path[:depth]
        value = written.at(inside)
        if isinstance(value, dict):
            objects = [member for member in members if "properties" in member]
            others = [member for member in members if "properties" not in member]
            for key, inner in _until(cast("Schema", value), step):
                mark, left = _ruled_out(objects, (*inside, key), inner, schema)
                if 0 < len(left) < len(objects):
                    objects = left
                    found.append(mark)
            members = objects + others
        children = [child for member in members for child in _children(member, step)]
        members = _members(children, schema)
    return tuple(found)


def _until(value: Schema, key: str | int) -> Iterator[tuple[str, Any]]:
    """What is written before a key."""
    return takewhile(lambda item: item[0] != key, value.items())


def _ruled_out(
    members: Sequence[Schema], path: Path, value: Any, root: Schema
) -> tuple[Mark, list[Schema]]:
    """What rules most out of a key and its value, and the members that are left."""
    key = str(path[-1])
    known = [member for member in members if key in member["properties"]]
    if value is not None and not isinstance(value, str | int):
        return Mark(path, is_key=True), known
    lists = [(member, _listed(member["properties"][key], root)) for member in known]
    left = [member for member, values in lists if values is None or _has(values, value)]
    is_key = len(left) == len(known)
    return Mark(path, None if is_key else value, is_key), left


def places(written: Written, fault: Fault, marks: Sequence[Mark]) -> list[int]:
    """Where to go on from, in bytes, the last first: at what was refused, then at each choice that
    led there, out to the start of the text."""
    starts = {fault.span.start, 0}
    for end in range(1, len(fault.path) + 1):
        within = fault.path[:end]
        starts |= {written.entry(within), written.span(within).start}
    for mark in marks:
        starts.add(written.entry(mark.path) if mark.is_key else written.span(mark.path).start)
    return sorted((start for start in starts if start <= fault.span.start), reverse=True)


def without(path: Path, is_key: bool, marks: Sequence[Mark], values: Sequence[Any]) -> Schema:
    """A schema that excludes values at a path, or keys of what is there, where all marks are."""
    other: Schema = {"not": {"enum": [*values]}}
    excluded = _nested(path, {"propertyNames": other} if is_key else other)
    return {"anyOf": [excluded, *(mark.other() for mark in marks)]} if marks else excluded


def _nested(path: Path, schema: Schema | bool) -> Schema:
    """A schema that says `schema` of what is at `path`, and nothing of anything else."""
    for step in reversed(path):
        if isinstance(step, str):
            schema = {"properties": {step: schema}}
        else:
            schema = {"prefixItems": [*[{} for _ in range(step)], schema]}
    return cast("Schema", schema)


def _members(schemas: Sequence[Any], root: Schema) -> list[Schema]:
    """The schemas, and all that they are unions of or refer to, each once."""
    found: list[Schema] = []
    left = [*schemas]
    while left:
        each = left.pop()
        if not isinstance(each, dict) or not each or any(each is seen for seen in found):
            continue
        found.append(cast("Schema", each))
        left += [inner for name in ("allOf", "anyOf", "oneOf") for inner in each.get(name, ())]
        if "$ref" in each:
            left.append(_resolved(each["$ref"], root))
    return found


def _resolved(ref: str, root: Schema) -> Any:
    """What a reference within the schema is to."""
    found: Any = root
    for step in ref.removeprefix("#").split("/")[1:]:
        known = isinstance(found, dict)
        found = found.get(step.replace("~1", "/").replace("~0", "~")) if known else None
    return found


def _children(member: Schema, step: str | int) -> Iterator[Any]:
    """The schemas of what is one step inside."""
    if isinstance(step, str):
        yield member.get("properties", {}).get(step, member.get("additionalProperties", {}))
    else:
        first = member.get("prefixItems", ())
        yield first[step] if step < len(first) else member.get("items", {})


def _listed(schema: Any, root: Schema) -> list[Any] | None:
    """The only values that a schema has, where it lists them."""
    lists = [
        [each["const"]] if "const" in each else each["enum"]
        for each in _members([schema], root)
        if "const" in each or "enum" in each
    ]
    return [value for values in lists for value in values] if lists else None


def _has(values: Sequence[Any], value: Any) -> bool:
    """Whether a JSON value is among others: there, true is not 1."""
    return any(
        value == each and isinstance(value, bool) == isinstance(each, bool) for each in values
    )
