"""Steps configurations from byte to byte."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from agentrt.schema.algebra.emptiness import is_empty
from agentrt.schema.machine import states as at
from agentrt.schema.machine import unique
from agentrt.schema.machine.codec import Codec
from agentrt.schema.machine.frames import Configuration, Frame, Store
from agentrt.schema.machine.items import ArrayNode, Items
from agentrt.schema.machine.members import Members, ObjectNode
from agentrt.schema.machine.numbers import RAW, number_text
from agentrt.schema.machine.texts import LiteralText, StringText, TextAutomaton
from agentrt.schema.values.numbers import is_integral

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from agentrt.schema.algebra.shapes import ArrayShape, ObjectShape
    from agentrt.schema.algebra.space import Expr, Space
    from agentrt.schema.machine.digits import NumberText
    from agentrt.schema.values.numbers import Numbers
    from agentrt.schema.values.strings import Strings

_QUOTE, _COMMA, _COLON = 0x22, 0x2C, 0x3A
_MOST_INTERNED = 400_000
_MOST_GROWN = 20_000
_SPACE = frozenset(b" \t\n\r")
_NULL, _TRUE, _FALSE = LiteralText(b"null"), LiteralText(b"true"), LiteralText(b"false")


@dataclass(frozen=True, slots=True)
class TextOptions:
    """How JSON is written.

    `key_order`: known keys in declared order (other keys after them), or in any. `whitespace`:
    none; one space after each comma and colon, as `json.dumps` writes; or any, at most `max_spaces`
    in a row. `ascii_only`: everything else is escaped. `max_digits` caps the digits on each side of
    a number's point. `plain_numbers`: which are written without exponents, and as integers without
    a fraction.
    """

    key_order: Literal["declared", "any"] = "declared"
    whitespace: Literal["compact", "spaced", "free"] = "compact"
    max_spaces: int = 20
    ascii_only: bool = False
    max_digits: int = 32
    plain_numbers: Literal["none", "integers", "all"] = "none"


class Machine:
    """Follows texts through one compiled schema. All that it makes is cached and may be shared."""

    def __init__(self, space: Space, root: Expr, options: TextOptions) -> None:
        self.space = space
        self.root = root
        self.options = options
        self.codec = Codec(json=True, ascii_only=options.ascii_only)
        self.plain_codec = Codec(json=True, ascii_only=options.ascii_only, plain=True)
        self.store = Store()
        self.items = Items(self)
        self.members = Members(self)
        self.tells_items_apart = False
        """Whether it has come upon arrays whose items must differ."""
        self._arrays: dict[ArrayShape, ArrayNode] = {}
        self._objects: dict[ObjectShape, ObjectNode] = {}
        self._strings: dict[Strings, StringText] = {}
        self._number_texts: dict[Numbers, StringText | NumberText] = {}
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
            self.tells_items_apart |= found.plan.unique
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

    def number(self, numbers: Numbers) -> StringText | NumberText:
        found = self._number_texts.get(numbers)
        if found is None:
            found = self._number_texts[numbers] = number_text(
                numbers, self.options.max_digits, plain=self.is_plain(numbers)
            )
        return found

    # -- configurations ------------------------------------------------------------------------

    def step(self, configuration: Configuration, byte: int) -> Configuration | None:
        """What the byte leads to; None where it is not allowed."""
        try:
            return configuration.following[byte]
        except KeyError:
            pass
        if len(configuration.frames) == 1 and configuration.tape is None:
            # what the frame leads to is kept here: kept there too, it would be so twice
            frames = list(self._after(configuration.frames[0], byte))
        else:
            frames = [f for frame in configuration.frames for f in self.after(frame, byte)]
        found = unique.settled(self, frames, configuration.tape, byte) if frames else None
        configuration.following[byte] = found
        return found

    def trim(self) -> None:
        """Forgets what texts have led to, once it is much; what is in use stays good."""
        grown = self.space.grown > _MOST_GROWN
        if grown:
            # with items that must differ, each text brings sets of values of its own
            self.space.forget()
            for made in (self._arrays, self._objects, self._strings, self._number_texts):
                made.clear()
            self._starts.clear()
        if grown or self.store.size > _MOST_INTERNED:
            self.store.forget()
            first = [self.store.frame(f.state, f.parents) for f in self.start.frames]
            self.start = self.store.configuration(first)
            for node in self._objects.values():
                node.openings.clear()

    def sizes(self) -> dict[str, int]:
        """How much has been met of what the schema can lead to."""
        automata = [t.dfa for t in self._strings.values() if t.dfa is not None]
        return {
            "places": self.store.places,
            "objects": len(self._objects),
            "arrays": len(self._arrays),
            "automata": len(automata),
            "automaton_states": sum(len(dfa.rows) for dfa in automata),
        }

    def run(self, configuration: Configuration, text: bytes) -> Configuration | None:
        """What a text leads to; None where it is not allowed."""
        current: Configuration | None = configuration
        for byte in text:
            current = self.step(current, byte)
            if current is None:
                return None
        return current

    def may_end(self, configuration: Configuration) -> bool:
        for frame in configuration.frames:
            if isinstance(frame.state, at.Done) or self._ends(frame):
                return True
        return False

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
                if self.is_space(byte):
                    return self.spaced(state, 1, parents)
                return self._begin(state.value, parents, byte)
            case at.InObject():
                return self.members.step(state, parents, byte)
            case at.InKnownKey():
                return self.members.step_known_key(state, parents, byte)
            case at.InOtherKey():
                return self.members.step_other_key(state, parents, byte)
            case at.BeforeColon():
                return self._before_colon(state, parents, byte)
            case at.InArray():
                return self.items.step(state, parents, byte)
            case at.Expect():
                if byte != state.byte:
                    return ()
                return (self.store.frame(state.inner, parents),)
            case at.Spaces():
                if self.is_space(byte):
                    return self.spaced(state.inner, state.spaces + 1, parents)
                return self.after(self.store.frame(state.inner, parents), byte)
            case _:
                return ()

    def is_space(self, byte: int) -> bool:
        return byte in _SPACE and self.options.whitespace == "free"

    def spaced(self, inner: object, count: int, parents: Configuration) -> Iterable[Frame]:
        if count > self.options.max_spaces:
            return ()
        return (self.store.frame(at.Spaces(inner, count), parents),)

    def separated(self, inner: object, parents: Configuration) -> Iterable[Frame]:
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
            text = self.number(numbers)
            for byte in b"" if numbers.is_empty else b"-0123456789":
                first = text.step(text.start(), byte)
                if first is not None:
                    out.setdefault(byte, []).append(at.InText(text, first))
        for shape in values.arrays:
            node = self.array(shape)
            state = at.InArray(node, "open", 0, node.plan.start())
            if self.items.completable(state):
                out.setdefault(0x5B, []).append(state)
        for shape in values.objects:
            node = self.object(shape)
            first = at.InObject(node, "open", 0, 0, 0, 0, frozenset())
            if self.members.completable(first):
                out.setdefault(0x7B, []).append(first)
        return out

    def is_plain(self, numbers: Numbers) -> bool:
        mode = self.options.plain_numbers
        return mode == "all" or (mode == "integers" and is_integral(numbers))

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

    def _before_colon(
        self, state: at.BeforeColon, parents: Configuration, byte: int
    ) -> Iterable[Frame]:
        if self.is_space(byte):
            return self.spaced(state, 1, parents)
        if byte != _COLON:
            return ()
        return self.separated(at.Start(state.value), parents)
