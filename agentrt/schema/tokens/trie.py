"""The vocabulary as a tree of bytes, and what is known of its tokens inside strings."""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_SPECIAL = frozenset([*range(0x20), 0x22, 0x5C])
# Tokens that write a whole key after something else, and tokens that end one item and begin
# another: what they may not repeat depends on what they themselves wrote.
_WHOLE_KEY = re.compile(rb',\s*"[^"]*"|\\.*"|^\s*"[^"]*"', re.DOTALL)
_TWO_ITEMS = re.compile(rb",\s*\S", re.DOTALL)


class Node:
    """`children` by the next byte; `tokens` are those that end here."""

    __slots__ = ("children", "tokens")

    def __init__(self) -> None:
        self.children: dict[int, Node] = {}
        self.tokens: tuple[int, ...] = ()

    def insert(self, text: bytes, token: int) -> None:
        node = self
        for byte in text:
            following = node.children.get(byte)
            if following is None:
                following = node.children[byte] = Node()
            node = following
        node.tokens = (*node.tokens, token)

    def below(self) -> Iterator[int]:
        """The tokens that end here or further on."""
        stack: list[Node] = [self]
        while stack:
            node = stack.pop()
            yield from node.tokens
            stack.extend(node.children.values())


def merged(nodes: Iterable[Node]) -> Node:
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
        for number, token in enumerate(tokens):
            if token is not None:
                self.root.insert(token, number)

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

    @cached_property
    def whole_key(self) -> list[int]:
        return self._matching(_WHOLE_KEY)

    @cached_property
    def two_items(self) -> list[int]:
        return self._matching(_TWO_ITEMS)

    def _matching(self, pattern: re.Pattern[bytes]) -> list[int]:
        return [i for i, t in enumerate(self.tokens) if t is not None and pattern.search(t)]


class PlainTokens:
    """The tokens made of whole characters that JSON strings hold as they are.

    Tokens are in order of length. `symbols[j, i]` says which of `alphabet` character j of token
    `numbers[i]` is; `from_length[n]` is the first row with more than n characters.
    """

    def __init__(self, tokens: Sequence[bytes | None]) -> None:
        decoded: list[tuple[int, str]] = []
        for number, token in enumerate(tokens):
            if token is None or not _SPECIAL.isdisjoint(token):
                continue
            try:
                decoded.append((number, token.decode()))
            except UnicodeDecodeError:
                continue
        decoded.sort(key=lambda pair: len(pair[1]))
        self.numbers = np.array([n for n, _ in decoded], dtype=np.int64)
        self.lengths = np.array([len(t) for _, t in decoded], dtype=np.int64)
        self.longest = int(self.lengths.max()) if decoded else 0
        index = {c: i for i, c in enumerate(sorted({c for _, t in decoded for c in t}))}
        self.alphabet = np.array([ord(c) for c in index], dtype=np.int64)
        self.symbols = np.zeros((self.longest, len(decoded)), dtype=np.int32)
        for row, (_, text) in enumerate(decoded):
            self.symbols[: len(text), row] = [index[c] for c in text]
        self.from_length = np.searchsorted(self.lengths, np.arange(self.longest + 2), side="right")
