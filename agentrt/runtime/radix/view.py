"""The radix tree as plain values, for whoever draws it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Set

    from agentrt.runtime.batch import Int32Array
    from agentrt.runtime.radix.node import Node


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """One node when it was looked at. `tokens` is read-only and safe to keep.

    `locks` and `last_use` are the cache's own counters; `pinned`: a pin ends here; `hidden`: how
    many children were left out.
    """

    tokens: Int32Array
    locks: int
    last_use: int
    pinned: bool
    children: tuple[Snapshot, ...]
    hidden: int


def snapshot(roots: Mapping[str, Node], pinned: Set[Node], max_nodes: int) -> dict[str, Snapshot]:
    """The roots and, breadth-first, at most `max_nodes` nodes below them. Shares the token runs."""
    shown = list(roots.values())
    room = max_nodes + len(shown)
    kept: dict[Node, list[Node]] = {}
    for node in shown:  # grows as it is read
        kept[node] = list(node.children.values())[: max(0, room - len(shown))]
        shown.extend(kept[node])
    made: dict[Node, Snapshot] = {}
    for node in reversed(shown):  # children come before their parents
        made[node] = Snapshot(
            tokens=node.tokens,
            locks=node.lock_ref,
            last_use=node.last_use,
            pinned=node in pinned,
            children=tuple(made[child] for child in kept[node]),
            hidden=len(node.children) - len(kept[node]),
        )
    return {namespace: made[root] for namespace, root in roots.items()}
