"""The radix cache beside a naive model: a dict of prefixes, each with a slot and a last use."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pytest

from agentrt.errors import StaleMatch
from agentrt.runtime.pool import SlotPool
from agentrt.runtime.radix import RadixCache

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentrt.runtime.radix import Match, Node, Pin

Path = tuple[str | int, ...]
"""A namespace, then the tokens of a prefix."""


class Naive:
    """No runs, no nodes, no counters: what must be true is worked out anew from every prefix."""

    def __init__(self) -> None:
        self.slot: dict[Path, int] = {}
        self.used: dict[Path, int] = {}
        self.ends: Counter[Path] = Counter()
        self.clock = 0

    def match(self, path: Path) -> list[int]:
        slots: list[int] = []
        while len(slots) < len(path) - 1 and path[: len(slots) + 2] in self.slot:
            slots.append(self.slot[path[: len(slots) + 2]])
        return slots

    def lock(self, path: Path) -> None:
        self.ends[path] += 1
        self._use(path, 2)

    def move(self, old: Path, new: Path) -> None:
        self.unlock(old)
        self.ends[new] += 1
        self._use(new, len(old) + 1)

    def extend(self, path: Path, tokens: Sequence[int], slots: Sequence[int]) -> list[int]:
        duplicates: list[int] = []
        for i in range(len(tokens)):
            prefix = (*path, *tokens[: i + 1])
            if prefix in self.slot:
                duplicates.append(slots[i])
            else:
                self.slot[prefix] = slots[i]
        self.move(path, (*path, *tokens))
        return duplicates

    def unlock(self, path: Path) -> None:
        self.ends[path] -= 1
        if not self.ends[path]:
            del self.ends[path]

    def release(self, path: Path) -> None:
        self.unlock(path)
        self._use(path, 2)
        self._age_as_one()

    def evict(self, n: int) -> set[int]:
        freed: set[int] = set()
        standing = self.standing()
        while len(freed) < n:
            inner = {path[:-1] for path in self.slot}
            leaves = [p for p in self.slot if p not in inner and p not in standing]
            if not leaves:
                break
            oldest = min(leaves, key=self.used.__getitem__)
            assert sum(self.used[leaf] == self.used[oldest] for leaf in leaves) == 1
            freed.add(self.slot.pop(oldest))
            del self.used[oldest]
        self._age_as_one()
        return freed

    def standing(self) -> set[Path]:
        """Every prefix that somebody's lock or pin rests on."""
        return {end[:i] for end in self.ends for i in range(2, len(end) + 1)}

    def evictable(self) -> int:
        return len(self.slot.keys() - self.standing())

    def _use(self, path: Path, start: int) -> None:
        self.clock += 1
        for i in range(start, len(path) + 1):
            self.used[path[:i]] = self.clock

    def _age_as_one(self) -> None:
        """Tokens between which nothing branches and no lock ends age as the first of them does."""
        children = Counter(path[:-1] for path in self.slot)
        standing = self.standing()
        for path in sorted(self.slot, key=len):
            above = path[:-1]
            if children[above] == 1 and above in self.slot and above not in standing:
                self.used[path] = max(self.used[path], self.used[above])


@dataclass(eq=False)
class Lock:
    node: Node
    path: Path


@dataclass(eq=False)
class Lookup:
    """A match kept for later, with the lock it starts from if it came from `match_from`."""

    match: Match
    path: Path
    lock: Lock | None


