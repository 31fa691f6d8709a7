"""Tokens as characters, so that an automaton runs over all of them at once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from agentrt.schema.machine.codec import CLOSE, Codec, Pending, Ranges

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentrt.schema.regex.alphabet import Alphabet
    from agentrt.schema.regex.dfa import Dfa
    from agentrt.schema.tokens.trie import Node

SPECIAL = frozenset([*range(0x20), 0x22, 0x5C])
"""The ASCII characters that JSON strings do not hold as they are."""
_NARROW = 16
FAR = 1 << 20
"""More characters than any bound that is told apart from none."""


class CharTree:
    """Texts as a tree of characters, in breadth-first order from the root, node 0.

    `parents[i]` and `symbols[i]` (an index into `alphabet`) say where node i comes from, `depth[i]`
    how many characters it has; `ends[i]` is the node of text i. All are integers.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        order = sorted(range(len(texts)), key=lambda i: texts[i])
        codes = np.frombuffer("".join(texts[i] for i in order).encode("utf-32-le"), dtype="<u4")
        lengths = np.array([len(texts[i]) for i in order], dtype=np.int64)
        offsets = np.cumsum(lengths) - lengths
        at = np.zeros(len(texts), dtype=np.int32)
        parents, symbols = [np.zeros(1, np.int32)], [np.zeros(1, codes.dtype)]
        self.levels = [(0, 1)]
        active, size = np.flatnonzero(lengths), 1
        while len(active):
            depth = len(self.levels) - 1
            parent, symbol = at[active], codes[offsets[active] + depth]
            # texts are in order, so that those of one node are next to each other
            first = np.ones(len(active), dtype=bool)
            first[1:] = (parent[1:] != parent[:-1]) | (symbol[1:] != symbol[:-1])
            at[active] = size + np.cumsum(first) - 1
            parents.append(parent[first])
            symbols.append(symbol[first])
            self.levels.append((size, size + int(first.sum())))
            size = self.levels[-1][1]
            active = active[lengths[active] > depth + 1]
        self.parents = np.concatenate(parents)
        self.alphabet, index = np.unique(np.concatenate(symbols), return_inverse=True)
        self.symbols = index.reshape(-1).astype(np.int32)
        self.depth = np.repeat(
            np.arange(len(self.levels), dtype=np.int32), [hi - lo for lo, hi in self.levels]
        )
        self.ends = np.zeros(len(texts), dtype=np.int32)
        self.ends[order] = at
        wide = [i for i, (lo, hi) in enumerate(self.levels) if hi - lo >= _NARROW]
        self._wide = self.levels[1 : max(wide, default=0) + 1]

    def sweep(self, table: Table, start: int) -> np.ndarray:
        """The DFA state at each node, from a state at the root (int32)."""
        at = np.full(len(self.parents), start, dtype=np.int32)
        classes, size = table.classes(self.alphabet)[self.symbols], table.width
        base, end = 0, 1
        for lo, hi in self._wide:
            at[lo:hi] = table.flat[at[self.parents[lo:hi]] * size + classes[lo:hi]]
            base, end = lo, hi
            if (table.left[at[lo:hi]] == FAR).all():
                at[hi:] = at[lo]
                return at
        # deep levels are narrow: runs of spaces, mostly
        narrow: list[int] = at[base:end].tolist()
        rows = table.dfa.rows
        for parent, cls in zip(self.parents[end:].tolist(), classes[end:].tolist(), strict=True):
            narrow.append(rows[narrow[parent - base]][cls])
        at[base:] = narrow
        return at


