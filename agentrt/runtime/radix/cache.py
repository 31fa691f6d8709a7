"""What the scheduler asks of the cache: look up, lock, hand over, give back, make room."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from agentrt.errors import IntegrityError, StaleMatch
from agentrt.runtime.radix.check import check_cache
from agentrt.runtime.radix.lru import LruTree, require_held
from agentrt.runtime.radix.node import EMPTY, Node
from agentrt.runtime.radix.values import CacheStats, Extended, Hold, Match, Pin
from agentrt.runtime.radix.view import Snapshot, snapshot

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable

    import numpy.typing as npt

    from agentrt.runtime.batch import Int32Array
    from agentrt.runtime.pool import SlotPool
    from agentrt.runtime.radix.tree import Found


class RadixCache:
    """The prefix cache over a pool of KV slots. Not thread-safe: one thread owns it.

    A prefix is as recent as the last time a lock on it was taken, moved or released.
    """

    def __init__(self, pool: SlotPool) -> None:
        self._pool = pool
        self._tree = LruTree()
        self._pins: set[Pin] = set()
        self._hits = self._misses = self._inserted = self._evicted = 0

    @property
    def cached(self) -> int:
        """Slots the tree owns."""
        return self._tree.cached

    @property
    def evictable(self) -> int:
        """Those of them that nobody locks or pins."""
        return self._tree.evictable

    @property
    def locks(self) -> int:
        """Locks that have not been released, pins not counted."""
        return sum(root.lock_ref for root in self._tree.roots.values()) - len(self._pins)

    @property
    def pinned(self) -> int:
        """Slots that pins keep, each counted once."""
        nodes: set[Node] = set()
        for pin in self._pins:
            node: Node | None = pin.node
            while node is not None and node not in nodes:
                nodes.add(node)
                node = node.parent
        return sum(len(node) for node in nodes)

    @property
    def version(self) -> int:
        """Changes whenever a new match might not be what an earlier one was."""
        return self._tree.version

    @property
    def evicted(self) -> int:
        """Tokens evicted since the start."""
        return self._evicted

    @property
    def stats(self) -> CacheStats:
        return CacheStats(self._hits, self._misses, self._inserted, self._evicted, self._tree.nodes)

    def match(self, tokens: Int32Array, *, namespace: str = "") -> Match:
        """The longest cached prefix of `tokens`, int32 [n]. Changes nothing, not even last uses."""
        start = self._tree.roots.get(namespace)
        if start is None:
            start = Node(EMPTY, EMPTY, parent=None, namespace=namespace)
        tokens = as_run(tokens)
        found = self._tree.find(start, tokens)
        return Match(tokens, namespace, None, found, self._tree.version)

    def match_from(self, node: Node, tokens: Int32Array) -> Match:
        """What is cached of `tokens` right below a node the caller has locked; for `advance`.

        `length` and `slots` do not count what lies above the node. Changes nothing.
        """
        require_held(node)
        tokens = as_run(tokens)
        return Match(tokens, "", node, self._tree.find(node, tokens), self._tree.version)

    def acquire(self, match: Match) -> Node:
        """Locks the whole of a match, no more and no less, until `release` of the node it returns.

        A match from before the tree last changed is looked up again: StaleMatch is raised, and
        nothing changed, unless all of its tokens are still there in the same slots.
        """
        if match.start is not None:
            raise IntegrityError("acquire() was given a match from match_from(); use advance()")
        end = self._lock(match)
        self._hits += match.length
        self._misses += len(match.tokens) - match.length
        return end

    @contextmanager
    def locked(self, match: Match) -> Generator[Hold]:
        """Acquires a match for a block; released at its end, however it ends, unless kept.

        The lock may move on inside: assign the node it moved to to `hold.node`.
        """
        hold = Hold(self.acquire(match))
        try:
            yield hold
        finally:
            if not hold.kept:
                self.release(hold.node)

    def advance(self, node: Node, match: Match) -> Node:
        """Moves the caller's lock from `node` down to the end of a match from `match_from(node)`.

        Raises StaleMatch, the lock staying where it is, where `acquire` would.
        """
        require_held(node)
        if match.start is not node:
            raise IntegrityError(f"advance({node!r}) was given a match that starts elsewhere")
        end = self._tree.end_of(self._current(match))
        self._tree.move_lock(node, end)
        # They were missed when the lock was acquired, and counted so.
        self._hits += match.length
        self._misses -= min(match.length, self._misses)
        return end

    def extend(self, node: Node, tokens: Int32Array, slots: Int32Array) -> Extended:
        """Moves the caller's lock from `node` down over `tokens` (int32 [n]), caching what is not.

        `slots` (int32 [n]) are the caller's and hold the KV of these tokens, of which the tree may
        have come to know the first few meanwhile:

            tokens                [0 ............. known) [known ............. n)
            cached before         in slots of the tree    no
            slots[...] before     the caller's            the caller's
            slots[...] after      the caller's still:     the tree's, under the
                                  `duplicates`            caller's lock

        The duplicates hold the same KV as the tree's slots: the caller may go on reading them, and
        frees them when it no longer does. O(n), however deep the node.
        """
        require_held(node)
        tokens, slots = as_run(tokens), as_run(slots)
        if len(tokens) != len(slots):
            raise IntegrityError(f"extend() was given {len(tokens)} tokens, {len(slots)} slots")
        found = self._tree.find(node, tokens)
        known = found.length
        if (found.slots == slots[:known]).any():
            raise IntegrityError("extend() was given slots that the tree owns already")
        end = self._tree.end_of(found)
        if known < len(tokens):
            end = self._tree.add(end, tokens[known:], slots[known:])
            self._inserted += len(end)
        self._tree.move_lock(node, end)
        return Extended(end, slots[:known].copy())

    def release(self, node: Node) -> None:
        """Gives up one lock that ends at `node`, which may be another's, or gone, from then on."""
        self._tree.release(node)

    def evict(self, n: int) -> int:
        """Frees n slots, or all that are evictable where that is fewer; returns how many.

        From the least recently used leaf upwards, the last one cut short where not all of it is
        needed:

            the tree's slots  [locked or pinned) [used recently) [not used for longest, n)
            owner after       the tree           the tree        the pool
        """
        slots = self._tree.evict(n)
        self._pool.free(slots)
        self._evicted += len(slots)
        return len(slots)

    def flush(self) -> int:
        """Evicts everything that is not locked or pinned; returns how many slots that freed."""
        return self.evict(self.evictable)

    def pin(self, tokens: Int32Array, *, namespace: str = "") -> Pin:
        """Keeps what is cached of `tokens` now, the first `Pin.length` of them, until `unpin`."""
        match = self.match(tokens, namespace=namespace)
        pin = Pin(match.length, namespace, self._lock(match))
        self._pins.add(pin)
        return pin

    def unpin(self, pin: Pin) -> None:
        """Lets a pinned prefix be evicted again; that counts as a use of it."""
        if pin not in self._pins:
            raise IntegrityError(f"{pin!r} is not pinned")
        self._pins.remove(pin)
        self._tree.release(pin.node)

    def dump(self, max_nodes: int = 1000) -> dict[str, Snapshot]:
        """Each namespace's tree as plain values, the first `max_nodes` nodes breadth-first."""
        return snapshot(self._tree.roots, {pin.node for pin in self._pins}, max_nodes)

    def check_integrity(self, held: Iterable[Int32Array] = ()) -> None:
        """Raises IntegrityError, with the facts, unless every book agrees with every other.

        `held` are the slots that requests own: free + cached + held = pool, each with one owner.
        """
        check_cache(self._tree, self._pool, held=held, pinned=[pin.node for pin in self._pins])

    def __repr__(self) -> str:
        return (
            f"<RadixCache {self._tree.nodes} nodes, {self.locks} locks, {len(self._pins)} pins | "
            f"slots {self.cached} cached, {self.evictable} evictable>"
        )

    def _lock(self, match: Match) -> Node:
        if match.length:
            end = self._tree.end_of(self._current(match))
        else:
            end = self._tree.root(match.namespace)
        self._tree.lock(end)
        return end

    def _current(self, match: Match) -> Found:
        """Where a match is now; StaleMatch if any of it has gone or moved to other slots."""
        if match.version == self._tree.version:
            return match.found
        start = match.start or self._tree.roots.get(match.namespace)
        found = self._tree.find(start, match.tokens[: match.length]) if start else None
        if found is None or not np.array_equal(found.slots, match.slots):
            raise StaleMatch(
                f"{match.length} tokens were cached when matched, {found.length if found else 0} "
                "of them are now, or they are in other slots; match again"
            )
        return found


def as_run(values: npt.ArrayLike) -> Int32Array:
    return np.asarray(values, dtype=np.int32)
