"""Which rows of a tree are shown where there is room for some of them only."""

from __future__ import annotations

import heapq
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agentrt.trace.spans import SpanStatus

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentrt.trace.viewer.live_model import Node

_RANK = {
    SpanStatus.RUNNING: 0,
    SpanStatus.ERROR: 1,
    SpanStatus.CANCELLED: 2,
    SpanStatus.OK: 3,
}


@dataclass(frozen=True, slots=True)
class Row:
    """A node, or what is hidden below one; `lasts` says for each level whether it ends there."""

    node: Node
    lasts: tuple[bool, ...]
    hidden: Counter[SpanStatus] | None = None


def folded(root: Node, room: int) -> list[Row]:
    """The rows below `root`, no more than `room`, in the order of the tree.

    What runs comes before what failed, and that before what went well; among equals the outer one
    and the one that began earlier, so that rows stay where they are while they run. Where only some
    of a node's children are shown a row counts the others.
    """
    return list(_laid_out(root, _chosen(root, room), ()))


def hidden_below(node: Node, shown: set[int]) -> Counter[SpanStatus]:
    """How the children that are not shown stand."""
    hidden = Counter(child.status for key, child in node.children.items() if key not in shown)
    return hidden + node.forgotten


def _chosen(root: Node, room: int) -> set[int]:
    shown: set[int] = set()
    by_parent: Counter[int] = Counter()
    waiting = [_candidate(child) for child in root.children.values()]
    heapq.heapify(waiting)
    used = 0
    while waiting:
        node = heapq.heappop(waiting)[-1]
        parent = node.parent
        assert parent is not None
        total = len(parent.children) + parent.forgotten.total()
        already = by_parent[parent.id]
        # The first of several brings the row that counts the others, the last one replaces it.
        cost = 1 + (already == 0 and total > 1) - (already > 0 and already == total - 1)
        if used + cost > room:
            continue
        used += cost
        shown.add(node.id)
        by_parent[parent.id] += 1
        for child in node.children.values():
            heapq.heappush(waiting, _candidate(child))
    return shown


def _candidate(node: Node) -> tuple[int, int, int, Node]:
    above, depth = node.parent, 0
    rank = _RANK[node.status]
    while above is not None:
        depth += 1
        rank = max(rank, _RANK[above.status])  # what ended is one matter with what was in it
        above = above.parent
    return rank, depth, node.id if rank == 0 else -node.id, node


def _laid_out(node: Node, shown: set[int], lasts: tuple[bool, ...]) -> Iterator[Row]:
    children = [child for key, child in sorted(node.children.items()) if key in shown]
    hidden = hidden_below(node, shown) if children else Counter[SpanStatus]()
    for at, child in enumerate(children):
        is_last = at == len(children) - 1 and not hidden
        yield Row(child, (*lasts, is_last))
        yield from _laid_out(child, shown, (*lasts, is_last))
    if hidden:
        yield Row(node, (*lasts, True), hidden)
