"""The radix tree in use: who stands on what, when it was last used, and what goes first."""

from __future__ import annotations

import heapq
from itertools import count
from typing import TYPE_CHECKING

from agentrt.errors import IntegrityError
from agentrt.runtime.radix.node import joined
from agentrt.runtime.radix.tree import Tree

if TYPE_CHECKING:
    from agentrt.runtime.batch import Int32Array
    from agentrt.runtime.radix.node import Node


class LruTree(Tree):
    """A tree that counts its locks and gives up its least recently used leaves.

    `cached` slots are in the tree, `evictable` ones in nodes without a lock. Time is a counter that
    every lock and release moves on.
    """

    def __init__(self) -> None:
        super().__init__()
        self.queue = LeafQueue()
        self.cached = 0
        self.evictable = 0
        self._clock = 0

    def lock(self, end: Node) -> None:
        """Adds a lock that ends at `end`, to its whole path."""
        self._mark(end, above=None)
        end.holds += 1

    def move_lock(self, node: Node, end: Node) -> None:
        """Moves a lock down from `node`, whose path goes on counting it. O(nodes in between).

        Leaves a joint behind; merging it now would cost O(depth) each time, so `release` does.
        """
        self._mark(end, above=node)
        node.holds -= 1
        end.holds += 1

    def add(self, parent: Node, tokens: Int32Array, slots: Int32Array) -> Node:
        """Attaches a new leaf, which the caller locks before anything else happens."""
        self.cached += len(tokens)
        self.evictable += len(tokens)
        return self.attach(parent, tokens, slots)

    def release(self, node: Node) -> None:
        """Takes away a lock that ends at `node`, which counts as a use, and merges what it parted.

        Without a chain to merge O(nodes above), with one O(tokens of the chain).
        """
        require_held(node)
        node.holds -= 1
        self._clock += 1
        above: Node | None = node
        while above is not None:
            above.lock_ref -= 1
            above.last_use = self._clock
            if not above.lock_ref:
                self.evictable += len(above)
            above = above.parent
        top = self._tidy(node)
        while top.parent is not None:
            top = self.merge(top.parent)
        self.drop_root_if_empty(top)

    def evict(self, n: int) -> Int32Array:
        """Cuts off n tokens, or all that are evictable where that is fewer; returns their slots."""
        freed: list[Int32Array] = []
        parents: dict[Node, None] = {}
        while n > 0 and (leaf := self.queue.oldest()) is not None:
            parent = leaf.parent
            assert parent is not None
            freed.append(self.cut(leaf, min(n, len(leaf))))
            n -= len(freed[-1])
            if leaf.parent is None:
                parents[parent] = None
                if parent.is_evictable_leaf:
                    self.queue.push(parent)
        slots = joined(freed)
        self.cached -= len(slots)
        self.evictable -= len(slots)
        # Last, so that a chain is joined once however many of its branches went.
        for parent in parents:
            if parent.is_joint:
                self._tidy(parent)
            self.drop_root_if_empty(parent)
        return slots

    def _mark(self, end: Node, above: Node | None) -> None:
        """One more lock on the nodes from `end` up to, and without, `above`."""
        self._clock += 1
        node: Node | None = end
        while node is not None and node is not above:
            if not node.lock_ref:
                self.evictable -= len(node)
            node.lock_ref += 1
            node.last_use = self._clock
            node = node.parent

    def _tidy(self, node: Node) -> Node:
        """Merges the chain around a node and queues what came of it if that can be evicted."""
        node = self.merge(node)
        if node.is_evictable_leaf:
            self.queue.push(node)
        return node


class LeafQueue:
    """Leaves that may be evicted, least recently used first.

    A heap whose entries are checked when they surface instead of being removed when they go stale;
    swept when stale ones outnumber the rest, so a push costs O(log leaves) and memory stays in
    proportion to the tree.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Node]] = []
        self._serial = count()
        self._sweep_at = 64

    def push(self, leaf: Node) -> None:
        """Enters a leaf that has become evictable, or whose last use has changed."""
        heapq.heappush(self._heap, (leaf.last_use, next(self._serial), leaf))
        if len(self._heap) > self._sweep_at:
            self._heap = list(
                {entry[2]: entry for entry in self._heap if is_current(entry)}.values()
            )
            heapq.heapify(self._heap)
            self._sweep_at = 2 * len(self._heap) + 64

    def oldest(self) -> Node | None:
        """The leaf to evict next; it stays in the queue until it is evictable no more."""
        while self._heap:
            if is_current(self._heap[0]):
                return self._heap[0][2]
            heapq.heappop(self._heap)
        return None

    def current(self) -> set[Node]:
        """Every leaf that is in the queue by right; for integrity checks."""
        return {entry[2] for entry in self._heap if is_current(entry)}

    def __len__(self) -> int:
        return len(self._heap)


def is_current(entry: tuple[int, int, Node]) -> bool:
    last_use, _, leaf = entry
    return leaf.last_use == last_use and leaf.is_evictable_leaf


def require_held(node: Node) -> None:
    if not node.holds:
        raise IntegrityError(f"nobody holds a lock at {node!r}")
