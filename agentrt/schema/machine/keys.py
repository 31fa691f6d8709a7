"""Keys of objects: known names by a tree, other names by their language."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from agentrt.schema.machine.codec import CLOSE, Codec, Pending

if TYPE_CHECKING:
    from collections.abc import Iterator


class AtName(NamedTuple):
    """In the tree of known names: the node, the names still allowed, and the character begun."""

    node: int
    allowed: int
    pending: Pending | None


class NameTree:
    """The known names of a shape by their characters; `below[n]` are the names under a node, and
    `plainly[n]` those children that are written as the one byte of their character."""

    def __init__(self, names: tuple[str, ...], codec: Codec) -> None:
        self.codec = codec
        self.children: list[dict[int, int]] = [{}]
        self.plainly: list[dict[int, int]] = [{}]
        self.below = [0]
        self.ends: list[int] = [-1]
        for i, name in enumerate(names):
            self._insert(i, name)

    def _insert(self, index: int, name: str) -> None:
        node, bit = 0, 1 << index
        self.below[0] |= bit
        for c in name:
            following = self.children[node].get(ord(c))
            if following is None:
                following = len(self.children)
                self.children[node][ord(c)] = following
                if 0x20 <= ord(c) < 0x7F and c not in '"\\':
                    self.plainly[node][ord(c)] = following
                self.children.append({})
                self.plainly.append({})
                self.below.append(0)
                self.ends.append(-1)
            self.below[following] |= bit
            node = following
        self.ends[node] = index

    def find(self, text: str) -> int | None:
        """The node of a text that some name begins with."""
        node = 0
        for c in text:
            following = self.children[node].get(ord(c))
            if following is None:
                return None
            node = following
        return node

    def step(self, state: AtName, byte: int) -> AtName | int | None:
        """The state after the byte; the index of the name that it closes; None if not allowed."""
        found = self.codec.step(state.pending, byte)
        if found is None:
            return None
        if isinstance(found, Pending):
            following = AtName(state.node, state.allowed, found)
            return following if self.possible(following) else None
        if found == CLOSE:
            index = self.ends[state.node]
            return index if index >= 0 and state.allowed >> index & 1 else None
        target = self.children[state.node].get(found)
        if target is None:
            return None
        # only the names below matter from here on, so that states of different objects meet
        allowed = state.allowed & self.below[target]
        return AtName(target, allowed, None) if allowed else None

    def possible(self, state: AtName) -> int:
        """The allowed names that the key can still become."""
        if state.pending is None:
            return state.allowed & self.below[state.node]
        names = 0
        for code_point, target in self.children[state.node].items():
            if any(lo <= code_point <= hi for lo, hi in state.pending.ranges):
                names |= self.below[target]
        return names & state.allowed

    def first_bytes(self, state: AtName) -> set[int] | None:
        """The bytes that may come next; None where they are many."""
        if state.pending is not None:
            return None
        out = {0x22, 0x5C}
        for code_point, target in self.children[state.node].items():
            if state.allowed & self.below[target]:
                out.add(chr(code_point).encode("utf-8", "surrogatepass")[0])
        return out

    def completions(self, state: AtName) -> Iterator[tuple[int, bytes]]:
        """Each name that the key can become, shortest first, with what is left to write of it."""
        if state.pending is not None:
            # the end of the character begun decides which names are left
            for byte in range(256):
                following = self.step(state, byte)
                if isinstance(following, AtName):
                    yield from (
                        (i, bytes([byte]) + rest) for i, rest in self.completions(following)
                    )
            return
        frontier = [(state.node, "")]
        while frontier:
            following_nodes: list[tuple[int, str]] = []
            for node, text in frontier:
                index = self.ends[node]
                if index >= 0 and state.allowed >> index & 1:
                    yield index, json.dumps(text, ensure_ascii=self.codec.ascii_only)[1:].encode()
                following_nodes += [
                    (target, text + chr(c))
                    for c, target in self.children[node].items()
                    if state.allowed & self.below[target]
                ]
            frontier = following_nodes
