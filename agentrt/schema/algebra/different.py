"""Arrays whose items must differ: whether there are as many different values as must still come.

Told exactly where at most one rule counts some of them and where kinds, if they are several, share
no value or have more than there are items. The rest is refused.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from agentrt.errors import SchemaError
from agentrt.schema.algebra.cardinality import count, endless
from agentrt.schema.algebra.consts import together
from agentrt.schema.limits import current_pointer, is_compiling

if TYPE_CHECKING:
    from collections.abc import Iterable

    from agentrt.schema.algebra.arrays import ArrayPlan, Counts, Item
    from agentrt.schema.algebra.shapes import Values
    from agentrt.schema.algebra.space import Expr, Space

_MOST_LISTED = 10_000
Seen = tuple["Expr", ...]
"""Sets of one value each: the items so far."""


def unlike(space: Space, value: Expr, seen: Seen) -> Expr:
    """The values that were not seen."""
    return space.all_of([value, space.negation(together(space, seen))]) if seen else value


def enough(plan: ArrayPlan, counts: Counts, seen: Seen = (), begun: Item | None = None) -> bool:
    """Whether an array can be finished with values not seen, and without that of the item begun.

    `counts` are those after that item. Raises SchemaError where it is not told while compiling.
    While generating, where items so far narrow what an array may be, such a one is not begun.
    """
    if plan.contains:
        return _counted(plan, counts, seen, begun)
    left = plan.lo - len(seen)
    if left <= (begun is not None):
        return True
    if plan.is_enough is None:
        kinds = _kinds(plan)
        if len(kinds) == 1:
            return count(plan.space, unlike(plan.space, next(iter(kinds)), seen), left) >= left
        plan.is_enough = _apart(plan, kinds)
    # no item takes a value of another kind than its own: what was enough for all of them still is
    return plan.is_enough


def _kinds(plan: ArrayPlan) -> Counter[Expr]:
    """How many items must come of each kind."""
    if plan.lo > plan.uniform_from == 0:
        return Counter({plan.shape.rest: plan.lo})
    alike: dict[Values, Expr] = {}
    kinds: Counter[Expr] = Counter()
    for i in range(min(plan.lo, plan.uniform_from + 1)):
        item = plan.shape.item(i)
        places = 1 if i < plan.uniform_from else plan.lo - plan.uniform_from
        kinds[alike.setdefault(plan.space.normal(item), item)] += places
    return kinds


def _apart(plan: ArrayPlan, kinds: Counter[Expr]) -> bool:
    """Whether each kind has enough values, and none that another has too if they are few."""
    sizes = {kind: count(plan.space, kind, plan.lo) for kind in kinds}
    few = {kind for kind, size in sizes.items() if size < plan.lo}
    if _overlap(plan, few, kinds):
        return _untold("uniqueItems over a few values that differ by position is not told apart")
    return all(sizes[kind] >= kinds[kind] for kind in few)


def _overlap(plan: ArrayPlan, few: Iterable[Expr], kinds: Iterable[Expr]) -> bool:
    """Whether a value of one of the few may be one of another kind."""
    listed = {kind: _listed(plan.space.normal(kind)) for kind in few}
    values = Counter(value for each in listed.values() for value in each or ())
    if any(times > 1 for times in values.values()):
        return True
    # those that are listed are told apart by now
    pairs = [(a, b) for a in listed for b in kinds if not (listed[a] and listed.get(b))]
    return any(a is not b and plan.nonempty(plan.space.all_of((a, b))) for a, b in pairs)


def _listed(values: Values) -> set[object] | None:
    """The values, where they are given one by one and hold no others."""
    if values.arrays or values.objects:
        return None
    literals = zip(("null", "true", "false"), (values.null, values.true, values.false), strict=True)
    found: set[object] = {("literal", text) for text, is_one in literals if is_one}
    for numbers in values.numbers:
        if numbers.points is None:
            return None
        found |= numbers.points
    for strings in values.strings:
        words = strings.words(_MOST_LISTED)
        if words is None:
            return None
        found.update(words)
    return found


def _counted(plan: ArrayPlan, counts: Counts, seen: Seen, begun: Item | None) -> bool:
    """Of one rule: enough that match it, and enough in all with as many as may."""
    space = plan.space
    places = range(plan.uniform_from + 1)
    if all(endless(space, way.value) for i in places for way in plan.ways(i)):
        return True
    rule, *others = plan.contains
    if others or plan.uniform_from:
        return _untold("uniqueItems over a few values that rules count apart is not told apart")
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


def _untold(reason: str) -> bool:
    if not is_compiling():
        return False
    raise SchemaError(
        current_pointer(), reason, "use items of one kind and one rule, or drop uniqueItems"
    )
