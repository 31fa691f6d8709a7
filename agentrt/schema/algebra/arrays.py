"""How an array of one shape can still be completed: which items may come, and when it may end."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING

from agentrt.errors import SchemaError, SchemaTooLarge
from agentrt.schema.limits import current_pointer, is_compiling, spend

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentrt.schema.algebra.objects import NonEmpty
    from agentrt.schema.algebra.shapes import ArrayShape
    from agentrt.schema.algebra.space import Expr, Space

Counts = tuple[int, ...]
Place = tuple[int, Counts]
_MOST_CONTAINS = 6
_MOST_STEPS = 5000
_MOST_TRIES = 100_000


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
        self._known: dict[Place, bool] = {}
        self.is_enough: bool | None = None
        """Whether there are as many different values as items that must differ, once told."""

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
        place = self._place(index, counts)
        found = self._known.get(place)
        if found is None:
            found = self._known[place] = self._search(place)
        return found

    def _place(self, index: int, counts: Counts) -> Place:
        """So many items, counted so; no more of them than matter."""
        return index if self.hi is not None else min(index, max(self.uniform_from, self.lo)), counts

    def _search(self, start: Place) -> bool:
        """Depth first over what the counts can come to, what leaves least to come before others.
        What is too much to try is refused; while generating it is not begun."""
        if max(*self._short(start[1]), self.lo - start[0]) > _MOST_STEPS:
            raise SchemaTooLarge(
                current_pointer(),
                f"contains with bounds beyond {_MOST_STEPS} items is too long to plan",
                "use smaller minContains or minItems",
            )
        path, met, tries = [(start, self._following(start))], {start}, 0
        while path and tries <= _MOST_TRIES:
            place, following = path[-1]
            if self.may_end(*place) or self._known.get(place) or self._is_plain(place):
                self._known.update((place, True) for place, _ in path)
                return True
            found = next((p for p in following if p not in met and self._known.get(p, True)), None)
            if found is None:
                path.pop()
                continue
            spend()
            tries += len(self.ways(found[0]))
            met.add(found)
            path.append((found, self._following(found)))
        if path and is_compiling():
            raise SchemaTooLarge(
                current_pointer(),
                "whether its rules that count items (contains) can be met together was not told in "
                f"{_MOST_TRIES:,} tries",
                "drop maxContains, lower it, or have fewer rules count the same items",
            )
        self._known.update(dict.fromkeys(met, False))
        return False

    def _is_plain(self, place: Place) -> bool:
        """Whether it can be finished by what is needed for one rule after the other."""
        index, counts = place
        is_room = self.hi is None or index + sum(self._short(counts)) <= self.hi
        return is_room and index >= self.uniform_from and self._are_apart

    def _short(self, counts: Counts) -> list[int]:
        """How many items each rule still needs."""
        return [max(0, c.lo - n) for c, n in zip(self.contains, counts, strict=True)]

    @cached_property
    def _are_apart(self) -> bool:
        """Whether the last items may count for any one rule, or for none, and use up no other: then
        what is needed can come one rule after the other, whatever came before."""
        bounded = {i for i, c in enumerate(self.contains) if c.hi is not None}
        ways = [{i for i, n in enumerate(w.counted) if n} for w in self.ways(self.uniform_from)]
        return any(not way & bounded for way in ways) and all(
            (c.hi is None or c.lo <= c.hi)
            and any(i in way and way & bounded <= {i} for way in ways)
            for i, c in enumerate(self.contains)
            if c.lo
        )

    def _following(self, place: Place) -> Iterator[Place]:
        """Where one more item leads, what leaves least to come and uses least up first."""
        index, counts = place
        if self.hi is not None and self.hi - index < max(1, *self._short(counts)):
            return
        after = {self.after(counts, way) for way in self.ways(index)} - {None}
        found = [self._place(index + 1, counts) for counts in after if counts is not None]
        yield from sorted(found, key=lambda p: (sum(self._short(p[1])), sum(p[1]), p))
