"""Tokens as characters, so that an automaton runs over all of them at once."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from agentrt.schema.machine.codec import CLOSE, Codec, Pending, Ranges

if TYPE_CHECKING:
    from collections.abc import Sequence

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
        at = np.zeros(len(texts), dtype=np.int64)
        parents, symbols = [np.zeros(1, np.int64)], [np.zeros(1, codes.dtype)]
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
        self.symbols = index.reshape(-1)
        self.depth = np.repeat(
            np.arange(len(self.levels), dtype=np.int32), [hi - lo for lo, hi in self.levels]
        )
        self.ends = np.zeros(len(texts), dtype=np.int64)
        self.ends[order] = at
        wide = [i for i, (lo, hi) in enumerate(self.levels) if hi - lo >= _NARROW]
        self._wide = self.levels[1 : max(wide, default=0) + 1]

    def sweep(self, table: Table, start: int) -> np.ndarray:
        """The DFA state at each node, from a state at the root."""
        at = np.full(len(self.parents), start, dtype=np.int64)
        classes, width = table.classes(self), table.width
        base, end = 0, 1
        for lo, hi in self._wide:
            step = at.take(self.parents[lo:hi])
            step *= width
            step += classes[lo:hi]
            at[lo:hi] = table.flat.take(step)
            base, end = lo, hi
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
        self.flat = np.array(dfa.rows, dtype=np.int64).reshape(-1)
        self._classes: dict[int, np.ndarray] = {}
        self._begun: dict[int, tuple[list[tuple[int, list[int]]], np.ndarray]] = {}

    def classes(self, tree: CharTree) -> np.ndarray:
        """The class of the character at each node of a tree; kept for each tree asked about."""
        found = self._classes.get(id(tree))
        if found is None:
            symbols = self.dfa.alphabet
            at = np.searchsorted(np.array(symbols.starts), tree.alphabet, side="right") - 1
            found = np.array(symbols.classes, dtype=np.int64)[at].take(tree.symbols)
            self._classes[id(tree)] = found
        return found

    def begun(self, special: SpecialTokens) -> tuple[list[tuple[int, list[int]]], np.ndarray]:
        """The places where tokens end within a character, as few as the classes of what it may
        become tell apart: a node of the tree and those classes; and which place is that of each of
        `special.partial_tokens`. Kept for each asked about."""
        found = self._begun.get(id(special))
        if found is None:
            places: dict[tuple[int, frozenset[int]], int] = {}
            within = self.dfa.alphabet.classes_within
            which = [
                places.setdefault(
                    (end, frozenset(c for r in ranges for c in within(*r))), len(places)
                )
                for end, ranges in special.partial
            ]
            found = self._begun[id(special)] = (
                [(end, list(classes)) for end, classes in places],
                np.repeat(np.array(which, dtype=np.int64), special.partial_counts),
            )
        return found

    @cached_property
    def accepting(self) -> np.ndarray:
        """Whether each state accepts (bool)."""
        accepting = np.zeros(len(self.dfa.rows), dtype=bool)
        accepting[list(self.dfa.accepting)] = True
        return accepting

    @cached_property
    def left(self) -> np.ndarray:
        """The fewest characters from each state to an accepting one; FAR where there is no way."""
        left = np.full(len(self.dfa.rows), FAR, dtype=np.int32)
        for count, layer in enumerate(self.dfa.layers):
            left[list(layer)] = count
        return left


class PlainTokens:
    """The tokens made of whole characters that JSON strings hold as they are.

    `ends[t]` is the node of token t in `tree`, and `depth[t]` the number of its characters, FAR for
    a token that is not plain. `numbers` are those that are; `ascii` says of each whether it is.
    """

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
        self.ends = np.zeros(len(tokens), dtype=np.int64)
        self.ends[self.numbers] = self.tree.ends
        self.depth = np.full(len(tokens), FAR, dtype=np.int32)
        self.depth[self.numbers] = self.tree.depth[self.tree.ends]


class SpecialTokens:
    """The other tokens, as the characters that they write in a codec.

    `numbers[i]` ends at node `ends[i]` of the tree. `partial` are the nodes after which tokens end
    within a character, with what that may still become. `closed` are the places in the tree of
    bytes after a closing quote, `closing` the tree of what is written before it.
    """

    def __init__(self, root: Node, codec: Codec) -> None:
        texts: dict[str, int] = {"": 0}
        whole: list[tuple[int, int]] = []
        partial: list[tuple[int, Ranges, tuple[int, ...]]] = []
        closed: list[tuple[str, Node]] = []
        stack: list[tuple[Node, Pending | None, str]] = [(root, None, "")]
        while stack:
            node, pending, text = stack.pop()
            for byte, child in node.children.items():
                found = codec.step(pending, byte)
                if found is None:
                    continue
                if found == CLOSE:
                    closed.append((text, child))
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
        self.partial = [(ends[number], ranges) for number, ranges, _ in partial]
        self.partial_counts = [len(tokens) for *_, tokens in partial]
        self.partial_tokens = np.array([t for p in partial for t in p[2]], dtype=np.int64)
        self.closed = [node for _, node in closed]
        self.closing = CharTree([text for text, _ in closed])
