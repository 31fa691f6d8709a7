"""The radix cache: a tree of token runs whose KV is in the pool, shared by prefix.

A slot is free in the pool, owned by the tree, or owned by one request (its tail); it is handed over
whole, never shared. A request reads the tree's slots for as long as it holds a lock below them.

The idea is that of "SGLang: Efficient Execution of Structured Language Model Programs" (Zheng et
al., 2024, section 3): a radix tree as an LRU cache of KV, evicted from its leaves, with locks.
"""

from agentrt.runtime.radix.cache import RadixCache
from agentrt.runtime.radix.node import Node
from agentrt.runtime.radix.values import CacheStats, Extended, Hold, Match, Pin
from agentrt.runtime.radix.view import Snapshot

__all__ = ["CacheStats", "Extended", "Hold", "Match", "Node", "Pin", "RadixCache", "Snapshot"]
