"""A JSON value as the set that holds it alone."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from agentrt.errors import SchemaError
from agentrt.schema.algebra.shapes import ArrayShape, ObjectShape, Values
from agentrt.schema.values import numbers, strings
from agentrt.schema.values.strings import EVERY_STRING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from agentrt.schema.algebra.space import Expr, Space

Json = object
"""What `json.loads` gives."""


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
    arrays = dict.fromkeys(_array(space, v, pointer) for v in listed if isinstance(v, list))
    objects = dict.fromkeys(_object(space, v, pointer) for v in listed if isinstance(v, dict))
    return space.exact(
        Values(
            any(v is None for v in listed),
            any(v is True for v in listed),
            any(v is False for v in listed),
            (numbers.of(points),) if points else (),
            (strings.words(sorted(set(texts))),) if texts else (),
            tuple(arrays),
            tuple(objects),
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


def _array(space: Space, items: list[Json], pointer: str) -> ArrayShape:
    prefix = tuple(one_of(space, [item], pointer) for item in items)
    return ArrayShape(prefix, space.nothing, len(items), len(items))


def _object(space: Space, members: dict[str, Json], pointer: str) -> ObjectShape:
    named = tuple((name, one_of(space, [value], pointer)) for name, value in members.items())
    return ObjectShape(
        named, ((EVERY_STRING, space.nothing),), frozenset(members), len(members), len(members)
    )
