"""The vocabulary as a tree of bytes."""

from __future__ import annotations

import re
from functools import cached_property
from itertools import count
from typing import TYPE_CHECKING

from agentrt.schema.cache import Cache
from agentrt.schema.tokens.spelling import SPECIAL as _SPECIAL
from agentrt.schema.tokens.spelling import PlainTokens

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

# Tokens that write a whole key after something else, and tokens that end one item and begin
# another (by a byte that a value can begin with, or all but begin it: there may be none left): what
# they may not repeat depends on what they themselves wrote.
_LATER_KEY = re.compile(rb',\s*"[^"]*"', re.DOTALL)
_FIRST_KEY = re.compile(rb'^\s*"[^"]*"', re.DOTALL)
_ESCAPED_KEY = re.compile(rb'\\..*"', re.DOTALL)
_TWO_ITEMS = {
    "anywhere": rb"",
    "in an array that it opened": rb"\[.*",
    "in an array that it opened after a string": rb'".*\[.*',
    "from within a string": rb'".*',
    "from within a string nested in the item": rb'"\s*[}\]].*',
    "from within a key": rb'"\s*:.*',
}
"""What a token that ends one item and begins another holds before the comma, by where it stands."""
_ITEM = rb',\s*(?:["\-0-9tfn\[{]|\Z)'
_MOST_JOINED = 10_000


_numbers = count()


class Node:
    """`children` by the next byte; `tokens` are those that end here. No two nodes share a
    `number`."""

    __slots__ = ("_below", "children", "number", "tokens")

    def __init__(self) -> None:
        self.children: dict[int, Node] = {}
        self.tokens: tuple[int, ...] = ()
        self.number = next(_numbers)
        self._below: tuple[int, ...] | None = None

    def insert(self, text: bytes, token: int) -> None:
        node = self
        for byte in text:
            following = node.children.get(byte)
            if following is None:
                following = node.children[byte] = Node()
            node = following
        node.tokens = (*node.tokens, token)

    @property
    def below(self) -> tuple[int, ...]:
        """The tokens that end here or further on."""
        if self._below is None:
            out: list[int] = []
            stack: list[Node] = [self]
            while stack:
                node = stack.pop()
                out += node.tokens
                stack.extend(node.children.values())
            self._below = tuple(out)
        return self._below


def _merged(nodes: Iterable[Node]) -> Node:
    """One tree of what follows any of the nodes."""
    out = Node()
    stack = [(out, list(nodes))]
    while stack:
        target, group = stack.pop()
        by_byte: dict[int, list[Node]] = {}
        found: list[int] = []
        for node in group:
            found.extend(node.tokens)
            for byte, child in node.children.items():
                by_byte.setdefault(byte, []).append(child)
        target.tokens = tuple(found)
        for byte, group in by_byte.items():
            child = group[0] if len(group) == 1 else Node()
            target.children[byte] = child
            if len(group) > 1:
                stack.append((child, group))
    return out


class Trie:
    """The tree of all tokens, and the parts that masks are worked out from."""

    def __init__(self, tokens: Sequence[bytes | None]) -> None:
        self.tokens = tokens
        self.root = Node()
        self._joined: Cache[tuple[int, ...], Node] = Cache(_MOST_JOINED)
        self._two_items: dict[str, list[int]] = {}
        for number, token in enumerate(tokens):
            if token is not None:
                self.root.insert(token, number)

    def prepare(self) -> None:
        """Makes what the masks of every schema need. It goes over all tokens, several times."""
        _ = self.plain, self.special, self.longest, self.quoting, self.closing
        _ = self.first_key, self.later_key, self.escaped_key

    def prefixes(self, text: bytes, start: int) -> Iterator[tuple[int, int]]:
        """Each token that the text goes on with at `start`: where it ends, and its number."""
        node: Node | None = self.root
        for at in range(start, len(text)):
            node = node.children.get(text[at])
            if node is None:
                return
            if node.tokens:
                yield at + 1, node.tokens[0]

    def find(self, text: bytes) -> Node | None:
        node: Node | None = self.root
        for byte in text:
            node = node.children.get(byte)
            if node is None:
                return None
        return node

    @cached_property
    def longest(self) -> int:
        """The most bytes in one token."""
        return max((len(t) for t in self.tokens if t is not None), default=0)

    @cached_property
    def plain(self) -> PlainTokens:
        return PlainTokens(self.tokens)

    @cached_property
    def special(self) -> Node:
        """The tree of the tokens that are not plain."""
        plain = set(self.plain.numbers.tolist())
        root = Node()
        for number, token in enumerate(self.tokens):
            if token is not None and number not in plain:
                root.insert(token, number)
        return root

    def merged(self, nodes: Iterable[Node]) -> Node | None:
        """One tree of what follows any of the nodes; equal ones are made once."""
        by_number = {node.number: node for node in nodes}
        if len(by_number) < 2:
            return next(iter(by_number.values()), None)
        key = tuple(sorted(by_number))
        found = self._joined.get(key)
        if found is None:
            found = self._joined.keep(key, _merged(by_number.values()))
        return found

    @cached_property
    def quoting(self) -> Node:
        """The tree of the tokens that hold a quote."""
        root = Node()
        for number, token in enumerate(self.tokens):
            if token is not None and b'"' in token:
                root.insert(token, number)
        return root

    @cached_property
    def closing(self) -> dict[str, list[int]]:
        """The tokens that write the end of a key and its closing quote, by what they write of it,
        as far as that is written without escapes."""
        out: dict[str, list[int]] = {}
        for number, token in enumerate(self.tokens):
            begun, quote, _ = (token or b"").partition(b'"')
            if quote and _SPECIAL.isdisjoint(begun):
                try:
                    out.setdefault(begun.decode(), []).append(number)
                except UnicodeDecodeError:
                    continue
        return out

    @cached_property
    def later_key(self) -> list[int]:
        """The tokens that write a whole key after a comma."""
        return self._matching(_LATER_KEY)

    @cached_property
    def first_key(self) -> list[int]:
        """The tokens that begin with a whole key."""
        return self._matching(_FIRST_KEY)

    @cached_property
    def escaped_key(self) -> list[int]:
        """The tokens that may end a key after an escape."""
        return self._matching(_ESCAPED_KEY)

    def two_items(self, where: str) -> list[int]:
        """The tokens that may end one item and begin another, standing where one of `_TWO_ITEMS`
        says."""
        found = self._two_items.get(where)
        if found is None:
            pattern = re.compile(_TWO_ITEMS[where] + _ITEM, re.DOTALL)
            found = self._two_items[where] = self._matching(pattern)
        return found

    def _matching(self, pattern: re.Pattern[bytes]) -> list[int]:
        return [i for i, t in enumerate(self.tokens) if t is not None and pattern.search(t)]
