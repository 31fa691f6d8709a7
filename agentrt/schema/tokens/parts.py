"""What tokens can do from one state on, whatever the value that it is in stands in.

The machine steps configurations: states together with all the ways to go on after them. Masks ask
about thousands of bytes at once, and most of what they ask depends on the state alone. So here
states are followed through the tree of tokens without what they stand in; where their value is
complete, the part says what tokens still go on with, and that is followed from the state around
it. A part is worked out once, and shared by every place of equal state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentrt.schema.cache import Cache
from agentrt.schema.machine import states as at
from agentrt.schema.machine.keys import AtName
from agentrt.schema.machine.texts import StringText
from agentrt.schema.tokens.entries import NameEntries, OtherEntries
from agentrt.schema.tokens.walk import onward, shared

if TYPE_CHECKING:
    from collections.abc import Iterable

    from agentrt.schema.algebra.space import Expr
    from agentrt.schema.machine.codec import Pending
    from agentrt.schema.machine.keys import NameTree
    from agentrt.schema.machine.machine import Machine
    from agentrt.schema.machine.texts import Within
    from agentrt.schema.tokens.trie import Node, Trie

_QUOTE, _COMMA, _COLON, _ARRAY_END, _OBJECT_END = 0x22, 0x2C, 0x3A, 0x5D, 0x7D
_SPACES = b" \t\n\r"
_NONE: frozenset[str] = frozenset()
_MOST_KEPT = 50_000
_SPACED = (at.Start, at.BeforeColon, at.InObject, at.InArray)
"""Where white space may stand."""


class Part:
    """`tokens` that end within the value (or with it); `after`: the nodes at which others go on
    after it."""

    __slots__ = ("after", "tokens")

    def __init__(self, tokens: Iterable[int], after: tuple[Node, ...]) -> None:
        self.tokens = tuple(tokens)
        self.after = after


class Ends:
    """Collects what one walk finds: tokens, and the nodes where the value is complete."""

    __slots__ = ("nodes", "tokens")

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.nodes: list[Node] = []

    def add(self, part: Part) -> None:
        self.tokens.extend(part.tokens)
        self.nodes.extend(part.after)

    def part(self, trie: Trie) -> Part:
        nodes = [n for n in self.nodes if n.children]
        if len(nodes) < 2:
            return Part(self.tokens, tuple(nodes))
        if trie.root not in nodes:
            merged = trie.merged(nodes)
            return Part(self.tokens, () if merged is None else (merged,))
        # the whole tree is large, and followed from often: it is not merged with others
        merged = trie.merged(n for n in nodes if n is not trie.root)
        return Part(self.tokens, (trie.root,) if merged is None else (trie.root, merged))


class Parts:
    """Works out the parts of one machine over one vocabulary, and keeps them."""

    def __init__(self, machine: Machine, trie: Trie) -> None:
        self.machine = machine
        self.trie = trie
        self._free = machine.options.whitespace == "free"
        self._known: Cache[tuple[int, object], Part] = Cache(_MOST_KEPT)
        self._names: Cache[tuple[int, NameTree, int, Pending | None], NameEntries]
        self._names = Cache(_MOST_KEPT)
        self._others: Cache[tuple[int, StringText, Within], OtherEntries] = Cache(_MOST_KEPT)

    def of(self, node: Node, state: object) -> Part:
        """The part of a state, from a node of the tree of tokens on."""
        if isinstance(state, at.InObject) and state.others and state.node.free:
            # which other names were taken matters to few tokens: those are tried one by one
            state = state._replace(others=_NONE)
        key = (node.number, state)
        found = self._known.get(key)
        if found is None:
            ends = Ends()
            if isinstance(state, at.Spaces):
                self._spaces(node, state.inner, state.spaces + 1, ends)
                self._solid(node, state.inner, ends)
            else:
                if self._free and isinstance(state, _SPACED):
                    self._spaces(node, state, 1, ends)
                self._solid(node, state, ends)
            found = self._known.keep(key, ends.part(self.trie))
        return found

    def _spaces(self, node: Node, inner: object, count: int, ends: Ends) -> None:
        if not self._free or count > self.machine.options.max_spaces:
            return
        for byte in _SPACES:
            child = node.children.get(byte)
            if child is not None:
                self._through(child, at.Spaces(inner, count), ends)

    def _through(self, child: Node, state: object, ends: Ends) -> None:
        """After a byte that led to a state."""
        ends.tokens.extend(child.tokens)
        if child.children:
            ends.add(self.of(child, state))

    def _solid(self, node: Node, state: object, ends: Ends) -> None:
        match state:
            case at.InText():
                self._in_text(node, state, ends)
            case at.Start():
                self._begin(node, state.value, ends)
            case at.InArray():
                self._in_array(node, state._replace(unread=False), ends)
            case at.InObject():
                self._in_object(node, state, ends)
            case at.BeforeColon():
                child = node.children.get(_COLON)
                if child is not None:
                    self._separated(child, at.Start(state.value), ends)
            case at.Expect():
                child = node.children.get(state.byte)
                if child is not None:
                    self._through(child, state.inner, ends)
            case _:
                return

    def _separated(self, child: Node, inner: object, ends: Ends) -> None:
        """After a comma or colon."""
        spaced = self.machine.options.whitespace == "spaced"
        self._through(child, at.Expect(0x20, inner) if spaced else inner, ends)

    # -- values --------------------------------------------------------------------------------

    def _begin(self, node: Node, value: Expr, ends: Ends) -> None:
        openings = self.machine.openings(value)
        for byte, child in shared(node, openings):
            ends.tokens.extend(child.tokens)
            if child.children:
                for state in openings[byte]:
                    ends.add(self.of(child, state))

    def _in_text(self, node: Node, state: at.InText, ends: Ends) -> None:
        text, tokens, nodes = state.text, ends.tokens, ends.nodes
        quoted = isinstance(text, StringText) and text.codec.json  # it may end when it is closed
        stack: list[tuple[Node, object]] = [(node, state.at)]
        while stack:
            node, within = stack.pop()
            if not quoted and text.may_end(within):
                nodes.append(node)
            for child, following in onward(node, text, within):
                if child.tokens:
                    tokens.extend(child.tokens)
                if text.is_closed(following):
                    nodes.append(child)
                elif child.children:
                    stack.append((child, following))

    def _in_array(self, node: Node, state: at.InArray, ends: Ends) -> None:
        plan, items = state.node.plan, self.machine.items
        if state.phase != "next" and plan.may_end(state.position, state.counts):
            child = node.children.get(_ARRAY_END)
            if child is not None:
                ends.tokens.extend(child.tokens)
                ends.nodes.append(child)
        if state.phase != "after":
            for value, following in items.next_items(state):
                opened = Ends()
                self._begin(node, value, opened)
                self._then(opened.part(self.trie), following, ends)
        else:
            child = node.children.get(_COMMA)
            if child is not None and items.more_items(state):
                self._separated(child, state._replace(phase="next"), ends)

    def _then(self, first: Part, following: object, ends: Ends) -> None:
        """A value, and then the state after it."""
        ends.tokens.extend(first.tokens)
        for node in first.after:
            ends.add(self.of(node, following))

    def _in_object(self, node: Node, state: at.InObject, ends: Ends) -> None:
        members = self.machine.members
        if state.phase != "next":
            child = node.children.get(_OBJECT_END)
            if child is not None and members.may_end(state):
                ends.tokens.extend(child.tokens)
                ends.nodes.append(child)
        child = node.children.get(_COMMA if state.phase == "after" else _QUOTE)
        keys = [] if child is None else members.keys(state)
        if child is None or not keys:
            return
        if state.phase == "after":
            self._separated(child, state._replace(phase="next"), ends)
            return
        ends.tokens.extend(child.tokens)
        if child.children:
            for key in keys:
                self.key(child, key, state, ends)

    # -- keys ----------------------------------------------------------------------------------

    def key(self, node: Node, key: object, parent: at.InObject, ends: Ends) -> None:
        """From within a key of an object on."""
        if isinstance(key, at.InKnownKey):
            self.inside_known(node, key, ends.tokens)
            self.known_ends(node, key, parent, ends)
        elif isinstance(key, at.InOtherKey):
            entries = self.others(node, key)
            ends.tokens.extend(entries.inside)
            for name, child in entries.ends:
                whole = None if key.text is None else key.text + name
                self.after_other(child, key, parent, whole, ends)

    def inside_known(self, node: Node, key: at.InKnownKey, out: list[int]) -> None:
        """Adds the tokens that stay within a key among known names."""
        allowed = key.at.allowed
        for names, tokens in self._names_of(node, key.node.tree, key.at).inside:
            if names & allowed:
                out.extend(tokens)

    def known_ends(self, node: Node, key: at.InKnownKey, parent: at.InObject, ends: Ends) -> None:
        """The tokens that end the key, and go on after it."""
        plan = parent.node.plan
        for index, child in self._names_of(node, key.node.tree, key.at).ends:
            if key.at.allowed >> index & 1:
                value = plan.values[index] if plan.plain else None
                if value is None or not self._keyed_alone(child, value, ends):
                    self._keyed(child, self.machine.members.after_known(parent, index), ends)

    def after_other(
        self, child: Node, key: at.InOtherKey, parent: at.InObject, name: str | None, ends: Ends
    ) -> None:
        """After the closing quote of a key that is not known."""
        if name in key.node.names or name in parent.others:
            return
        self._keyed(child, self.machine.members.after_other(parent, key.cls, name), ends)

    def alone(self, child: Node, key: at.InOtherKey, parent: at.InObject) -> Expr | None:
        """The value after a key that is not known, where nothing that tokens can write after the
        key's closing quote depends on the object."""
        plan = parent.node.plan
        value = plan.usable_classes[key.cls].value
        if not plan.plain or (child.children and self.of(child, at.BeforeColon(value)).after):
            return None
        return value

    def _keyed_alone(self, child: Node, value: Expr, ends: Ends) -> bool:
        """After the closing quote of a key that may come, where that is all that matters."""
        if child.children:
            part = self.of(child, at.BeforeColon(value))
            if part.after:
                return False
            ends.tokens.extend(part.tokens)
        ends.tokens.extend(child.tokens)
        return True

    def _keyed(self, child: Node, ways: Iterable[tuple[Expr, at.InObject]], ends: Ends) -> None:
        some = False
        for value, following in ways:
            some = True
            if child.children:
                self._then(self.of(child, at.BeforeColon(value)), following, ends)
        if some:
            ends.tokens.extend(child.tokens)

    def completing(self, node: Node, tree: NameTree, begun: str) -> tuple[int, ...]:
        """The tokens that complete a name of the tree, of which so much was read."""
        place = tree.find(begun)
        if place is None:
            return ()
        return self._names_of(node, tree, AtName(place, 0, None)).completing

    def _names_of(self, node: Node, tree: NameTree, place: AtName) -> NameEntries:
        known = (node.number, tree, place.node, place.pending)
        found = self._names.get(known)
        if found is None:
            found = self._names.keep(known, NameEntries(node, tree, place))
        return found

    def others(self, node: Node, key: at.InOtherKey) -> OtherEntries:
        """What tokens do in a key of a class of names."""
        known = (node.number, key.automaton, key.at)
        found = self._others.get(known)
        if found is None:
            found = self._others.keep(known, OtherEntries(node, key.automaton, key.at))
        return found
