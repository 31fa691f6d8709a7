"""Arrays whose items must differ: whether there are as many different values as must still come.

Told exactly where all items are of one kind and at most one rule counts some of them, and where
there are more values of each kind than items. The rest is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentrt.errors import SchemaError
from agentrt.schema.algebra.cardinality import count, endless
from agentrt.schema.algebra.consts import together
from agentrt.schema.limits import current_pointer

if TYPE_CHECKING:
    from agentrt.schema.algebra.arrays import ArrayPlan, Counts, Item
    from agentrt.schema.algebra.space import Expr, Space

Seen = tuple["Expr", ...]
"""Sets of one value each: the items so far."""


def unlike(space: Space, value: Expr, seen: Seen) -> Expr:
    """The values that were not seen."""
    return space.all_of([value, space.negation(together(space, seen))]) if seen else value


def enough(plan: ArrayPlan, counts: Counts, seen: Seen = (), begun: Item | None = None) -> bool:
    """Whether an array can be finished with values not seen, and without that of the item begun.

    `counts` are those after that item. Raises SchemaError where it is not told.
    """
    if plan.contains:
        return _counted(plan, counts, seen, begun)
    left = plan.lo - len(seen)
    if left <= (begun is not None):
        return True
    space, at = plan.space, min(len(seen), plan.uniform_from)
    kinds = [plan.shape.item(i) for i in range(at, min(plan.lo, plan.uniform_from + 1))]
    if len(set(kinds)) == 1:
        return count(space, unlike(space, kinds[0], seen), left) >= left
    numbers = sorted(count(space, kind, plan.lo) for kind in kinds)
    if any(n <= i for i, n in enumerate(numbers)):
        return False
    if numbers[0] >= plan.lo:
        return True
    raise _untold("uniqueItems over a few values that differ by position is not told apart")


def _counted(plan: ArrayPlan, counts: Counts, seen: Seen, begun: Item | None) -> bool:
    """Of one rule: enough that match it, and enough in all with as many as may."""
    space = plan.space
    places = range(plan.uniform_from + 1)
    if all(endless(space, way.value) for i in places for way in plan.ways(i)):
        return True
    rule, *others = plan.contains
    if others or plan.uniform_from:
        raise _untold("uniqueItems over a few values that rules count apart is not told apart")
    counted, base = counts[0], plan.shape.rest
    most = plan.lo + rule.lo + 1
    taken = (begun is not None and begun.counted[0], begun is not None and not begun.counted[0])
    matching = count(space, unlike(space, space.all_of((base, rule.item)), seen), most) - taken[0]
    if matching < rule.lo - counted:
        return False
    left = plan.lo - len(seen) - sum(taken)
    usable = matching if rule.hi is None else min(matching, rule.hi - counted)
    if usable >= left:
        return True
    rest = space.all_of((base, space.negation(rule.item)))
    return usable + count(space, unlike(space, rest, seen), most) - taken[1] >= left


def _untold(reason: str) -> SchemaError:
    return SchemaError(
        current_pointer(), reason, "use items of one kind and one rule, or drop uniqueItems"
    )
