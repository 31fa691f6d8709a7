"""How many values fit an expression, as far as it is few."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agentrt.schema.algebra.shapes import ObjectShape
    from agentrt.schema.algebra.space import Expr, Space
    from agentrt.schema.values.strings import Strings


def count(space: Space, expr: Expr, limit: int) -> int:
    """The number of values, or `limit` if there are that many or more.

    Parts that overlap are counted more than once, and arrays and objects as endless, unless they
    are single values: the answer is exact for what enums and consts make.
    """
    values = space.normal(expr)
    total = int(values.null) + int(values.true) + int(values.false)
    total += sum(n.count(limit) for n in values.numbers)
    for strings in values.strings:
        total += _count_strings(strings, limit)
    for array in values.arrays:
        total += _count_array(
            space,
            [array.item(i) for i in range(array.lo)]
            if array.lo == array.hi and array.lo < 64
            else None,
            limit,
        )
    for shape in values.objects:
        if shape.hi is None or shape.hi != len(shape.required):
            return limit
        product = 1
        known = dict(shape.named)
        for name in shape.required:
            product *= count(space, known.get(name) or shape.class_of(name), limit)
        total += product
    return min(total, limit)


def surely(space: Space, expr: Expr, least: int, depth: int = 3) -> bool:
    """Whether some part of an expression has so many values alone. False is no answer.

    Objects are looked into to a depth: one property of many values makes many of them.
    """
    values = space.normal(expr)
    return (
        any(_count_strings(strings, least) >= least for strings in values.strings)
        or any(numbers.count(least) >= least for numbers in values.numbers)
        or (depth > 0 and any(_surely(space, o, least, depth - 1) for o in values.objects))
    )


def endless(space: Space, expr: Expr) -> bool:
    """Whether some part of an expression has values without end. False is no answer."""
    values = space.normal(expr)
    return any(
        n.points is None
        and not n.is_empty
        and (n.multiple is None or n.lo is None or n.hi is None)
        and (n.lo is None or n.lo != n.hi)
        for n in values.numbers
    ) or any(
        s.hi is None and not s.is_empty and (s.dfa is None or s.dfa.longest is None)
        for s in values.strings
    )


def _surely(space: Space, shape: ObjectShape, least: int, depth: int) -> bool:
    if shape.some or shape.implied:
        return False
    known = dict(shape.named)
    required = [known.get(name) or shape.class_of(name) for name in shape.required]
    if not all(surely(space, value, 1, depth) for value in required):
        return False

    def allowed(properties: int) -> bool:
        return shape.lo <= properties and (shape.hi is None or properties <= shape.hi)

    many = required if allowed(len(required)) else []
    if allowed(len(required) + 1):
        many += [value for name, value in shape.named if name not in shape.required]
    return any(surely(space, value, least, depth) for value in many)


def _count_strings(strings: Strings, limit: int) -> int:
    found = strings.words(limit)
    return limit if found is None else len(found)


def _count_array(space: Space, items: list[Expr] | None, limit: int) -> int:
    if items is None:
        return limit
    product = 1
    for item in items:
        product = min(limit, product * count(space, item, limit))
    return product
