"""Rows of an automaton most of whose transitions lead nowhere, at the price of those that do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

Edges = tuple[tuple[int, int], ...]


class SparseRows(Sequence[tuple[int, ...]]):
    """`edges[q]` are the (class, target) pairs of state q; every other class leads to `dead`.

    The rows are those of a complete automaton of `width` classes, each made when it is asked for.
    """

    __slots__ = ("dead", "edges", "width")

    def __init__(self, edges: tuple[Edges, ...], width: int, dead: int) -> None:
        self.edges = edges
        self.width = width
        self.dead = dead

    def __len__(self) -> int:
        return len(self.edges)

    def __hash__(self) -> int:
        return hash((self.edges, self.width, self.dead))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SparseRows):
            return NotImplemented
        mine, theirs = (self.width, self.dead, self.edges), (other.width, other.dead, other.edges)
        return mine == theirs

    @overload
    def __getitem__(self, state: int) -> tuple[int, ...]: ...
    @overload
    def __getitem__(self, state: slice) -> Sequence[tuple[int, ...]]: ...
    def __getitem__(self, state: int | slice) -> tuple[int, ...] | Sequence[tuple[int, ...]]:
        if isinstance(state, slice):
            return SparseRows(self.edges[state], self.width, self.dead)
        row = [self.dead] * self.width
        for cls, target in self.edges[state]:
            row[cls] = target
        return tuple(row)
