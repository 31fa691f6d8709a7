"""Arrays: the items that may come next, and what follows them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentrt.schema.algebra.arrays import ArrayPlan
from agentrt.schema.algebra.cardinality import count as cardinality
from agentrt.schema.algebra.cardinality import surely
from agentrt.schema.algebra.consts import together
from agentrt.schema.machine import states as at

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

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
            value = self._unlike(way.value, state.seen)
            # where there are more than were seen, the rest need not be worked out to be some
            enough = surely(self.machine.space, way.value, len(state.seen) + 1)
            if state.seen and not enough and not self.machine.nonempty(value):
                continue
            index = state.position + 1
            if plan.hi is None:
                index = min(index, state.node.uniform_from + 1)
            if self.completable(state.node, index, counts, state.seen):
                yield (
                    value,
                    state._replace(
                        phase="after", position=index, counts=counts, unread=plan.unique
                    ),
                )

    def completable(
        self, node: ArrayNode, index: int, counts: tuple[int, ...], seen: tuple[Expr, ...]
    ) -> bool:
        plan = node.plan
        if not plan.completable(index, counts):
            return False
        if not plan.unique or index >= plan.lo or not plan.ways(index):
            return True
        # seen lacks the item just begun: one more of its kind is used up
        space, value = self.machine.space, plan.ways(index)[0].value
        if surely(space, value, plan.lo):
            return True
        rest = self._unlike(value, seen)
        return cardinality(space, rest, plan.lo + 1) >= plan.lo - len(seen)

    def _unlike(self, value: Expr, seen: tuple[Expr, ...]) -> Expr:
        """The values that were not seen."""
        space = self.machine.space
        return space.all_of([value, space.negation(together(space, seen))]) if seen else value
