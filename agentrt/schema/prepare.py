"""Looks into all that a schema can lead to, so that what cannot be enforced is refused at once."""

from __future__ import annotations

from collections import deque
from time import perf_counter
from typing import TYPE_CHECKING

from agentrt.errors import UnsatisfiableSchema
from agentrt.schema.algebra.emptiness import is_empty
from agentrt.schema.limits import locate, spend
from agentrt.schema.machine.states import InObject

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentrt.schema.algebra.shapes import Values
    from agentrt.schema.algebra.space import Expr, Space
    from agentrt.schema.machine.machine import Machine

_WARM_SECONDS = 0.002
_SIDE_BY_SIDE = 8
_SETS_OF_NAMES = 500


def prepare(machine: Machine) -> None:
    """Normal forms and plans of every schema that a value can go through.

    Raises SchemaError for what cannot be enforced and UnsatisfiableSchema where nothing fits.
    """
    space, root = machine.space, machine.root
    if is_empty(space, root):
        raise unsatisfiable(space, root)
    seen, frontier = {root}, [root]
    while frontier:
        expr = frontier.pop()
        spend()
        if expr.pointer:
            locate(expr.pointer)
        values = space.normal(expr)
        # each mask goes through all that may stand here, side by side
        spend((len(values.arrays) + len(values.objects)) ** 2 // _SIDE_BY_SIDE)
        for shape in values.arrays:
            if shape.contains or shape.unique:
                machine.array(shape).plan.ways(0)
        for shape in values.objects:
            spend(len(shape.named) ** 2 // _SETS_OF_NAMES)  # each is a bit in sets of them
            if shape.some:
                _ = machine.object(shape).plan.usable_classes
        for child in children(values):
            if child not in seen:
                seen.add(child)
                if not is_empty(space, child):
                    frontier.append(child)


def warm(machine: Machine) -> None:
    """Works out how values begin, and the trees of names, the outermost first, for a bounded time:
    masks ask that wherever a key begins or ends. It changes no mask, only what is left to do for
    the first of them."""
    until = perf_counter() + _WARM_SECONDS
    seen, frontier = {machine.root}, deque([machine.root])
    while frontier and perf_counter() < until:
        expr = frontier.popleft()
        for states in machine.openings(expr).values():
            for state in states:
                if isinstance(state, InObject):
                    _ = state.node.tree
        for child in children(machine.space.normal(expr)):
            if child not in seen:
                seen.add(child)
                frontier.append(child)


def children(values: Values) -> Iterator[Expr]:
    """The expressions of what stands inside these values."""
    for shape in values.arrays:
        yield from shape.prefix
        yield shape.rest
    for shape in values.objects:
        yield from (value for _, value in shape.named)
        yield from (value for _, value in shape.rest)


def unsatisfiable(space: Space, expr: Expr) -> UnsatisfiableSchema:
    """The error where nothing fits an expression, naming the parts that contradict each other."""
    culprit = _deepest(space, expr, set())
    parts = [p.pointer or "/" for p in culprit.parts]
    pointer = culprit.pointer or next((p.pointer for p in culprit.parts if p.pointer), "")
    if len(parts) > 1:
        named = " and ".join(dict.fromkeys(parts))
        return UnsatisfiableSchema(pointer, f"no value matches: {named} contradict each other")
    why = space.why_empty.get(pointer)
    if why is not None:
        return UnsatisfiableSchema(pointer, why, "make the field optional, or give another text")
    return UnsatisfiableSchema(pointer or "/", "no value matches this schema")


def _deepest(space: Space, expr: Expr, seen: set[Expr]) -> Expr:
    """The innermost empty part that makes the whole empty."""
    if expr in seen:
        return expr
    seen.add(expr)
    if expr.op == "lazy" and expr.thunk is not None:
        inner = expr.thunk()
        found = _deepest(space, inner, seen)
        return found if found.op != "exact" or found.pointer else expr
    if expr.op == "all":
        alone = next((p for p in expr.parts if is_empty(space, p)), None)
        if alone is not None:
            return _deepest(space, alone, seen)
    values = space.normal(expr)
    for shape in values.objects:
        for name in sorted(shape.required):
            value = shape.value_of(name)
            if is_empty(space, value):
                return _deepest(space, value, seen)
    for array in values.arrays:
        for i in range(min(array.lo, len(array.prefix) + 1)):
            if is_empty(space, array.item(i)):
                return _deepest(space, array.item(i), seen)
    return expr
