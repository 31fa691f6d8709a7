"""What tokens do inside keys, whatever the object: among known names, and in a class of names."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from agentrt.schema.machine.keys import AtName
from agentrt.schema.tokens.walk import reachable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from agentrt.schema.machine.keys import NameTree
    from agentrt.schema.machine.texts import StringText, Within
    from agentrt.schema.tokens.trie import Node

_QUOTE, _ESCAPE = 0x22, 0x5C


class NameEntries:
    """What tokens do in a key among known names, were every one allowed: `inside` with the names of
    which one must be, `ends` the nodes after a name's closing quote."""

    def __init__(self, node: Node, tree: NameTree, start: AtName) -> None:
        self.tree = tree
        self.inside: list[tuple[int, tuple[int, ...]]] = []
        self.ends: list[tuple[int, Node]] = []
        self._stack: list[tuple[Node, AtName | int]] = [
            (node, start.node if start.pending is None else start)
        ]
        while self._stack:
            node, place = self._stack.pop()
            if isinstance(place, AtName):
                self._within(node, place, node.children)
            else:
                self._between(node, place)

    @cached_property
    def completing(self) -> tuple[int, ...]:
        """The tokens that complete a name."""
        if len(self.ends) == 1:
            return self.ends[0][1].below
        return tuple(token for _, child in self.ends for token in child.below)

    def _between(self, node: Node, place: int) -> None:
        """From between two characters of a name."""
        tree = self.tree
        quote = node.children.get(_QUOTE)
        if quote is not None and tree.ends[place] >= 0:
            self.ends.append((tree.ends[place], quote))
        following = tree.plainly[place]
        for byte in node.children.keys() & following.keys():
            child, target = node.children[byte], following[byte]
            if child.tokens:
                self.inside.append((tree.below[target], child.tokens))
            if child.children:
                self._stack.append((child, target))
        if len(following) < len(tree.children[place]):
            within = AtName(place, tree.below[place], None)
            self._within(node, within, [b for b in node.children if b == _ESCAPE or b >= 0x80])

    def _within(self, node: Node, place: AtName, read: Iterable[int]) -> None:
        """On by bytes that begin or continue a character of more than one."""
        tree = self.tree
        place = place._replace(allowed=tree.below[place.node])
        for byte in read:
            child, following = node.children[byte], tree.step(place, byte)
            if not isinstance(following, AtName):
                continue
            if child.tokens:
                self.inside.append((tree.possible(following), child.tokens))
            if child.children:
                whole = following.pending is None
                self._stack.append((child, following.node if whole else following))


class OtherEntries:
    """What tokens do in a key of a class of names: `inside`, and for those that close it what they
    write of the name, with the node after the quote."""

    __slots__ = ("ends", "inside")

    def __init__(self, node: Node, text: StringText, start: Within) -> None:
        self.inside: list[int] = []
        self.ends: list[tuple[str, Node]] = []
        stack: list[tuple[Node, Within, str]] = [(node, start, "")]
        while stack:
            node, within, name = stack.pop()
            for byte, child in reachable(node, text, within):
                following = text.step(within, byte)
                if following is None:
                    continue
                if text.is_closed(following):
                    self.ends.append((name, child))
                    continue
                self.inside.extend(child.tokens)
                if child.children:
                    found = text.codec.step(within.pending, byte)
                    longer = name + chr(found) if isinstance(found, int) else name
                    stack.append((child, following, longer))
