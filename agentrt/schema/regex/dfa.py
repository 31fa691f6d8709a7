"""Deterministic automata over code points: complete, minimal, closed under Boolean operations."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from agentrt.schema.charset import CharSet, charset
from agentrt.schema.limits import spend
from agentrt.schema.regex.alphabet import TRIVIAL, Alphabet, alphabet, common
from agentrt.schema.regex.sparse import Edges, SparseRows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

Row = tuple[int, ...]
Rows = tuple[Row, ...] | SparseRows


class Dfa:
    """A complete automaton: state 0 starts, `rows[q][c]` is where class c leads from q.

    Not to be changed once made; equal languages over equal alphabets have equal tables, so that
    automata can be compared and hashed.
    """

    def __init__(self, symbols: Alphabet, rows: Rows, accepting: frozenset[int]) -> None:
        self.alphabet = symbols
        self.rows = rows
        self.accepting = accepting
        self._hash = hash((symbols, rows, accepting))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Dfa)
            and self._hash == other._hash
            and (self.alphabet, self.rows, self.accepting)
            == (other.alphabet, other.rows, other.accepting)
        )

    def __repr__(self) -> str:
        return f"<Dfa {len(self.rows)} states, {self.alphabet.size} classes>"

    def step(self, state: int, code_point: int) -> int:
        if code_point < 128:
            return self.rows[state][self._ascii[code_point]]
        return self.rows[state][self.alphabet.class_of(code_point)]

    @cached_property
    def _ascii(self) -> list[int]:
        """The class of each ASCII character."""
        out: list[int] = []
        symbols = self.alphabet
        for end, cls in zip((*symbols.starts[1:], 128), symbols.classes, strict=True):
            out += [cls] * (min(end, 128) - len(out))
        return out

    def matches(self, text: str) -> bool:
        state = 0
        for c in text:
            state = self.step(state, ord(c))
        return state in self.accepting

    def ways(self, state: int) -> Iterable[tuple[int, int]]:
        """Where each class leads from a state; of sparse rows without those that lead nowhere."""
        rows = self.rows
        return rows.edges[state] if isinstance(rows, SparseRows) else enumerate(rows[state])

    def targets(self, state: int) -> set[int]:
        """The states that some character leads to; of sparse rows without the dead one."""
        return {target for _, target in self.ways(state)}

    @cached_property
    def layers(self) -> list[set[int]]:
        """The states by how many characters the shortest text accepted from them has."""
        spend(len(self.rows))
        sources: dict[int, set[int]] = {}
        for q in range(len(self.rows)):
            for target in self.targets(q):
                sources.setdefault(target, set()).add(q)
        layers: list[set[int]] = []
        seen = set(self.accepting)
        layer = set(seen)
        while layer:
            layers.append(layer)
            layer = {q for target in layer for q in sources.get(target, ())} - seen
            seen |= layer
        return layers

    @cached_property
    def live(self) -> frozenset[int]:
        """The states from which some text is accepted."""
        return frozenset().union(*self.layers)

    @cached_property
    def distances(self) -> dict[int, int]:
        """The characters from each live state to the nearest end."""
        return {q: count for count, layer in enumerate(self.layers) for q in layer}

    def ends_within(self, state: int, most: int | None) -> bool:
        """Whether a text of at most `most` (None: any) characters is accepted from a state."""
        distance = self.distances.get(state)
        return distance is not None and (most is None or distance <= most)

    @property
    def is_sparse(self) -> bool:
        """Whether from nearly every state few characters lead on."""
        return isinstance(self.rows, SparseRows)

    @property
    def farthest(self) -> int:
        """The characters to the nearest end, from the live state where they are most."""
        return max(len(self.layers) - 1, 0)

    def live_within(self, state: int, lo: int, hi: int) -> bool:
        """Whether a code point from lo to hi leads to where some text is accepted."""
        row, live = self.rows[state], self.live
        return any(row[c] in live for c in self.alphabet.classes_within(lo, hi))

    @property
    def is_empty(self) -> bool:
        return not self.accepting

    @cached_property
    def is_universal(self) -> bool:
        return len(self.rows) == 1 and bool(self.accepting)

    def is_free_from(self, state: int) -> bool:
        """Whether every text is accepted from a state."""
        rows = self.rows
        if isinstance(rows, SparseRows) or state not in self.accepting:
            return False
        return rows[state].count(state) == self.alphabet.size

    def complement(self) -> Dfa:
        rows = tuple(self.rows)  # what led nowhere now leads to an end
        return Dfa(self.alphabet, rows, frozenset(range(len(rows))) - self.accepting)

    def intersection(self, other: Dfa) -> Dfa:
        if isinstance(self.rows, SparseRows):
            return _sparse_product(self, self.rows, other)
        if other.is_sparse:
            return other.intersection(self)
        return _product(self, other, lambda a, b: a and b)

    def union(self, other: Dfa) -> Dfa:
        return _product(self, other, lambda a, b: a or b)

    def difference(self, other: Dfa) -> Dfa:
        return _product(self, other, lambda a, b: a and not b)

    @cached_property
    def longest(self) -> int | None:
        """The length of the longest text accepted; None if there is none such. -1 if empty."""
        live = self.live
        depth: dict[int, int] = {}
        on_path: set[int] = set()
        stack = [(0, iter(self.targets(0) & live))]
        if 0 not in live:
            return -1
        on_path.add(0)
        while stack:
            q, targets = stack[-1]
            target = next(targets, None)
            if target is None:
                stack.pop()
                on_path.discard(q)
                depth[q] = max((depth[t] + 1 for t in self.targets(q) & live), default=0)
            elif target in on_path:
                return None
            elif target not in depth:
                on_path.add(target)
                stack.append((target, iter(self.targets(target) & live)))
        return depth[0]

    @cached_property
    def all_infinite(self) -> bool:
        """Whether from every live state endlessly many texts are accepted."""
        live = self.live
        looping = set(live)
        while True:
            # a state goes on for ever if it can reach, within what is left, one that does
            ending = {q for q in looping if not any(t in looping for _, t in self.ways(q))}
            if not ending:
                return len(looping) == len(live)
            looping -= ending

    def words(self) -> Iterator[str]:
        """Every text accepted, where they are finitely many."""
        ranges: dict[int, list[tuple[int, int]]] = {}
        symbols = self.alphabet
        ends = (*symbols.starts[1:], 0x110000)
        for lo, hi, cls in zip(symbols.starts, ends, symbols.classes, strict=True):
            ranges.setdefault(cls, []).append((lo, hi))
        stack: list[tuple[int, str]] = [(0, "")]
        while stack:
            q, text = stack.pop()
            if q in self.accepting:
                yield text
            for cls, target in self.ways(q):
                if target in self.live:
                    for lo, hi in charset((a, b - 1) for a, b in ranges[cls]).intervals:
                        stack.extend((target, text + chr(cp)) for cp in range(lo, hi + 1))

    def count_words(self, limit: int) -> int:
        """How many texts are accepted, or `limit` if that many or more."""
        if self.longest is None:
            return limit
        sizes = [0] * self.alphabet.size
        ends = (*self.alphabet.starts[1:], 0x110000)
        for lo, hi, cls in zip(self.alphabet.starts, ends, self.alphabet.classes, strict=True):
            sizes[cls] += charset([(lo, hi - 1)]).size
        counts: dict[int, int] = {0: 1}
        total = 0
        while counts and total < limit:
            total += sum(n for q, n in counts.items() if q in self.accepting)
            following: dict[int, int] = {}
            for q, n in counts.items():
                for cls, target in self.ways(q):
                    if target in self.live:
                        following[target] = following.get(target, 0) + n * sizes[cls]
            counts = following
        return min(total, limit)


def _product(a: Dfa, b: Dfa, keep: Callable[[bool, bool], bool]) -> Dfa:
    symbols, pairs = common(a.alphabet, b.alphabet)
    index: dict[tuple[int, int], int] = {(0, 0): 0}
    order = [(0, 0)]
    rows: list[Row] = []
    for p, q in order:
        spend()
        row_a, row_b = a.rows[p], b.rows[q]
        row: list[int] = []
        for ca, cb in pairs:
            target = (row_a[ca], row_b[cb])
            number = index.get(target)
            if number is None:
                number = index[target] = len(order)
                order.append(target)
            row.append(number)
        rows.append(tuple(row))
    accepting = {i for i, (p, q) in enumerate(order) if keep(p in a.accepting, q in b.accepting)}
    return minimal(symbols, rows, accepting)


def _sparse_product(a: Dfa, sparse: SparseRows, b: Dfa) -> Dfa:
    """The intersection, along the ways of the sparse one that are live in both; not minimal."""
    symbols, pairs = common(a.alphabet, b.alphabet)
    finer: dict[int, list[tuple[int, int]]] = {}
    for cls, (ca, cb) in enumerate(pairs):
        finer.setdefault(ca, []).append((cls, cb))
    index: dict[tuple[int, int], int] = {(0, 0): 0}
    order = [(0, 0)]
    edges: list[Edges] = []
    for p, q in order:
        spend()
        row = b.rows[q]
        out: list[tuple[int, int]] = []
        for ca, target in sparse.edges[p]:
            for cls, cb in finer.get(ca, ()):
                pair = (target, row[cb])
                if pair[1] not in b.live:
                    continue
                number = index.get(pair)
                if number is None:
                    number = index[pair] = len(order)
                    order.append(pair)
                out.append((cls, number))
        edges.append(tuple(out))
    accepting = {i for i, (p, q) in enumerate(order) if p in a.accepting and q in b.accepting}
    rows = SparseRows((*edges, ()), symbols.size, len(order))
    return Dfa(symbols, rows, frozenset(accepting))


def minimal(symbols: Alphabet, rows: list[Row], accepting: Iterable[int]) -> Dfa:
    """The smallest automaton of the same language (Moore's partition refinement), its states
    numbered in breadth-first order and its classes merged where they never differ."""
    table = np.array(rows, dtype=np.int64)
    block = np.zeros(len(rows), dtype=np.int64)
    block[list(accepting)] = 1
    count = len(np.unique(block))
    while True:
        spend(1 + len(rows) // 64)
        signature = np.concatenate((block[:, None], block[table]), axis=1)
        block = _row_ids(signature)
        refined = int(block.max()) + 1
        if refined == count:
            break
        count = refined
    representative = np.zeros(count, dtype=np.int64)
    representative[block[::-1]] = np.arange(len(rows))[::-1]
    small = block[table[representative]]
    ends = {int(block[q]) for q in accepting}
    return canonical(symbols, small, int(block[0]), ends)


def _row_ids(signature: np.ndarray) -> np.ndarray:
    data = np.ascontiguousarray(signature)
    as_bytes = data.view(np.dtype((np.void, data.dtype.itemsize * data.shape[1]))).ravel()
    _, ids = np.unique(as_bytes, return_inverse=True)
    return ids.reshape(-1)


def canonical(symbols: Alphabet, table: np.ndarray, start: int, ends: set[int]) -> Dfa:
    columns: dict[bytes, int] = {}
    merged = [columns.setdefault(table[:, c].tobytes(), len(columns)) for c in range(symbols.size)]
    first = [merged.index(i) for i in range(len(columns))]
    renamed: dict[int, int] = {}
    starts: list[int] = []
    classes: list[int] = []
    for at, cls in zip(symbols.starts, symbols.classes, strict=True):
        number = renamed.setdefault(merged[cls], len(renamed))
        if not classes or classes[-1] != number:
            starts.append(at)
            classes.append(number)
    chosen = [first[old] for old in renamed]
    lists: list[list[int]] = table[:, chosen].tolist()
    order, index = [start], {start: 0}
    for q in order:
        for target in lists[q]:
            if target not in index:
                index[target] = len(order)
                order.append(target)
    rows = tuple(tuple(index[t] for t in lists[q]) for q in order)
    accepting = frozenset(index[q] for q in ends if q in index)
    return Dfa(Alphabet(tuple(starts), tuple(classes), len(renamed)), rows, accepting)


UNIVERSAL = Dfa(TRIVIAL, ((0,),), frozenset({0}))
EMPTY = Dfa(TRIVIAL, ((0,),), frozenset())


def one_of(given: CharSet) -> Dfa:
    """The automaton of the texts of one character of a set."""
    symbols = alphabet([given])
    inside = symbols.class_of(given.intervals[0][0]) if given.intervals else -1
    first = tuple(1 if c == inside else 2 for c in range(symbols.size))
    return minimal(symbols, [first, (2,) * symbols.size, (2,) * symbols.size], [1])