class Table:
    """An automaton as arrays. `flat[q * width + c]` is where class c leads from q."""

    def __init__(self, dfa: Dfa) -> None:
        self.dfa = dfa
        self.width = dfa.alphabet.size
        self.flat = np.array(dfa.rows, dtype=np.int32).reshape(-1)
        self._classes: dict[int, np.ndarray] = {}

    def classes(self, code_points: np.ndarray) -> np.ndarray:
        """The class of each code point; kept for each array asked about."""
        found = self._classes.get(id(code_points))
        if found is None:
            symbols: Alphabet = self.dfa.alphabet
            at = np.searchsorted(np.array(symbols.starts), code_points, side="right") - 1
            found = np.array(symbols.classes, dtype=np.int32)[at]
            self._classes[id(code_points)] = found
        return found

    @cached_property
    def left(self) -> np.ndarray:
        """The fewest characters from each state to an accepting one; FAR where there is no way."""
        left = np.full(len(self.dfa.rows), FAR, dtype=np.int32)
        left[list(self.dfa.accepting)] = 0
        table, count = self.flat.reshape(-1, self.width), 0
        reached = (left[table] == 0).any(axis=1) & (left == FAR)
        while reached.any():
            count += 1
            left[reached] = count
            reached = (left[table] == count).any(axis=1) & (left == FAR)
        return left


class PlainTokens:
    """The tokens made of whole characters that JSON strings hold as they are: `numbers[i]` is text
    i of `tree`."""

    def __init__(self, tokens: Sequence[bytes | None]) -> None:
        numbers: list[int] = []
        texts: list[str] = []
        for number, token in enumerate(tokens):
            if token is None or not SPECIAL.isdisjoint(token):
                continue
            try:
                texts.append(token.decode())
            except UnicodeDecodeError:
                continue
            numbers.append(number)
        self.numbers = np.array(numbers, dtype=np.int64)
        self.ascii = np.array([t.isascii() for t in texts], dtype=bool)
        self.tree = CharTree(texts)


@dataclass(frozen=True, slots=True)
class Partial:
    """Tokens that end within a character, begun at node `end`: what it may still become."""

    end: int
    ranges: Ranges
    tokens: list[int]

    def targets(self, dfa: Dfa, at: np.ndarray) -> set[int]:
        """The DFA states that the whole character may lead to, given those at the nodes."""
        row = dfa.rows[int(at[self.end])]
        return {row[c] for lo, hi in self.ranges for c in dfa.alphabet.classes_within(lo, hi)}


class SpecialTokens:
    """The other tokens, as the characters that they write in a codec.

    `numbers[i]` ends at node `ends[i]` of the tree; `partial` end within a character; `closed` are
    the places in the tree of bytes after a closing quote, with the node that it stands at.
    """

    def __init__(self, root: Node, codec: Codec) -> None:
        texts: dict[str, int] = {"": 0}
        whole: list[tuple[int, int]] = []
        partial: list[tuple[int, Ranges, tuple[int, ...]]] = []
        closed: list[tuple[int, Node]] = []
        stack: list[tuple[Node, Pending | None, str]] = [(root, None, "")]
        while stack:
            node, pending, text = stack.pop()
            for byte, child in node.children.items():
                found = codec.step(pending, byte)
                if found is None:
                    continue
                if found == CLOSE:
                    closed.append((texts.setdefault(text, len(texts)), child))
                elif isinstance(found, Pending):
                    if child.tokens:
                        number = texts.setdefault(text, len(texts))
                        partial.append((number, found.ranges, child.tokens))
                    stack.append((child, found, text))
                else:
                    longer = text + chr(found)
                    number = texts.setdefault(longer, len(texts))
                    whole += [(token, number) for token in child.tokens]
                    stack.append((child, None, longer))
        self.tree = CharTree(list(texts))
        ends: list[int] = self.tree.ends.tolist()
        self.numbers = np.array([token for token, _ in whole], dtype=np.int64)
        self.ends = np.array([ends[number] for _, number in whole], dtype=np.int64)
        self.partial = [
            Partial(ends[number], ranges, list(tokens)) for number, ranges, tokens in partial
        ]
        self.closed = [(ends[number], node) for number, node in closed]
