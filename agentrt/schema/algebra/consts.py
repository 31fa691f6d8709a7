"""A JSON value as the set that holds it alone."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import TYPE_CHECKING

from agentrt.errors import SchemaError
from agentrt.schema.algebra.shapes import ArrayShape, ObjectShape, Values
from agentrt.schema.values import numbers, strings
from agentrt.schema.values.strings import EVERY_STRING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from agentrt.schema.algebra.space import Expr, Space

Json = object
"""What `json.loads` gives."""

_Row = tuple[tuple[str, ...], ...]


def as_fraction(value: object, pointer: str) -> Fraction:
    """A JSON number as it is written: 0.1 is one tenth."""
    if isinstance(value, float):
        try:
            return Fraction(repr(value))
        except ValueError:
            raise SchemaError(pointer, f"{value!r} is no JSON number") from None
    if isinstance(value, int):
        return Fraction(value)
    return Fraction(str(value))


def is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def one_of(space: Space, values: Iterable[Json], pointer: str) -> Expr:
    """The set of exactly these JSON values."""
    listed = list(values)
    texts = [v for v in listed if isinstance(v, str)]
    points = [as_fraction(v, pointer) for v in listed if is_number(v)]
    arrays: dict[int, list[Sequence[Json]]] = {}
    objects: dict[tuple[str, ...], list[Sequence[Json]]] = {}
    for value in listed:
        if isinstance(value, list):
            arrays.setdefault(len(value), []).append(value)
        elif isinstance(value, dict):
            objects.setdefault(tuple(value), []).append([*value.values()])
    return space.exact(
        Values(
            any(v is None for v in listed),
            any(v is True for v in listed),
            any(v is False for v in listed),
            (numbers.of(points),) if points else (),
            (strings.words(sorted(set(texts))),) if texts else (),
            _arrays(space, arrays.values(), pointer),
            _objects(space, objects, pointer),
        ),
        pointer,
    )


def together(space: Space, singles: Sequence[Expr]) -> Expr:
    """The set of what these sets of one value each hold."""
    if len(singles) == 1:
        return singles[0]
    parts = [space.normal(single) for single in singles]
    points = frozenset(p for v in parts for n in v.numbers for p in n.points or ())
    texts = {text for v in parts for s in v.strings for text in s.words(1) or ()}
    return space.exact(
        Values(
            any(v.null for v in parts),
            any(v.true for v in parts),
            any(v.false for v in parts),
            (numbers.of(points),) if points else (),
            (strings.words(sorted(texts)),) if texts else (),
            tuple(a for v in parts for a in v.arrays),
            tuple(o for v in parts for o in v.objects),
        )
    )


def _arrays(
    space: Space, by_length: Iterable[list[Sequence[Json]]], pointer: str
) -> tuple[ArrayShape, ...]:
    shapes: dict[ArrayShape, None] = {}
    for rows in by_length:
        for row in _joined(rows):
            prefix = tuple(one_of(space, values, pointer) for values in row)
            shapes[ArrayShape(prefix, space.nothing, len(row), len(row))] = None
    return tuple(shapes)


def _objects(
    space: Space, by_names: Mapping[tuple[str, ...], list[Sequence[Json]]], pointer: str
) -> tuple[ObjectShape, ...]:
    shapes: dict[ObjectShape, None] = {}
    rest = ((EVERY_STRING, space.nothing),)
    for names, rows in by_names.items():
        for row in _joined(rows):
            values = (one_of(space, values, pointer) for values in row)
            named, size = tuple(zip(names, values, strict=True)), len(names)
            shapes[ObjectShape(named, rest, frozenset(names), size, size)] = None
    return tuple(shapes)


def _joined(rows: list[Sequence[Json]]) -> list[list[list[Json]]]:
    """The same rows, those that differ in one place alone as one: of each place its values."""
    if len(rows) == 1:
        return [[[value] for value in rows[0]]]
    # told apart as they are written: True is no 1
    found = list(dict.fromkeys(tuple((json.dumps(value),) for value in row) for row in rows))
    for place in range(len(found[0])):
        joined: dict[object, tuple[_Row, dict[str, None], _Row]] = {}
        for row in found:
            before, values, after = row[:place], row[place], row[place + 1 :]
            _, known, _ = joined.setdefault((before, after), (before, {}, after))
            known.update(dict.fromkeys(values))
        found = [(*before, tuple(values), *after) for before, values, after in joined.values()]
    return [[[json.loads(text) for text in texts] for texts in row] for row in found]
