"""Whether the radix cache's books agree with each other and with the pool's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Never

import numpy as np

from agentrt.errors import IntegrityError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from agentrt.runtime.batch import Int32Array
    from agentrt.runtime.pool import SlotPool
    from agentrt.runtime.radix.lru import LruTree
    from agentrt.runtime.radix.node import Node


def check_cache(
    tree: LruTree,
    pool: SlotPool,
    *,
    held: Iterable[Int32Array],
    pinned: Sequence[Node],
) -> None:
    """Raises IntegrityError at the first contradiction. O(pool + tree)."""
    pool.check_integrity()
    nodes = list(walk(tree))
    for node in nodes:
        check_node(node)
    inner = [node for node in nodes if not node.is_root]
    check_count("nodes", tree.nodes, len(inner))
    check_count("cached slots", tree.cached, sum(map(len, inner)))
    check_count("evictable slots", tree.evictable, sum(len(n) for n in inner if not n.lock_ref))
    check_owners(pool, [node.slots for node in inner], list(held))
    in_tree = set(nodes)
    for node in pinned:
        if node not in in_tree or not node.holds:
            fail(f"the end of a pin, {node!r}, is not in the tree or not locked")
    leaves = {node for node in inner if node.is_evictable_leaf}
    if leaves != tree.queue.current():
        fail(f"evictable leaves {leaves}, in the queue {tree.queue.current()}")


def walk(tree: LruTree) -> Iterator[Node]:
    """Every node, roots included, parents first."""
    todo = list(tree.roots.values())
    while todo:
        node = todo.pop()
        yield node
        todo.extend(node.children.values())


def check_node(node: Node) -> None:
    if len(node.tokens) != len(node.slots) or node.is_root != (not len(node.tokens)):
        fail(f"{node!r} has {len(node.tokens)} tokens and {len(node.slots)} slots")
    below = node.holds
    for first, child in node.children.items():
        below += child.lock_ref
        if child.parent is not node or child.tokens[0] != first:
            fail(f"{child!r} hangs from {node!r} by token {first}")
        if not node.lock_ref and not node.is_root and child.last_use > node.last_use:
            fail(f"{child!r} was used after {node!r}, which is above it")
    if node.lock_ref != below or node.holds < 0:
        fail(f"{node!r} should have lock_ref {below}: its own holds and its children's")
    if node.is_joint and not node.lock_ref:
        fail(f"{node!r} and {node.only_child()!r} were not merged")
    if node.is_root and not node.children and not node.lock_ref:
        fail(f"{node!r} is empty and was not dropped")


def check_count(what: str, counted: int, real: int) -> None:
    if counted != real:
        fail(f"{what}: counted as {counted}, really {real}")


def check_owners(pool: SlotPool, cached: Sequence[Int32Array], held: Sequence[Int32Array]) -> None:
    """free + cached + held = pool, each slot once."""
    free = pool.free_slots()
    owners = np.bincount(np.concatenate([free, *cached, *held]), minlength=pool.num_slots)
    if len(owners) == pool.num_slots and (owners == 1).all():
        return
    counts = f"{len(free)} free, {sum(map(len, cached))} cached, {sum(map(len, held))} held"
    lost, shared = np.flatnonzero(owners == 0), np.flatnonzero(owners > 1)
    fail(
        f"{counts} of {pool.num_slots} slots: {len(lost)} without an owner ({lost[:8]}), "
        f"{len(shared)} with several ({shared[:8]})"
    )


def fail(fact: str) -> Never:
    raise IntegrityError(f"radix cache: {fact}")
