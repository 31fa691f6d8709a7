"""Masks inside keys: which tokens end one, and which of those write a name that may not come."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from agentrt.schema.cache import Cache
from agentrt.schema.machine import states as at
from agentrt.schema.tokens.bits import set_bits
from agentrt.schema.tokens.parts import Ends

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np

    from agentrt.schema.algebra.space import Expr
    from agentrt.schema.machine.frames import Configuration, Frame
    from agentrt.schema.machine.members import ObjectNode
    from agentrt.schema.tokens.leaves import Leaf
    from agentrt.schema.tokens.parts import Parts
    from agentrt.schema.tokens.trie import Node, Trie

    Follow = Callable[[Node, Configuration], list[int]]

_MOST_KEPT = 512


class Base(NamedTuple):
    """A packed mask, less a few tokens."""

    mask: np.ndarray
    less: tuple[int, ...] = ()


class Names:
    """What tokens can do in keys. `follow` says which can go on from a node of their tree."""

    def __init__(self, parts: Parts, trie: Trie, follow: Follow) -> None:
        self.parts = parts
        self.trie = trie
        self.follow = follow
        self._alone: Cache[tuple[Leaf, ObjectNode, int], Expr | None] = Cache(_MOST_KEPT)
        self._any: Cache[tuple[Leaf, object, int], np.ndarray] = Cache(_MOST_KEPT)

    # -- among known names ---------------------------------------------------------------------

    def known(self, node: Node, frame: Frame, out: list[int]) -> None:
        """Adds the tokens that go on in a known key, from a node of their tree, and after it."""
        state = frame.state
        assert isinstance(state, at.InKnownKey)
        self.parts.inside_known(node, state, out)
        self.known_ends(node, frame, out)

    def known_ends(self, node: Node, frame: Frame, out: list[int]) -> None:
        """Adds those that end a known key."""
        state = frame.state
        assert isinstance(state, at.InKnownKey)
        for parent in () if frame.parents is None else frame.parents.frames:
            assert isinstance(parent.state, at.InObject)
            ends = Ends()
            self.parts.known_ends(node, state, parent.state, ends)
            self._onward(ends, parent.parents, out)

    # -- among others --------------------------------------------------------------------------

    def others(self, node: Node, frame: Frame, out: list[int]) -> None:
        """Adds the tokens that go on in another key, from a node of their tree, and after it."""
        for parent in () if frame.parents is None else frame.parents.frames:
            assert isinstance(parent.state, at.InObject)
            ends = Ends()
            self.parts.key(node, frame.state, parent.state, ends)
            self._onward(ends, parent.parents, out)

    def in_other(self, leaf: Leaf, key: at.InOtherKey, parents: Configuration) -> list[Base]:
        """The tokens that stay within another key, or end it: a mask for each object that it may
        be in."""
        bases: list[Base] = []
        for parent in parents.frames:
            assert isinstance(parent.state, at.InObject)
            less = self._refused(key, parent.state)
            bases.append(Base(self._any_name(leaf, key, parent), less))
        return bases

    def end_other(
        self, after: Node, key: at.InOtherKey, parents: Configuration, out: list[int]
    ) -> None:
        """Adds the tokens that end another key; `after` is what they hold after the quote."""
        for parent in parents.frames:
            assert isinstance(parent.state, at.InObject)
            less = set(self._refused(key, parent.state))
            out += [t for t in self._ending(after, key, parent) if t not in less]

    def _any_name(self, leaf: Leaf, key: at.InOtherKey, parent: Frame) -> np.ndarray:
        """The mask, did it not matter what the key's name is."""
        assert leaf.after is not None
        assert isinstance(parent.state, at.InObject)
        # most of it is the same all along the key, if not in every object of the shape
        shape = (leaf, key.node, key.cls)
        try:
            alone = self._alone[shape]
        except KeyError:
            alone = self._alone.keep(shape, self.parts.alone(leaf.after, key, parent.state))
        known = (leaf, parent.number if alone is None else alone, key.cls)
        found = self._any.get(known)
        if found is None:
            mask = leaf.inside.copy()
            set_bits(mask, self._ending(leaf.after, key, parent))
            mask.flags.writeable = False
            found = self._any.keep(known, mask)
        return found

    def _ending(self, after: Node, key: at.InOtherKey, parent: Frame) -> list[int]:
        """The tokens that end the key, did it not matter what its name is."""
        assert isinstance(parent.state, at.InObject)
        ends, tokens = Ends(), list[int]()
        self.parts.after_other(after, key, parent.state, None, ends)
        self._onward(ends, parent.parents, tokens)
        return tokens

    def _refused(self, key: at.InOtherKey, parent: at.InObject) -> tuple[int, ...]:
        """The tokens that would complete the key to a name that may not come: one that is known,
        or was taken."""
        begun = key.text
        if begun is None:
            return ()
        known = self.parts.completing(self.trie.quoting, key.node.tree, begun)
        rests = [name[len(begun) :] for name in parent.others if name.startswith(begun)]
        if not rests:
            return known
        closing = self.trie.closing
        return (*known, *(t for rest in rests for t in closing.get(rest, ())))

    def _onward(self, ends: Ends, parents: Configuration | None, out: list[int]) -> None:
        out += ends.tokens
        if parents is not None:
            for node in ends.nodes:
                if node.children:
                    out += self.follow(node, parents)
