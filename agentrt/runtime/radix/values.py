"""What the radix cache answers with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from agentrt.runtime.batch import Int32Array
    from agentrt.runtime.radix.node import Node
    from agentrt.runtime.radix.tree import Found


@dataclass(frozen=True, slots=True, eq=False)
class Match:
    """What the cache had of `tokens` when asked. Nothing keeps it there until it is acquired.

    `start` is the node they were looked up below (None: the namespace's root); `found` and
    `version` say where that led and when, and mean nothing to anyone but the cache.
    """

    tokens: Int32Array
    namespace: str
    start: Node | None
    found: Found
    version: int

    @property
    def length(self) -> int:
        """How many of the tokens, from the first, are cached."""
        return self.found.length

    @property
    def slots(self) -> Int32Array:
        """Where: int32 [length], read-only."""
        return self.found.slots

    def __repr__(self) -> str:
        return f"<Match {self.length} of {len(self.tokens)} tokens>"


class Extended(NamedTuple):
    """The lock's new node, and those of the caller's slots (int32) that stay the caller's."""

    node: Node
    duplicates: Int32Array


class Hold:
    """A lock that `RadixCache.locked` releases at the end of its block unless told to keep it."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.kept = False

    def keep(self) -> Node:
        """Leaves the lock to the caller, who releases it."""
        self.kept = True
        return self.node


@dataclass(frozen=True, slots=True, eq=False)
class Pin:
    """A prefix of `length` tokens that stays in the cache until it is unpinned."""

    length: int
    namespace: str
    node: Node


@dataclass(frozen=True, slots=True)
class CacheStats:
    """Counts since the start, in tokens, and the number of nodes now.

    `hits` were found by an acquired match or a later advance, `misses` were looked up and not.
    """

    hits: int
    misses: int
    inserted: int
    evicted: int
    nodes: int

    @property
    def hit_rate(self) -> float:
        """Share of the tokens looked up that was cached; 0.0 before the first."""
        return self.hits / max(1, self.hits + self.misses)
