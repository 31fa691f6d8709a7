"""Whether any value fits an expression: the least fixed point over its shapes.

A schema that asks for itself inside every value it allows has no value, since values are finite:
an expression met again while it is being looked at counts as empty there. A "no" that rests on such
an assumption holds only together with what it was assumed of, so only that one is remembered.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from agentrt.errors import SchemaError
from agentrt.schema.algebra.arrays import ArrayPlan
from agentrt.schema.algebra.different import enough
from agentrt.schema.algebra.objects import ObjectPlan
from agentrt.schema.algebra.shapes import ArrayShape
from agentrt.schema.algebra.space import NoBase
from agentrt.schema.limits import current_pointer, spend

if TYPE_CHECKING:
    from agentrt.schema.algebra.shapes import ObjectShape, Values
    from agentrt.schema.algebra.space import Expr, Space

_NEVER = 1 << 60
_DEEPEST = 150


def is_empty(space: Space, expr: Expr) -> bool:
    """Whether no value fits."""
    found = space.empty.get(expr)
    if found is None:
        found = _Search(space).empty(expr)
    return found


def without_empty(space: Space, values: Values) -> Values:
    """The same values, without the shapes that nothing fits.

    Called while a normal form is worked out: a shape that leads back to it is kept.
    """
    return replace(
        values,
        numbers=tuple(n for n in values.numbers if not n.is_empty),
        strings=tuple(s for s in values.strings if not s.is_empty),
        arrays=tuple(a for a in values.arrays if may_hold(space, a)),
        objects=tuple(o for o in values.objects if may_hold(space, o)),
    )


class Undecided(Exception):
    """The answer depends on an expression whose normal form is being worked out just now."""


def may_hold(space: Space, shape: ArrayShape | ObjectShape) -> bool:
    """Whether something may fit the shape: yes where that cannot be told yet."""
    search = _Search(space)
    try:
        return search.array(shape) if isinstance(shape, ArrayShape) else search.object(shape)
    except (Undecided, NoBase):
        return True


class _Search:
    def __init__(self, space: Space) -> None:
        self.space = space
        self.open: dict[Expr, int] = {}
        self.lowest = _NEVER

    def empty(self, expr: Expr) -> bool:
        known = self.space.empty.get(expr)
        if known is not None:
            return known
        if expr in self.space.evaluating:
            raise Undecided
        if expr in self.open:
            self.lowest = min(self.lowest, self.open[expr])
            return True
        spend()
        depth = len(self.open)
        if depth > _DEEPEST:
            raise SchemaError(
                expr.pointer or current_pointer(),
                f"values must be nested more than {_DEEPEST} deep to fit",
            )
        outer, self.lowest = self.lowest, _NEVER
        self.open[expr] = depth
        found = not self.any_value(self.space.normal(expr))
        del self.open[expr]
        if not found or self.lowest >= depth:
            self.space.empty[expr] = found
            self.lowest = outer
        else:
            self.lowest = min(self.lowest, outer)
        return found

    def nonempty(self, expr: Expr) -> bool:
        return not self.empty(expr)

    def any_value(self, values: Values) -> bool:
        return (
            values.null
            or values.true
            or values.false
            or any(not s.is_empty for s in values.strings)
            or any(not n.is_empty for n in values.numbers)
            or any(self.array(a) for a in values.arrays)
            or any(self.object(o) for o in values.objects)
        )

    def array(self, shape: ArrayShape) -> bool:
        if shape.lo == 0 and not any(c.lo for c in shape.contains):
            return True
        plan = ArrayPlan(self.space, shape, self.nonempty)
        if not plan.completable(0, plan.start()):
            return False
        return not shape.unique or enough(plan, plan.start())

    def object(self, shape: ObjectShape) -> bool:
        known = dict(shape.named)
        plain = not shape.some and not shape.implied
        if plain and shape.lo <= len(shape.required):
            values = [known.get(n) or shape.class_of(n) for n in sorted(shape.required)]
            # what is flat costs least, and tells most alternatives apart (by a kind or a type)
            values.sort(key=lambda value: not self.space.is_flat(value))
            return (shape.hi is None or len(values) <= shape.hi) and all(
                self.nonempty(value) for value in values
            )
        plan = ObjectPlan(self.space, shape, self.nonempty, ordered=False)
        return plan.completable(seen=0, available=plan.every, classes=True, count=0, met=0)
