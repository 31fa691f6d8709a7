"""Objects: the keys that may come next, and what follows them."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from agentrt.schema.algebra.objects import ObjectPlan, bits, excluding
from agentrt.schema.machine import states as at
from agentrt.schema.machine.keys import AtName, NameTree

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from agentrt.schema.algebra.shapes import ObjectShape
    from agentrt.schema.algebra.space import Expr
    from agentrt.schema.machine.frames import Configuration, Frame
    from agentrt.schema.machine.machine import Machine

_QUOTE, _COMMA, _END = 0x22, 0x2C, 0x7D


class ObjectNode:
    """An object shape, prepared. Compared by identity: one is made for each shape."""

    def __init__(self, machine: Machine, shape: ObjectShape) -> None:
        ordered = machine.options.key_order == "declared"
        self.plan = ObjectPlan(machine.space, shape, machine.nonempty, ordered=ordered)
        self._codec = machine.plain_codec
        self.names = frozenset(self.plan.names)
        self.openings: dict[tuple[object, ...], list[object]] = {}
        self.free = all(cls.free for cls in self.plan.classes)

    @cached_property
    def tree(self) -> NameTree:
        return NameTree(self.plan.names, self._codec)


class Members:
    """Steps through objects, for a machine."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    def completable(self, state: at.InObject) -> bool:
        plan = state.node.plan
        available = plan.every & ~state.passed
        return plan.completable(
            seen=state.seen,
            available=available & ~state.seen,
            classes=True,
            count=state.members,
            met=state.met,
        )

    def step(self, state: at.InObject, parents: Configuration, byte: int) -> Iterable[Frame]:
        if self.machine.is_space(byte):
            return self.machine.spaced(state, 1, parents)
        if state.phase == "after":
            if byte == _COMMA and self.keys(state):
                return self.machine.separated(state._replace(phase="next"), parents)
        elif byte == _QUOTE:
            keying = self.machine.store.configuration(
                [self.machine.store.frame(state._replace(phase="key"), parents)]
            )
            return [self.machine.store.frame(key, keying) for key in self.keys(state)]
        if byte == _END and state.phase != "next":
            return parents.frames if self.may_end(state) else ()
        return ()

    def may_end(self, state: at.InObject) -> bool:
        plan = state.node.plan
        return (
            not plan.missing(state.seen)
            and state.met == plan.all_some
            and state.members >= plan.shape.lo
        )

    def keys(self, state: at.InObject) -> list[object]:
        """The states of the keys that may come next, after their opening quote."""
        openings = state.node.openings
        key = (state.seen, state.passed, state.members, state.met, state.others)
        found = openings.get(key)
        if found is None:
            found = openings[key] = list(self._open_keys(state))
        return found

    def _open_keys(self, state: at.InObject) -> Iterator[object]:
        node, plan = state.node, state.node.plan
        allowed = self.known_names(state)
        if allowed:
            yield at.InKnownKey(node, AtName(0, allowed, None))
        for number, cls in enumerate(plan.usable_classes):
            if not self._other_may_come(state, number):
                continue
            names = cls.names
            if not cls.free:
                names = excluding(names, node.names | state.others)
                if names.is_empty:
                    continue
            text = self.machine.string(names)
            yield at.InOtherKey(node, text, number, text.start(), "")

    def _other_may_come(self, state: at.InObject, number: int) -> bool:
        """Whether a name of a class may come next."""
        if state.node.plan.plain and not state.node.plan.ordered:
            return True  # it takes nothing from what must still come
        return any(True for _ in self.after_other(state, number, None))

    def known_names(self, state: at.InObject) -> int:
        """The known names that may come next."""
        plan = state.node.plan
        candidates = plan.every & ~state.seen & ~state.passed & plan.usable
        if plan.plain:
            missing = plan.required & ~state.seen
            if plan.ordered and missing:
                # nothing beyond the first that must still come
                candidates &= ((missing & -missing) << 1) - 1
            return candidates
        return sum(
            1 << i for i in bits(candidates) if any(True for _ in self.after_known(state, i))
        )

    def after_known(self, state: at.InObject, i: int) -> Iterator[tuple[Expr, at.InObject]]:
        """Each way for known name i to be next: its values, and the state after them."""
        plan = state.node.plan
        seen = state.seen | 1 << i
        passed = state.passed
        if plan.ordered:
            passed |= (1 << i) - 1 & ~seen
        rules = plan.obligations(i) & ~state.met if plan.all_some else 0
        for met in plan.meetings(plan.values[i], rules):
            following = state._replace(
                phase="after", seen=seen, passed=passed,
                members=state.members + plan.counts, met=state.met | met,
            )  # fmt: skip
            if self.completable(following):
                yield plan.joint(plan.values[i], met), following

    def after_other(
        self, state: at.InObject, number: int, name: str | None
    ) -> Iterator[tuple[Expr, at.InObject]]:
        """Each way for a name of a class to be next (None: some name)."""
        plan = state.node.plan
        cls = plan.usable_classes[number]
        rules = plan.class_obligations(cls) & ~state.met if plan.all_some else 0
        others = state.others if name is None else state.others | {name}
        passed = plan.every & ~state.seen if plan.ordered else 0
        for met in plan.meetings(cls.value, rules):
            following = state._replace(
                phase="after", passed=passed, others=others,
                members=state.members + plan.counts, met=state.met | met,
            )  # fmt: skip
            if self.completable(following):
                yield plan.joint(cls.value, met), following

    def step_known_key(
        self, state: at.InKnownKey, parents: Configuration, byte: int
    ) -> Iterator[Frame]:
        found = state.node.tree.step(state.at, byte)
        if isinstance(found, AtName):
            yield self.machine.store.frame(at.InKnownKey(state.node, found), parents)
        elif found is not None:
            for parent in parents.frames:
                assert isinstance(parent.state, at.InObject)
                yield from self._keyed(self.after_known(parent.state, found), parent)

    def step_other_key(
        self, state: at.InOtherKey, parents: Configuration, byte: int
    ) -> Iterator[Frame]:
        found = state.automaton.step(state.at, byte)
        if found is None:
            return
        if not state.automaton.is_closed(found):
            code_point = state.automaton.codec.step(state.at.pending, byte)
            text = state.text
            if text is not None and isinstance(code_point, int):
                text += chr(code_point)
            yield self.machine.store.frame(state._replace(at=found, text=text), parents)
            return
        yield from self.close_other_key(state, parents)

    def close_other_key(self, state: at.InOtherKey, parents: Configuration) -> Iterator[Frame]:
        """The frames after the closing quote of a key that was not known."""
        for parent in parents.frames:
            assert isinstance(parent.state, at.InObject)
            if state.text in state.node.names or state.text in parent.state.others:
                continue
            # without a text (for token masks) no name is refused and none remembered
            ways = self.after_other(parent.state, state.cls, state.text)
            yield from self._keyed(ways, parent)

    def _keyed(self, ways: Iterable[tuple[Expr, at.InObject]], parent: Frame) -> Iterator[Frame]:
        for value, following in ways:
            rest = self.machine.store.configuration(
                [self.machine.store.frame(following, parent.parents)]
            )
            yield self.machine.store.frame(at.BeforeColon(value), rest)
