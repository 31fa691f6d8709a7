"""Steps configurations from byte to byte."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from agentrt.schema.algebra.arrays import ArrayPlan
from agentrt.schema.algebra.cardinality import count as cardinality
from agentrt.schema.algebra.emptiness import is_empty
from agentrt.schema.algebra.objects import ObjectPlan, bits, excluding
from agentrt.schema.machine import states as at
from agentrt.schema.machine import unique
from agentrt.schema.machine.codec import Codec
from agentrt.schema.machine.frames import Configuration, Frame, Store
from agentrt.schema.machine.keys import AtName, NameTree
from agentrt.schema.machine.numbers import RAW, number_text
from agentrt.schema.machine.texts import LiteralText, StringText, TextAutomaton
from agentrt.schema.values.strings import Strings

if TYPE_CHECKING:
    from agentrt.schema.algebra.shapes import ArrayShape, ObjectShape
    from agentrt.schema.algebra.space import Expr, Space

_QUOTE, _COMMA, _COLON = 0x22, 0x2C, 0x3A
_SPACE = frozenset(b" \t\n\r")
_NULL, _TRUE, _FALSE = LiteralText(b"null"), LiteralText(b"true"), LiteralText(b"false")


@dataclass(frozen=True, slots=True)
class TextOptions:
    """How JSON is written.

    `key_order`: known keys in declared order (other keys after them), or in any. `whitespace`: none;
    one space after each comma and colon, as `json.dumps` writes; or any, at most `max_spaces` in a
    row. `ascii_only`: everything else is escaped. `max_digits` caps the digits on each side of a
    number's point. `plain_numbers`: without exponents, and integers without a fraction.
    """

    key_order: Literal["declared", "any"] = "declared"
    whitespace: Literal["compact", "spaced", "free"] = "compact"
    max_spaces: int = 20
    ascii_only: bool = False
    max_digits: int = 32
    plain_numbers: bool = False


class ArrayNode:
    """An array shape, prepared. Compared by identity: one is made for each shape."""

    def __init__(self, machine: Machine, shape: ArrayShape) -> None:
        self.plan = ArrayPlan(machine.space, shape, machine.nonempty)
        self.uniform_from = max(self.plan.uniform_from, self.plan.lo)


class ObjectNode:
    """An object shape, prepared. Compared by identity: one is made for each shape."""

    def __init__(self, machine: Machine, shape: ObjectShape) -> None:
        ordered = machine.options.key_order == "declared"
        self.plan = ObjectPlan(machine.space, shape, machine.nonempty, ordered=ordered)
        self.tree = NameTree(self.plan.names, machine.plain_codec)
        self.names = frozenset(self.plan.names)
        self.openings: dict[tuple[object, ...], list[object]] = {}
        self.free = all(cls.free for cls in self.plan.classes)


class Machine:
    """Follows texts through one compiled schema. All that it makes is cached and may be shared."""

    def __init__(self, space: Space, root: Expr, options: TextOptions) -> None:
        self.space = space
        self.root = root
        self.options = options
        self.codec = Codec(json=True, ascii_only=options.ascii_only)
        self.plain_codec = Codec(json=True, ascii_only=options.ascii_only, plain=True)
        self.store = Store()
        self._arrays: dict[ArrayShape, ArrayNode] = {}
        self._objects: dict[ObjectShape, ObjectNode] = {}
        self._strings: dict[Strings, StringText] = {}
        self._starts: dict[Expr, dict[int, list[object]]] = {}
        self._done = self.store.configuration([self.store.frame(at.Done(), None)])
        self.start = self.store.configuration([self.store.frame(at.Start(root), self._done)])

    @classmethod
    def of_texts(cls, space: Space, strings: Strings, options: TextOptions) -> Machine:
        """A machine of plain texts, not of JSON."""
        machine = cls(space, space.nothing, options)
        text = StringText(strings, RAW)
        first = machine.store.frame(at.InText(text, text.start()), machine._done)
        machine.start = machine.store.configuration([first])
        return machine

    def nonempty(self, value: Expr) -> bool:
        return not is_empty(self.space, value)

    def array(self, shape: ArrayShape) -> ArrayNode:
        found = self._arrays.get(shape)
        if found is None:
            found = self._arrays[shape] = ArrayNode(self, shape)
        return found

    def object(self, shape: ObjectShape) -> ObjectNode:
        found = self._objects.get(shape)
        if found is None:
            found = self._objects[shape] = ObjectNode(self, shape)
        return found

    def string(self, strings: Strings) -> StringText:
        found = self._strings.get(strings)
        if found is None:
            found = self._strings[strings] = StringText(
                strings, self.codec if strings.dfa is None else self.plain_codec
            )
        return found

    # -- configurations ------------------------------------------------------------------------

    def step(self, configuration: Configuration, byte: int) -> Configuration | None:
        """What the byte leads to; None where it is not allowed."""
        try:
            return configuration.following[byte]
        except KeyError:
            pass
        frames = [f for frame in configuration.frames for f in self.after(frame, byte)]
        found = unique.settled(self, frames, configuration.tape, byte) if frames else None
        configuration.following[byte] = found
        return found

    def run(self, configuration: Configuration, text: bytes) -> Configuration | None:
        """What a text leads to; None where it is not allowed."""
        current: Configuration | None = configuration
        for byte in text:
            current = self.step(current, byte)
            if current is None:
                return None
        return current

    def may_end(self, configuration: Configuration) -> bool:
        return any(
            isinstance(frame.state, at.Done) or self._ends(frame) for frame in configuration.frames
        )

    def is_done(self, configuration: Configuration) -> bool:
        """Whether nothing may follow."""
        if all(isinstance(frame.state, at.Done) for frame in configuration.frames):
            return True
        return all(self.step(configuration, byte) is None for byte in range(256))

    def _ends(self, frame: Frame) -> bool:
        """Whether the frame's value may end here and nothing else has to follow."""
        state, parents = frame.state, frame.parents
        return (
            isinstance(state, at.InText)
            and state.text.may_end(state.at)
            and parents is not None
            and any(isinstance(p.state, at.Done) for p in parents.frames)
        )

    def after(self, frame: Frame, byte: int) -> tuple[Frame, ...]:
        """The frames that the byte leads one frame to."""
        try:
            return frame.following[byte]
        except KeyError:
            found = frame.following[byte] = tuple(self._after(frame, byte))
            return found

    def _after(self, frame: Frame, byte: int) -> Iterable[Frame]:
        state, parents = frame.state, frame.parents
        if parents is None:
            return ()
        match state:
            case at.InText():
                return self._in_text(state, parents, byte)
            case at.Start():
                if self._is_space(byte):
                    return self._spaced(state, 1, parents)
                return self._begin(state.value, parents, byte)
            case at.InObject():
                return self._in_object(state, parents, byte)
            case at.InKnownKey():
                return self._in_known_key(state, parents, byte)
            case at.InOtherKey():
                return self._in_other_key(state, parents, byte)
            case at.BeforeColon():
                return self._before_colon(state, parents, byte)
            case at.InArray():
                return self._in_array(state, parents, byte)
            case at.Expect():
                if byte != state.byte:
                    return ()
                return (self.store.frame(state.inner, parents),)
            case at.Spaces():
                if self._is_space(byte):
                    return self._spaced(state.inner, state.count + 1, parents)
                return self.after(self.store.frame(state.inner, parents), byte)
            case _:
                return ()

    def _is_space(self, byte: int) -> bool:
        return byte in _SPACE and self.options.whitespace == "free"

    def _spaced(self, inner: object, count: int, parents: Configuration) -> Iterable[Frame]:
        if count > self.options.max_spaces:
            return ()
        return (self.store.frame(at.Spaces(inner, count), parents),)

    def _separated(self, inner: object, parents: Configuration) -> Iterable[Frame]:
        """After a comma or colon."""
        if self.options.whitespace == "spaced":
            return (self.store.frame(at.Expect(0x20, inner), parents),)
        return (self.store.frame(inner, parents),)

    # -- values --------------------------------------------------------------------------------

    def _begin(self, value: Expr, parents: Configuration, byte: int) -> Iterator[Frame]:
        for state in self.openings(value).get(byte, ()):
            yield self.store.frame(state, parents)

    def openings(self, value: Expr) -> dict[int, list[object]]:
        """The states that each first byte of a value leads to."""
        found = self._starts.get(value)
        if found is None:
            found = self._starts[value] = self._openings(value)
        return found

    def _openings(self, value: Expr) -> dict[int, list[object]]:
        values = self.space.normal(value)
        out: dict[int, list[object]] = {}
        for holds, literal in ((values.null, _NULL), (values.true, _TRUE), (values.false, _FALSE)):
            if holds:
                out[literal.text[0]] = [at.InText(literal, 1)]
        for strings in values.strings:
            if not strings.is_empty:
                text = self.string(strings)
                out.setdefault(_QUOTE, []).append(at.InText(text, text.start()))
        for numbers in values.numbers:
            text = number_text(
                numbers, self.options.max_digits, plain=self.options.plain_numbers
            )
            for byte in b"-0123456789":
                first = None if numbers.is_empty else text.step(text.start(), byte)
                if first is not None:
                    out.setdefault(byte, []).append(at.InText(text, first))
        for shape in values.arrays:
            node = self.array(shape)
            if self._array_completable(node, 0, node.plan.start(), ()):
                state = at.InArray(node, "open", 0, node.plan.start())
                out.setdefault(0x5B, []).append(state)
        for shape in values.objects:
            node = self.object(shape)
            first = at.InObject(node, "open", 0, 0, 0, 0, frozenset())
            if self._object_completable(first):
                out.setdefault(0x7B, []).append(first)
        return out

    def _in_text(self, state: at.InText, parents: Configuration, byte: int) -> Iterator[Frame]:
        text: TextAutomaton = state.text
        following = text.step(state.at, byte)
        if following is not None:
            if text.is_closed(following):
                yield from parents.frames
            else:
                yield self.store.frame(at.InText(text, following), parents)
        if text.may_end(state.at):
            for parent in parents.frames:
                yield from self.after(parent, byte)

    # -- arrays --------------------------------------------------------------------------------

    def _in_array(self, state: at.InArray, parents: Configuration, byte: int) -> Iterable[Frame]:
        if self._is_space(byte):
            return self._spaced(state, 1, parents)
        plan = state.node.plan
        if byte == 0x5D and state.phase != "next":
            return parents.frames if plan.may_end(state.index, state.counts) else ()
        if state.phase != "after":
            return self._item(state, parents, byte)
        if byte == _COMMA and (state.unread or self.more_items(state)):
            return self._separated(state._replace(phase="next"), parents)
        return ()

    def _item(self, state: at.InArray, parents: Configuration, byte: int) -> Iterator[Frame]:
        for value, following in self.next_items(state):
            rest = self.store.configuration([self.store.frame(following, parents)])
            yield from self.after(self.store.frame(at.Start(value), rest), byte)

    def more_items(self, state: at.InArray) -> bool:
        return any(True for _ in self.next_items(state))

    def next_items(self, state: at.InArray) -> Iterator[tuple[Expr, at.InArray]]:
        """Each way for the next item to be, and the state after it."""
        plan = state.node.plan
        if plan.hi is not None and state.index >= plan.hi:
            return
        for way in plan.ways(state.index):
            counts = plan.after(state.counts, way)
            if counts is None:
                continue
            value = way.value
            if state.seen:
                value = self.space.all_of([value, *map(self.space.negation, state.seen)])
                if not self.nonempty(value):
                    continue
            index = state.index + 1
            if plan.hi is None:
                index = min(index, state.node.uniform_from + 1)
            if self._array_completable(state.node, index, counts, state.seen):
                yield value, state._replace(
                    phase="after", index=index, counts=counts, unread=plan.unique
                )

    def _array_completable(
        self, node: ArrayNode, index: int, counts: tuple[int, ...], seen: tuple[Expr, ...]
    ) -> bool:
        plan = node.plan
        if not plan.completable(index, counts):
            return False
        if not plan.unique or index >= plan.lo or not plan.ways(index):
            return True
        # seen lacks the item just begun: one more of its kind is used up
        value = self.space.all_of([plan.ways(index)[0].value, *map(self.space.negation, seen)])
        return cardinality(self.space, value, plan.lo + 1) >= plan.lo - len(seen)

    # -- objects -------------------------------------------------------------------------------

    def _object_completable(self, state: at.InObject) -> bool:
        plan = state.node.plan
        available = plan.every & ~state.passed
        return plan.completable(
            seen=state.seen,
            available=available & ~state.seen,
            classes=True,
            count=state.count,
            met=state.met,
        )

    def _in_object(self, state: at.InObject, parents: Configuration, byte: int) -> Iterable[Frame]:
        if self._is_space(byte):
            return self._spaced(state, 1, parents)
        if state.phase == "after":
            if byte == _COMMA and self._keys(state):
                return self._separated(state._replace(phase="next"), parents)
        elif byte == _QUOTE:
            keying = self.store.configuration(
                [self.store.frame(state._replace(phase="key"), parents)]
            )
            return [self.store.frame(key, keying) for key in self._keys(state)]
        if byte == 0x7D and state.phase != "next":
            return parents.frames if self.object_may_end(state) else ()
        return ()

    def object_may_end(self, state: at.InObject) -> bool:
        plan = state.node.plan
        return (
            not plan.missing(state.seen)
            and state.met == plan.all_some
            and state.count >= plan.shape.lo
        )

    def _keys(self, state: at.InObject) -> list[object]:
        """The states of the keys that may come next, after their opening quote."""
        openings = state.node.openings
        key = (state.seen, state.passed, state.count, state.met, state.others)
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
            if not any(True for _ in self.after_other(state, number, None)):
                continue
            names = cls.names
            if not cls.free:
                names = excluding(names, node.names | state.others)
                if names.is_empty:
                    continue
            text = self.string(names)
            yield at.InOtherKey(node, text, number, text.start(), "")

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
        return sum(1 << i for i in bits(candidates) if any(True for _ in self.after_known(state, i)))

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
                count=state.count + plan.counts, met=state.met | met,
            )  # fmt: skip
            if self._object_completable(following):
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
                count=state.count + plan.counts, met=state.met | met,
            )  # fmt: skip
            if self._object_completable(following):
                yield plan.joint(cls.value, met), following

    def _in_known_key(
        self, state: at.InKnownKey, parents: Configuration, byte: int
    ) -> Iterator[Frame]:
        found = state.node.tree.step(state.at, byte)
        if isinstance(found, AtName):
            yield self.store.frame(at.InKnownKey(state.node, found), parents)
        elif found is not None:
            for parent in parents.frames:
                assert isinstance(parent.state, at.InObject)
                yield from self._keyed(self.after_known(parent.state, found), parent)

    def _in_other_key(
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
            yield self.store.frame(state._replace(at=found, text=text), parents)
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

    def _keyed(
        self, ways: Iterable[tuple[Expr, at.InObject]], parent: Frame
    ) -> Iterator[Frame]:
        for value, following in ways:
            rest = self.store.configuration([self.store.frame(following, parent.parents)])
            yield self.store.frame(at.BeforeColon(value), rest)

    def _before_colon(
        self, state: at.BeforeColon, parents: Configuration, byte: int
    ) -> Iterable[Frame]:
        if self._is_space(byte):
            return self._spaced(state, 1, parents)
        if byte != _COLON:
            return ()
        return self._separated(at.Start(state.value), parents)
