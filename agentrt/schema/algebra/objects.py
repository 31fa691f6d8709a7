"""How an object of one shape can still be completed: which keys may come, in which order.

The plan answers for the matcher, key by key, and for the question whether any object fits at all.
Sets of known names are bit masks, by position in declared order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING

from agentrt.errors import SchemaError, SchemaTooLarge
from agentrt.schema.algebra.combine import both_classes
from agentrt.schema.limits import current_pointer, spend
from agentrt.schema.regex.words import of_words
from agentrt.schema.values.strings import Strings

if TYPE_CHECKING:
    from agentrt.schema.algebra.shapes import ObjectShape
    from agentrt.schema.algebra.space import Expr, Space

NonEmpty = Callable[["Expr"], bool]
_MOST_OBLIGATIONS = 4
_MOST_REQUIRED = 1_000
_FINITE_CLASS = 64


@dataclass(frozen=True, slots=True)
class NameClass:
    """Names that are not known one by one, and the value they take.

    `free`: every start of a name can be continued in endlessly many ways, so that names taken
    already need only be refused where they end.
    """

    names: Strings
    value: Expr
    free: bool


class ObjectPlan:
    """One shape, prepared. `ordered`: known keys come in declared order, others after them."""

    def __init__(
        self, space: Space, shape: ObjectShape, nonempty: NonEmpty, *, ordered: bool
    ) -> None:
        self.space = space
        self.shape = shape
        self.nonempty = nonempty
        self.ordered = ordered
        if len(shape.some) > _MOST_OBLIGATIONS:
            raise SchemaError(
                current_pointer(),
                f"more than {_MOST_OBLIGATIONS} rules ask that some property of unknown name match",
                "negate or exclude fewer of additionalProperties, patternProperties, propertyNames",
            )
        named = dict(shape.named)
        for name in sorted(shape.required | {n for pair in shape.implied for n in pair[1]}):
            named.setdefault(name, shape.class_of(name))
        for name, _ in shape.implied:
            named.setdefault(name, shape.class_of(name))
        self.classes: list[NameClass] = []
        self._sort_classes(named)
        self.names = tuple(named)
        self.values = tuple(named.values())
        self.bit = {name: 1 << i for i, name in enumerate(self.names)}
        self.required = sum(self.bit[n] for n in shape.required)
        self._requires: dict[int, int] = {}
        for name, others in shape.implied:
            known = self._requires.get(self.bit[name], 0)
            self._requires[self.bit[name]] = known | sum(self.bit[n] for n in others)
        self._requiring = sum(self._requires)
        self._check_requirements()
        self._fitting = 0  # the known names for which some value was found
        self.every = (1 << len(self.names)) - 1
        self.all_some = (1 << len(shape.some)) - 1
        self.counts = shape.lo > 0 or shape.hi is not None
        self.plain = not (self.counts or self._requiring or self.all_some)

    def _check_requirements(self) -> None:
        """Refuses chains of names that require each other: each is followed for every key."""
        total = 0
        for bit in self._requires:
            total += self.closure(bit).bit_count()
            if total > _MOST_REQUIRED:
                raise SchemaTooLarge(
                    current_pointer(),
                    f"what its properties require of each other, in turn, is more than "
                    f"{_MOST_REQUIRED:,} names",
                    "require fewer by dependentRequired",
                )

    def _sort_classes(self, named: dict[str, Expr]) -> None:
        """Classes of few names become known names; the others are told apart from known ones."""
        space, refined = self.space, self.shape.rest
        for some in self.shape.some:
            halves = ((some.names, space.anything),)
            halves += tuple((n, space.anything) for n in some.names.complement())
            refined = both_classes(space, refined, halves)
        for names, value in refined:
            if value is space.nothing or names.is_empty:
                continue
            listed = names.words(_FINITE_CLASS)
            if listed is None:
                self.classes.append(NameClass(names, value, names.is_free))
                continue
            for name in sorted(listed):
                named.setdefault(name, value)

    @cached_property
    def usable(self) -> int:
        """The known names that some value fits."""
        mask = 0
        for i, value in enumerate(self.values):
            if self.nonempty(value):
                mask |= 1 << i
        return mask

    @cached_property
    def usable_classes(self) -> list[NameClass]:
        return [c for c in self.classes if self.nonempty(c.value)]

    @cached_property
    def class_names(self) -> int | None:
        """How many names the classes have that are not known; None where as many as are asked."""
        asked, total = self.shape.lo, 0
        for cls in self.usable_classes:
            size = excluding(cls.names, frozenset(self.names)).count(asked)
            if size >= asked:
                return None
            total += size
        return total

    def fits(self, i: int) -> bool:
        return self.nonempty(self.values[i])

    def _all_fit(self, mask: int) -> bool:
        """Whether each of these known names has some value."""
        asked = mask & ~self._fitting
        if not all(self.fits(i) for i in bits(asked)):
            return False
        self._fitting |= asked
        return True

    def closure(self, mask: int) -> int:
        """The names that these require, themselves included."""
        asking = mask & self._requiring
        while asking:
            low = asking & -asking
            fresh = self._requires[low] & ~mask
            mask |= fresh
            asking = (asking ^ low) | (fresh & self._requiring)
        return mask

    def obligations(self, i: int) -> int:
        """The rules that the value of known name i could meet."""
        return self._obligations[i]

    @cached_property
    def _obligations(self) -> tuple[int, ...]:
        rules = [(1 << j, some.names) for j, some in enumerate(self.shape.some)]
        return tuple(
            sum(bit for bit, names in rules if names.contains(name)) for name in self.names
        )

    def class_obligations(self, cls: NameClass) -> int:
        return sum(
            1 << j
            for j, some in enumerate(self.shape.some)
            if not cls.names.intersection(some.names).is_empty
        )

    def joint(self, value: Expr, met: int) -> Expr:
        """The values of a property that meets these rules at once."""
        some = self.shape.some
        return self.space.all_of([value, *(some[j].value for j in bits(met))])

    def meetings(self, value: Expr, rules: int) -> list[int]:
        """Each set of these rules that one property can meet at once, none first."""
        found = [0]
        listed = bits(rules)
        for size in range(1, len(listed) + 1):
            for chosen in combinations(listed, size):
                met = sum(1 << j for j in chosen)
                if self.nonempty(self.joint(value, met)):
                    found.append(met)
        return found

    def missing(self, seen: int) -> int:
        """The names still to come, whatever else does."""
        return self.closure(self.required | seen) & ~seen

    def completable(
        self, *, seen: int, available: int, classes: bool, count: int, met: int
    ) -> bool:
        """Whether an object with these keys can be finished with the names still available."""
        missing = self.missing(seen)
        if missing & ~available:
            return False
        if not self._all_fit(missing):
            return False
        lo, hi = self.shape.lo, self.shape.hi
        pending = self.all_some & ~met
        need = missing.bit_count()
        if pending:
            least = self._cover(pending, seen, available, classes, missing, 0, 0)
            if least is None:
                return False
            need = least
        if hi is not None and count + need > hi:
            return False
        return count + need >= lo or self._can_fill(seen, available, classes, lo - count)

    def _can_fill(self, seen: int, available: int, classes: bool, wanted: int) -> bool:
        if classes and self.usable_classes:
            if self.class_names is None:
                return True
            # those known do not count among them, and those taken are no longer there
            wanted -= self.class_names - (self.shape.lo - wanted - seen.bit_count())
        open_names = available & self.usable & ~seen
        reachable = sum(
            1 for i in bits(open_names) if not self.closure(1 << i) & ~(open_names | seen)
        )
        return reachable >= wanted

    def _cover(
        self,
        pending: int,
        seen: int,
        available: int,
        classes: bool,
        chosen: int,
        used: int,
        extra: int,
    ) -> int | None:
        """The fewest keys that bring what is missing and meet the rules pending."""
        spend()
        if not pending:
            needed = self.closure(chosen) & ~seen
            return None if needed & ~available else needed.bit_count() + extra
        first = pending & -pending
        found: list[int | None] = []
        for i in bits(available & ~seen & ~used):
            rules = self.obligations(i) & pending
            if rules & first and self.fits(i):
                found += [
                    self._cover(
                        pending & ~met,
                        seen,
                        available,
                        classes,
                        chosen | 1 << i,
                        used | 1 << i,
                        extra,
                    )
                    for met in self.meetings(self.values[i], rules)
                    if met & first
                ]
        for cls in self.usable_classes if classes else ():
            rules = self.class_obligations(cls) & pending
            if rules & first:
                found += [
                    self._cover(pending & ~met, seen, available, classes, chosen, used, extra + 1)
                    for met in self.meetings(cls.value, rules)
                    if met & first
                ]
        return min((n for n in found if n is not None), default=None)


def bits(mask: int) -> list[int]:
    out: list[int] = []
    while mask:
        low = mask & -mask
        out.append(low.bit_length() - 1)
        mask ^= low
    return out


def excluding(names: Strings, words: frozenset[str]) -> Strings:
    """The names that are none of these words."""
    if not words:
        return names
    return names.intersection(Strings(of_words(sorted(words)).complement()))
