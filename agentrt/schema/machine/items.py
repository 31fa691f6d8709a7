"""Arrays: the items that may come next, and what follows them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentrt.schema.algebra.arrays import ArrayPlan
from agentrt.schema.algebra.cardinality import surely
from agentrt.schema.algebra.different import enough, unlike
from agentrt.schema.machine import states as at

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from agentrt.schema.algebra.arrays import Item
    from agentrt.schema.algebra.shapes import ArrayShape
    from agentrt.schema.algebra.space import Expr
    from agentrt.schema.machine.frames import Configuration, Frame
    from agentrt.schema.machine.machine import Machine

_COMMA, _END = 0x2C, 0x5D


class ArrayNode:
    """An array shape, prepared. Compared by identity: one is made for each shape."""

    def __init__(self, machine: Machine, shape: ArrayShape) -> None:
        self.plan = ArrayPlan(machine.space, shape, machine.nonempty)
        self.uniform_from = max(self.plan.uniform_from, self.plan.lo)


class Items:
    """Steps through arrays, for a machine."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    def step(self, state: at.InArray, parents: Configuration, byte: int) -> Iterable[Frame]:
        if self.machine.is_space(byte):
            return self.machine.spaced(state, 1, parents)
        plan = state.node.plan
        if byte == _END and state.phase != "next":
            return parents.frames if plan.may_end(state.position, state.counts) else ()
        if state.phase != "after":
            return self._item(state, parents, byte)
        if byte == _COMMA and (state.unread or self.more_items(state)):
            return self.machine.separated(state._replace(phase="next"), parents)
        return ()

    def _item(self, state: at.InArray, parents: Configuration, byte: int) -> Iterator[Frame]:
        for value, following in self.next_items(state):
            rest = self.machine.store.configuration([self.machine.store.frame(following, parents)])
            yield from self.machine.after(self.machine.store.frame(at.Start(value), rest), byte)

    def more_items(self, state: at.InArray) -> bool:
        return any(True for _ in self.next_items(state))

    def next_items(self, state: at.InArray) -> Iterator[tuple[Expr, at.InArray]]:
        """Each way for the next item to be, and the state after it."""
        plan = state.node.plan
        if plan.hi is not None and state.position >= plan.hi:
            return
        for way in plan.ways(state.position):
            counts = plan.after(state.counts, way)
            if counts is None:
                continue
            value = unlike(self.machine.space, way.value, state.seen)
            if state.seen and not self._is_left(way.value, value, len(state.seen)):
                continue
            index = state.position + 1
            if plan.hi is None:
                index = min(index, state.node.uniform_from + 1)
            following = state._replace(
                phase="after", position=index, counts=counts, unread=plan.unique
            )
            if self.completable(following, way):
                yield value, following

    def _is_left(self, value: Expr, unseen: Expr, seen: int) -> bool:
        # where there are more than were seen, the rest need not be worked out to be some
        return surely(self.machine.space, value, seen + 1) or self.machine.nonempty(unseen)

    def completable(self, state: at.InArray, begun: Item | None = None) -> bool:
        """Whether the array can be finished; the item begun is not yet among those seen."""
        plan = state.node.plan
        return plan.completable(state.position, state.counts) and (
            not plan.unique or enough(plan, state.counts, state.seen, begun)
        )
