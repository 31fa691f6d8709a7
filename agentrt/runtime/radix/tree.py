"""The shape of the radix tree: find, split, attach, cut, merge. Who uses it is not its business."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from agentrt.runtime.radix.node import EMPTY, Node, frozen, joined, part, shared_length

if TYPE_CHECKING:
    from agentrt.runtime.batch import Int32Array


class Found(NamedTuple):
    """`length` tokens were found, at `slots`; the find ends `offset` tokens into `node`."""

    node: Node
    offset: int
    length: int
    slots: Int32Array


class Tree:
    """One root per namespace. `version` changes whenever anything that was found may be elsewhere.

    What a lock holds on to stays put: in a split the lower half keeps the node's identity, in a
    merge the lowest node does, and locks end at the end of their node.
    """

    def __init__(self) -> None:
        self.roots: dict[str, Node] = {}
        self.nodes = 0  # roots not counted
        self.version = 0

    def root(self, namespace: str) -> Node:
        """The namespace's root, made if need be."""
        if namespace not in self.roots:
            self.roots[namespace] = Node(EMPTY, EMPTY, parent=None, namespace=namespace)
        return self.roots[namespace]

    def find(self, start: Node, tokens: Int32Array) -> Found:
        """The longest run of `tokens` below the end of `start`. Changes nothing."""
        node, offset, at = start, len(start), 0
        runs: list[Int32Array] = []
        while at < len(tokens):
            child = node.children.get(tokens.item(at))
            if child is None:
                break
            node, offset = child, shared_length(child.tokens, tokens[at:])
            runs.append(child.slots[:offset])
            at += offset
            if offset < len(child):
                break
        return Found(node, offset, at, joined(runs))

    def end_of(self, found: Found) -> Node:
        """The node that ends where the find ends, split there if need be."""
        if found.offset == len(found.node):
            return found.node
        return self.split(found.node, found.offset)

    def split(self, node: Node, at: int) -> Node:
        """Cuts a node in two after `at` tokens and returns the new, upper part."""
        assert node.parent is not None
        tokens, slots, size = node.tokens, node.slots, len(node)
        upper = Node(
            part(tokens, 0, at),
            part(slots, 0, at),
            parent=node.parent,
            lock_ref=node.lock_ref,  # whoever stands on the node stands on both halves
            last_use=node.last_use,
        )
        node.parent.children[tokens.item(0)] = upper
        node.tokens, node.slots, node.parent = part(tokens, at, size), part(slots, at, size), upper
        upper.children[node.tokens.item(0)] = node
        self.nodes += 1
        self.version += 1
        return upper

    def attach(self, parent: Node, tokens: Int32Array, slots: Int32Array) -> Node:
        """Adds copies of the runs as a new leaf."""
        leaf = Node(frozen(tokens.copy()), frozen(slots.copy()), parent=parent)
        parent.children[tokens.item(0)] = leaf
        self.nodes += 1
        self.version += 1
        return leaf

    def cut(self, leaf: Node, n: int) -> Int32Array:
        """Takes the last n tokens off a leaf and returns their slots; the last one takes it out."""
        assert leaf.parent is not None
        keep = len(leaf) - n
        slots = leaf.slots[keep:]
        self.version += 1
        if keep:
            leaf.tokens, leaf.slots = part(leaf.tokens, 0, keep), part(leaf.slots, 0, keep)
        else:
            del leaf.parent.children[leaf.tokens.item(0)]
            leaf.parent = None
            self.nodes -= 1
        return slots

    def merge(self, node: Node) -> Node:
        """Makes the whole chain of joints through a node one node, and returns it.

        Nothing ends at a joint, so every lock on it is a lock on the lowest node, which keeps its
        identity. Joined at once: pair by pair would cost the square of a long chain.
        """
        bottom = node
        while bottom.is_joint:
            bottom = bottom.only_child()
        chain, above = [bottom], bottom.parent
        while above is not None and above.is_joint:
            chain.append(above)
            above = above.parent
        if len(chain) == 1:
            return bottom
        assert above is not None
        chain.reverse()
        bottom.tokens = joined([link.tokens for link in chain])
        bottom.slots = joined([link.slots for link in chain])
        bottom.last_use = max(link.last_use for link in chain)
        bottom.parent = above
        above.children[bottom.tokens.item(0)] = bottom
        for link in chain[:-1]:  # the queue may still know it: it must keep nothing alive
            link.parent = None
            link.children = {}
        self.nodes -= len(chain) - 1
        self.version += 1
        return bottom

    def drop_root_if_empty(self, node: Node) -> None:
        """Forgets a namespace with nothing cached and nobody standing at its root."""
        if node.namespace is not None and not node.children and not node.lock_ref:
            del self.roots[node.namespace]
