"""Sets of JSON values in normal form: a union of shapes for each kind of value.

What stands inside arrays and objects stays a symbolic expression, looked into only when needed;
recursion comes to rest there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from agentrt.schema.values.numbers import EVERY_NUMBER, Numbers
from agentrt.schema.values.strings import EVERY_STRING, Strings

if TYPE_CHECKING:
    from agentrt.schema.algebra.space import Expr


@dataclass(frozen=True, slots=True)
class Contains:
    """From item `start` on, `lo` to `hi` (None: any number of) items match."""

    item: Expr
    start: int = 0
    lo: int = 1
    hi: int | None = None


@dataclass(frozen=True, slots=True)
class ArrayShape:
    """Arrays of `lo` to `hi` items, the first of `prefix`, the others of `rest`."""

    prefix: tuple[Expr, ...]
    rest: Expr
    lo: int = 0
    hi: int | None = None
    contains: tuple[Contains, ...] = ()
    unique: bool = False

    def item(self, index: int) -> Expr:
        return self.prefix[index] if index < len(self.prefix) else self.rest


@dataclass(frozen=True, slots=True)
class Some:
    """At least one property whose name is among `names` has a value of `value`."""

    names: Strings
    value: Expr


@dataclass(frozen=True, slots=True)
class ObjectShape:
    """Objects of `lo` to `hi` properties.

    `named` are the properties known by name, in declared order; every other name belongs to exactly
    one class of `rest` (each class's language may hold known names: they are not meant).
    `implied`: a property that, where present, requires others.
    """

    named: tuple[tuple[str, Expr], ...]
    rest: tuple[tuple[Strings, Expr], ...]
    required: frozenset[str] = frozenset()
    lo: int = 0
    hi: int | None = None
    implied: frozenset[tuple[str, frozenset[str]]] = frozenset()
    some: tuple[Some, ...] = ()

    def value_of(self, name: str) -> Expr:
        for known, value in self.named:
            if known == name:
                return value
        return self.class_of(name)

    def class_of(self, name: str) -> Expr:
        return next(value for names, value in self.rest if names.contains(name))


@dataclass(frozen=True, slots=True)
class Values:
    """A set of JSON values, as the union of its parts."""

    null: bool = False
    true: bool = False
    false: bool = False
    numbers: tuple[Numbers, ...] = ()
    strings: tuple[Strings, ...] = ()
    arrays: tuple[ArrayShape, ...] = ()
    objects: tuple[ObjectShape, ...] = ()


NO_VALUES = Values()
STRINGS = (EVERY_STRING,)
NUMBERS = (EVERY_NUMBER,)


def least(a: int | None, b: int | None) -> int | None:
    """The smaller of two upper bounds, None being no bound."""
    if a is None or b is None:
        return b if a is None else a
    return min(a, b)