class Twin:
    """Does everything to both and compares."""

    def __init__(self, num_slots: int) -> None:
        self.pool = SlotPool(num_slots)
        self.cache = RadixCache(self.pool)
        self.naive = Naive()
        self.locks: list[Lock] = []
        self.lookups: list[Lookup] = []
        self.pins: list[tuple[Pin, Path]] = []
        self.held: list[np.ndarray] = []

    def look_up(self, path: Path) -> Lookup:
        version = self.cache.version
        match = self.cache.match(tokens_of(path), namespace=str(path[0]))
        assert match.slots.tolist() == self.naive.match(path)
        assert match.length == len(match.slots)
        assert self.cache.version == version
        return Lookup(match, path[: match.length + 1], None)

    def look_below(self, lock: Lock, tokens: Sequence[int]) -> Lookup:
        match = self.cache.match_from(lock.node, np.array(tokens, dtype=np.int32))
        above = len(lock.path) - 1
        assert match.slots.tolist() == self.naive.match((*lock.path, *tokens))[above:]
        return Lookup(match, (*lock.path, *tokens[: match.length]), lock)

    def acquire(self, lookup: Lookup) -> None:
        """Takes a lookup up on what it found, however long ago that was."""
        above = len(lookup.lock.path) - 1 if lookup.lock else 0
        now = self.naive.match(lookup.path)[above:]
        if now != lookup.match.slots.tolist():
            with pytest.raises(StaleMatch):
                self._take(lookup)
            return
        node = self._take(lookup)
        if lookup.lock:
            self.naive.move(lookup.lock.path, lookup.path)
            self._moved(lookup.lock, node, lookup.path)
        else:
            self.naive.lock(lookup.path)
            self.locks.append(Lock(node, lookup.path))

    def extend(self, lock: Lock, tokens: Sequence[int], *, keep: bool) -> None:
        slots = self._alloc(len(tokens))
        if slots is None:
            return
        node, duplicates = self.cache.extend(lock.node, np.array(tokens, dtype=np.int32), slots)
        expected = self.naive.extend(lock.path, tokens, slots.tolist())
        assert duplicates.tolist() == expected
        self._moved(lock, node, (*lock.path, *tokens))
        if keep:
            self.held.append(duplicates)
        else:
            self.pool.free(duplicates)

    def release(self, lock: Lock) -> None:
        self.locks.remove(lock)
        self._forget(lock)
        self.cache.release(lock.node)
        self.naive.release(lock.path)

    def free_held(self) -> None:
        if self.held:
            self.pool.free(self.held.pop())

    def evict(self, n: int) -> None:
        before = set(self.pool.free_slots().tolist())
        count = self.cache.evict(n)
        expected = self.naive.evict(n)
        assert set(self.pool.free_slots().tolist()) - before == expected
        assert count == len(expected)

    def flush(self) -> None:
        evictable = self.naive.evictable()
        assert self.cache.flush() == evictable
        assert len(self.naive.evict(evictable)) == evictable

    def pin(self, path: Path) -> None:
        pin = self.cache.pin(tokens_of(path), namespace=str(path[0]))
        assert pin.length == len(self.naive.match(path))
        self.pins.append((pin, path[: pin.length + 1]))
        self.naive.lock(self.pins[-1][1])

    def unpin(self, index: int) -> None:
        pin, path = self.pins.pop(index)
        self.cache.unpin(pin)
        self.naive.release(path)

    def check(self) -> None:
        """The books, after every operation."""
        self.cache.check_integrity(self.held)
        assert self.cache.cached == len(self.naive.slot)
        assert self.cache.evictable == self.naive.evictable()
        assert self.cache.locks == len(self.locks)

    def check_everything(self) -> None:
        """Every prefix there is, and where every lock ends."""
        for path in self.naive.slot:
            assert self.look_up(path).match.length == len(path) - 1
        for lock in self.locks:
            assert lock.node.depth() == len(lock.path) - 1

    def close(self) -> None:
        """Gives everything back; nothing may be left."""
        while self.locks:
            self.release(self.locks[-1])
        while self.pins:
            self.unpin(-1)
        while self.held:
            self.free_held()
        self.flush()
        self.check()
        assert self.pool.num_free == self.pool.num_slots
        assert self.cache.stats.nodes == 0
        assert self.cache.dump() == {}

    def _alloc(self, n: int) -> np.ndarray | None:
        if (short := n - self.pool.num_free) > 0:
            self.evict(short)
        return self.pool.alloc(n)

    def _take(self, lookup: Lookup) -> Node:
        if lookup.lock:
            return self.cache.advance(lookup.lock.node, lookup.match)
        return self.cache.acquire(lookup.match)

    def _moved(self, lock: Lock, node: Node, path: Path) -> None:
        self._forget(lock)
        lock.node, lock.path = node, path

    def _forget(self, lock: Lock) -> None:
        self.lookups = [lookup for lookup in self.lookups if lookup.lock is not lock]


def tokens_of(path: Path) -> np.ndarray:
    return np.array(path[1:], dtype=np.int32)
