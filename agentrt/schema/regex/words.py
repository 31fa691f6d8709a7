"""Automata of finite sets of texts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from agentrt.schema.charset import chars
from agentrt.schema.limits import spend
from agentrt.schema.regex.alphabet import Alphabet, alphabet
from agentrt.schema.regex.dfa import Dfa, Row, canonical
from agentrt.schema.regex.sparse import Edges, SparseRows

if TYPE_CHECKING:
    from collections.abc import Iterable

_MOST_CELLS = 4_000_000

_Node = tuple[bool, tuple[tuple[str, int], ...]]
"""Whether a text may end here, and the node that each character leads to."""


def of_words(words: Iterable[str]) -> Dfa:
    """The automaton of a finite set of texts; its rows are sparse where it is large."""
    nodes, root = _shared_tree(sorted(set(words)))
    letters = sorted({c for _, kids in nodes for c, _ in kids})
    symbols = alphabet(chars(c) for c in letters)
    cls = {c: symbols.class_of(ord(c)) for c in letters}
    if len(nodes) * symbols.size > _MOST_CELLS:
        return _sparse(nodes, root, symbols, cls)
    dead = len(nodes)
    rows = np.full((dead + 1, symbols.size), dead, dtype=np.int64)
    for number, (_, kids) in enumerate(nodes):
        for c, target in kids:
            rows[number, cls[c]] = target
    return canonical(symbols, rows, root, {i for i, (ends, _) in enumerate(nodes) if ends})


def _shared_tree(texts: list[str]) -> tuple[list[_Node], int]:
    """The tree of sorted texts with equal subtrees made once, and its root (Daciuk and others,
    "Incremental Construction of Minimal Acyclic Finite-State Automata", 2000, section 3)."""
    nodes: dict[_Node, int] = {}
    # along the last text: what has been found so far of the node at each of its places
    path: list[list[tuple[str, int]]] = [[]]
    ends, last = [False], ""

    def close(depth: int) -> None:
        while len(path) > depth + 1:
            node = ends.pop(), tuple(path.pop())
            path[-1].append((last[len(path) - 1], nodes.setdefault(node, len(nodes))))

    for text in texts:
        differing = (i for i, (a, b) in enumerate(zip(last, text, strict=False)) if a != b)
        shared = next(differing, len(last))  # in order, so that the last is no longer than both
        spend(1 + len(text) - shared)
        close(shared)
        path += [[] for _ in text[shared:]]
        ends += [False] * (len(text) - shared)
        ends[-1], last = True, text
    close(0)
    root = nodes.setdefault((ends[0], tuple(path[0])), len(nodes))
    return list(nodes), root


def _sparse(nodes: list[_Node], root: int, symbols: Alphabet, cls: dict[str, int]) -> Dfa:
    index, order = {root: 0}, [root]
    edges: list[Edges] = []
    for number in order:
        out: list[tuple[int, int]] = []
        for c, target in nodes[number][1]:
            if target not in index:
                index[target] = len(order)
                order.append(target)
            out.append((cls[c], index[target]))
        edges.append(tuple(out))
    accepting = frozenset(i for i, number in enumerate(order) if nodes[number][0])
    return Dfa(symbols, SparseRows((*edges, ()), symbols.size, len(order)), accepting)


def of_word(text: str) -> Dfa:
    """The automaton of one text: the table of `of_words`, written down at once."""
    if text.startswith("\0"):  # the states come in another order
        return of_words([text])
    spend(len(text))
    symbols = alphabet(chars(c) for c in set(text))
    rows: list[Row] = []
    for i, c in enumerate(text):
        row = [1] * symbols.size
        row[symbols.class_of(ord(c))] = i + 2
        rows.append(tuple(row))
    rows.append((1,) * symbols.size)
    rows.insert(1, (1,) * symbols.size)
    return Dfa(symbols, tuple(rows), frozenset({len(text) + 1 if text else 0}))
