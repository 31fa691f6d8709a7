"""How an array of one shape can still be completed: which items may come, and when it may end."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

from agentrt.errors import SchemaError
from agentrt.schema.limits import current_pointer, spend

if TYPE_CHECKING:
    from agentrt.schema.algebra.objects import NonEmpty
    from agentrt.schema.algebra.shapes import ArrayShape
    from agentrt.schema.algebra.space import Expr, Space

Counts = tuple[int, ...]
_MOST_CONTAINS = 6
_MOST_STEPS = 5000


@dataclass(frozen=True, slots=True)
class Item:
    """One way for the next item to be: its values, and which `contains` it is counted for."""

    value: Expr
    counted: tuple[bool, ...]


class ArrayPlan:
    """One shape, prepared."""

    def __init__(self, space: Space, shape: ArrayShape, nonempty: NonEmpty) -> None:
        self.space = space
        self.nonempty = nonempty
        if len(shape.contains) > _MOST_CONTAINS:
            raise SchemaError(
                current_pointer(),
                f"more than {_MOST_CONTAINS} rules count items that match (contains)",
                "drop or merge some",
            )
        self.contains = shape.contains
        self.uniform_from = max([len(shape.prefix), *(c.start for c in shape.contains)])
        self.shape = shape
        self.lo = shape.lo
        self.hi = self._most_items()
        self.unique = shape.unique
        self._ways: dict[int, list[Item]] = {}
        self._known: dict[tuple[int, Counts], bool] = {}

    def _most_items(self) -> int | None:
        """Where an item must come that nothing can be, the array ends before it."""
        shape = self.shape
        for i, item in enumerate(shape.prefix):
            if shape.hi is not None and i >= shape.hi:
                break
            if not self.nonempty(item):
                return i
        start = len(shape.prefix)
        if (shape.hi is None or shape.hi > start) and not self.nonempty(shape.rest):
            return start
        return shape.hi

    def start(self) -> Counts:
        return (0,) * len(self.contains)

    def ways(self, index: int) -> list[Item]:
        """The ways for item `index` to be, each of which some value takes."""
        index = min(index, self.uniform_from)
        found = self._ways.get(index)
        if found is None:
            base = self.shape.item(index)
            found = [way for way in self._combined(base, index) if self.nonempty(way.value)]
            self._ways[index] = found
        return found

    def _combined(self, base: Expr, index: int) -> list[Item]:
        if not self.contains:
            return [Item(base, ())]
        space, out = self.space, []
        options = [(True, False) if c.start <= index else (False,) for c in self.contains]
        for counted in product(*options):
            parts = [base]
            for c, is_counted in zip(self.contains, counted, strict=True):
                if is_counted:
                    parts.append(c.item)
                elif (c.hi is not None or self.unique) and c.start <= index:
                    # only where too many can match, or few that are not used up, does not matching
                    # have to be certain
                    parts.append(space.negation(c.item))
            out.append(Item(space.all_of(parts), counted))
        return out

    def after(self, counts: Counts, way: Item) -> Counts | None:
        """The counts after such an item, no higher than they matter; None if one is too high."""
        out: list[int] = []
        for c, n, is_counted in zip(self.contains, counts, way.counted, strict=True):
            n += is_counted
            if c.hi is not None and n > c.hi:
                return None
            out.append(n if c.hi is not None else min(n, c.lo))
        return tuple(out)

    def satisfied(self, counts: Counts) -> bool:
        return all(n >= c.lo for c, n in zip(self.contains, counts, strict=True))

    def may_end(self, index: int, counts: Counts) -> bool:
        return index >= self.lo and self.satisfied(counts)

    def completable(self, index: int, counts: Counts) -> bool:
        """Whether an array of so many items, counted so, can be finished."""
        if self.hi is not None and (index > self.hi or self.lo > self.hi):
            return False
        if not self.contains:
            return True
        key = (min(index, max(self.uniform_from, self.lo)) if self.hi is None else index, counts)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._search(*key)
        return found

    def _search(self, index: int, counts: Counts) -> bool:
        """Breadth first over what the counts can come to, item by item."""
        frontier, steps = {counts}, 0
        seen_uniform: set[tuple[frozenset[Counts], bool]] = set()
        while frontier:
            if any(self.may_end(index, c) for c in frontier):
                return True
            if self.hi is not None and index >= self.hi:
                return False
            ways = self.ways(index)
            stepped = (self.after(c, way) for c in frontier for way in ways)
            frontier = {c for c in stepped if c is not None}
            index, steps = index + 1, steps + 1
            spend(1 + len(frontier))
            if index > self.uniform_from:
                state = (frozenset(frontier), index >= self.lo)
                if state in seen_uniform and state[1]:
                    return False
                seen_uniform.add(state)
            if steps > _MOST_STEPS:
                raise SchemaError(
                    current_pointer(),
                    f"contains with bounds beyond {_MOST_STEPS} items is too long to plan",
                    "use smaller minContains or minItems",
                )
        return False
