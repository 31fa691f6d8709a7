"""Nodes of the radix tree, and the runs of tokens and slots they are made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentrt.runtime.batch import Int32Array


class Node:
    """A run of tokens and the KV slot of each. A root has no tokens, no parent and a namespace.

    `holds` counts the locks that end exactly here, `lock_ref` those that end here or below. The
    runs are never written to once made, so views of them may be handed out.
    """

    __slots__ = (
        "children",
        "holds",
        "last_use",
        "lock_ref",
        "namespace",
        "parent",
        "slots",
        "tokens",
    )

    def __init__(
        self,
        tokens: Int32Array,
        slots: Int32Array,
        *,
        parent: Node | None,
        namespace: str | None = None,
        lock_ref: int = 0,
        last_use: int = 0,
    ) -> None:
        self.tokens = tokens
        self.slots = slots
        self.parent = parent
        self.namespace = namespace
        self.children: dict[int, Node] = {}  # by first token
        self.holds = 0
        self.lock_ref = lock_ref
        self.last_use = last_use

    def __len__(self) -> int:
        return len(self.tokens)

    def __bool__(self) -> bool:
        return True

    @property
    def is_root(self) -> bool:
        return self.namespace is not None

    @property
    def is_joint(self) -> bool:
        """Nothing ends here and one thing follows: this node and its child could be one."""
        return len(self.children) == 1 and not self.holds and not self.is_root

    @property
    def is_evictable_leaf(self) -> bool:
        """In the tree, with nothing below and nobody standing on it."""
        return not self.children and not self.lock_ref and self.parent is not None

    def only_child(self) -> Node:
        (child,) = self.children.values()
        return child

    def depth(self) -> int:
        """Tokens from the root to the end of this node."""
        tokens, node = 0, self
        while node.parent is not None:
            tokens, node = tokens + len(node), node.parent
        return tokens

    def __repr__(self) -> str:
        what = f"root {self.namespace!r}" if self.is_root else f"{len(self)} tokens"
        return (
            f"<Node {what}, {len(self.children)} children, "
            f"lock_ref {self.lock_ref}, holds {self.holds}, last use {self.last_use}>"
        )


def shared_length(a: Int32Array, b: Int32Array) -> int:
    """How many leading tokens two runs share.

    Compared in growing blocks, so that it costs O(result) and not O(longer run) when they part
    early, and few calls when they do not.
    """
    size = min(len(a), len(b))
    start, width = 0, 256
    while start < size:
        stop = min(start + width, size)
        differ = a[start:stop] != b[start:stop]
        first = int(differ.argmax())
        if differ[first]:
            return start + first
        start, width = stop, width * 4
    return size


def frozen(run: Int32Array) -> Int32Array:
    """The same array, made read-only."""
    run.flags.writeable = False
    return run


def part(run: Int32Array, start: int, stop: int) -> Int32Array:
    """run[start:stop] as a view, or a copy where the view would keep twice its memory alive."""
    view = run[start:stop]
    base = view.base
    if isinstance(base, np.ndarray) and 2 * view.size < base.size:
        return frozen(view.copy())
    return view


def joined(runs: Sequence[Int32Array]) -> Int32Array:
    """The runs end to end, read-only; one run alone is not copied."""
    if len(runs) == 1:
        return runs[0]
    return frozen(np.concatenate(runs)) if runs else EMPTY


EMPTY = frozen(np.zeros(0, dtype=np.int32))
