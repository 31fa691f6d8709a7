"""Expressions over sets of JSON values, and their normal forms.

Expressions are interned: equal ones are one object, so that the normal form of each is worked out
once and recursive schemas make finitely many.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeVar

from agentrt.errors import SchemaError
from agentrt.schema.algebra import combine
from agentrt.schema.algebra.shapes import (
    NO_VALUES,
    NUMBERS,
    STRINGS,
    ArrayShape,
    ObjectShape,
    Values,
)
from agentrt.schema.limits import current_pointer, locate, spend
from agentrt.schema.values.strings import EVERY_STRING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Op = Literal["exact", "lazy", "all", "any", "one", "not"]


T = TypeVar("T")


class NoBase(SchemaError):
    """An expression whose normal form asks for itself."""


class Expr:
    """A set of JSON values: given outright, found later, or combined from others.

    `pointer` is the JSON pointer of the schema that it came from, for errors.
    """

    __slots__ = ("id", "op", "parts", "pointer", "thunk", "values")

    def __init__(
        self,
        number: int,
        op: Op,
        parts: tuple[Expr, ...] = (),
        *,
        values: Values | None = None,
        thunk: Callable[[], Expr] | None = None,
        pointer: str = "",
    ) -> None:
        self.id = number
        self.op: Op = op
        self.parts = parts
        self.values = values
        self.thunk = thunk
        self.pointer = pointer

    def __repr__(self) -> str:
        return f"<{self.op} {self.id} {self.pointer}>"

    def __lt__(self, other: Expr) -> bool:
        return self.id < other.id

    def __reduce__(self) -> str | tuple[object, ...]:
        return _restored, (self.id, self.op, self.parts, self.values, self.pointer)


def _restored(
    number: int, op: Op, parts: tuple[Expr, ...], values: Values | None, pointer: str
) -> Expr:
    return Expr(number, op, parts, values=values, pointer=pointer)


class Space:
    """Makes expressions and knows their normal forms."""

    def __init__(self) -> None:
        self._made: dict[object, Expr] = {}
        self._normal: dict[Expr, Values] = {}
        self._lazy: dict[Expr, Expr] = {}
        self._flat: dict[Expr, bool] = {}
        self.evaluating: set[Expr] = set()
        self._count = self._settled = 0
        self.empty: dict[Expr, bool] = {}
        self.why_empty: dict[str, str] = {}
        """By pointer, why no value fits what stands there, where more can be said than that."""
        self.nothing = self.exact(NO_VALUES)
        any_ref = self.lazy("anything", lambda: self.anything)
        everything = Values(
            True,
            True,
            True,
            NUMBERS,
            STRINGS,
            (ArrayShape((), any_ref),),
            (ObjectShape((), ((EVERY_STRING, any_ref),)),),
        )
        self.anything = any_ref
        any_ref.values = everything

    @property
    def grown(self) -> int:
        """How many expressions were made since it was settled."""
        return len(self._made) - self._settled

    def settle(self) -> None:
        """What was made so far is the schema; what comes is made of the texts that follow it."""
        self._settled = self._count

    def forget(self) -> None:
        """Drops what was made since. Expressions in use stay good: equal ones may then exist twice,
        which costs time, not correctness."""
        self._made = {key: e for key, e in self._made.items() if e.id <= self._settled}
        self._normal = self._of_the_schema(self._normal)
        self._lazy = self._of_the_schema(self._lazy)
        self._flat = self._of_the_schema(self._flat)
        self.empty = self._of_the_schema(self.empty)

    def _of_the_schema(self, known: dict[Expr, T]) -> dict[Expr, T]:
        return {e: value for e, value in known.items() if e.id <= self._settled}

    def _intern(self, key: object, op: Op, **fields: object) -> Expr:
        found = self._made.get(key)
        if found is None:
            spend()
            self._count += 1
            found = self._made[key] = Expr(self._count, op, **fields)  # type: ignore[arg-type]
        return found

    def exact(self, values: Values, pointer: str = "") -> Expr:
        return self._intern(("exact", values), "exact", values=values, pointer=pointer)

    def lazy(self, key: object, thunk: Callable[[], Expr], pointer: str = "") -> Expr:
        """An expression known by a key, made when it is first looked into."""
        return self._intern(("lazy", key), "lazy", thunk=thunk, pointer=pointer)

    def all_of(self, parts: Iterable[Expr]) -> Expr:
        flat: dict[Expr, None] = {}
        for part in parts:
            for inner in part.parts if part.op == "all" else (part,):
                flat[inner] = None
        flat.pop(self.anything, None)
        if self.nothing in flat or any(e.op == "not" and e.parts[0] in flat for e in flat):
            return self.nothing
        if not flat:
            return self.anything
        if len(flat) == 1:
            return next(iter(flat))
        return self._intern(("all", frozenset(flat)), "all", parts=tuple(flat))

    def any_of(self, parts: Iterable[Expr]) -> Expr:
        flat: dict[Expr, None] = {}
        for part in parts:
            for inner in part.parts if part.op == "any" else (part,):
                flat[inner] = None
        flat.pop(self.nothing, None)
        if self.anything in flat:
            return self.anything
        if not flat:
            return self.nothing
        if len(flat) == 1:
            return next(iter(flat))
        return self._intern(("any", frozenset(flat)), "any", parts=tuple(flat))

    def one_of(self, parts: Iterable[Expr]) -> Expr:
        listed = tuple(parts)
        if len(listed) == 1:
            return listed[0]
        return self._intern(("one", listed), "one", parts=listed)

    def negation(self, part: Expr) -> Expr:
        if part.op == "not":
            return part.parts[0]
        if part is self.anything:
            return self.nothing
        if part is self.nothing:
            return self.anything
        return self._intern(("not", part), "not", parts=(part,))

    def normal(self, expr: Expr) -> Values:
        """The normal form: a union of shapes for each kind of value."""
        if expr.values is not None:
            return expr.values
        found = self._normal.get(expr)
        if found is not None:
            return found
        if expr in self.evaluating:
            raise NoBase(
                expr.pointer or current_pointer(),
                "this reference leads back to itself with no value in between",
                "put the recursion inside a property or an item",
            )
        if len(self.evaluating) > 200:
            raise SchemaError(
                expr.pointer or current_pointer(),
                "schemas are combined more than 200 deep",
                "flatten the nesting of allOf, anyOf, oneOf, not and $ref",
            )
        self.evaluating.add(expr)
        if expr.pointer:
            locate(expr.pointer)
        try:
            found = self._normal[expr] = self._evaluate(expr)
        finally:
            self.evaluating.discard(expr)
        return found

    def is_flat(self, expr: Expr) -> bool:
        """Whether an expression is one of values that hold no others, and plainly so: no normal
        form is worked out to tell. False is no answer."""
        known = self._flat.get(expr)
        if known is None:
            self._flat[expr] = False  # while it is looked into
            known = self._flat[expr] = self._looks_flat(expr)
        return known

    def _looks_flat(self, expr: Expr) -> bool:
        if expr.values is not None:
            return not (expr.values.arrays or expr.values.objects)
        if expr.op == "not":
            return False
        if expr.op == "lazy":
            try:
                return self.is_flat(self._found(expr))
            except SchemaError:
                return False  # it is for who needs it to tell of it
        # what all of them hold is flat where one is
        return (any if expr.op == "all" else all)(self.is_flat(part) for part in expr.parts)

    def _found(self, expr: Expr) -> Expr:
        """What a lazy expression stands for."""
        found = self._lazy.get(expr)
        if found is None:
            assert expr.thunk is not None
            found = self._lazy[expr] = expr.thunk()
        return found

    def _evaluate(self, expr: Expr) -> Values:
        spend()
        if expr.op == "lazy":
            return self.normal(self._found(expr))
        if expr.op == "all":
            return combine.intersection(self, [self.normal(p) for p in expr.parts])
        if expr.op == "any":
            return combine.union([self.normal(p) for p in expr.parts])
        if expr.op == "one":
            return combine.exactly_one(self, [self.normal(p) for p in expr.parts])
        return combine.complement(self, self.normal(expr.parts[0]))
