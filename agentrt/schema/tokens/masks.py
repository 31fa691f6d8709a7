"""The mask of a configuration: the tokens along whose bytes the machine can go."""

from __future__ import annotations

import json
from time import thread_time
from typing import TYPE_CHECKING

import numpy as np

from agentrt.schema.machine import states as at
from agentrt.schema.machine import unique
from agentrt.schema.machine.abstract import Abstraction
from agentrt.schema.machine.candidates import candidates
from agentrt.schema.machine.texts import StringText, Within

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentrt.schema.machine.frames import Configuration, Frame
    from agentrt.schema.machine.machine import Machine
    from agentrt.schema.tokens.leaves import Leaf, Leaves
    from agentrt.schema.tokens.trie import Node
    from agentrt.schema.tokens.vocabulary import Vocabulary

_MOST_KEPT = 4096
_SLOW_S = 0.0005


class Masks:
    """The masks of one machine over one vocabulary. Masks given out must not be written to.

    `slow` collects, by the number of the stripped configuration, those that took long to work out,
    for whoever keeps them.
    """

    def __init__(self, machine: Machine, vocabulary: Vocabulary, leaves: Leaves) -> None:
        self.machine = machine
        self.vocabulary = vocabulary
        self.leaves = leaves
        self.abstraction = Abstraction(machine, vocabulary.trie.longest)
        self.slow: dict[int, np.ndarray] = {}
        self._known: dict[int, np.ndarray] = {}
        self._frames: dict[int, np.ndarray] = {}

    @property
    def kept(self) -> list[np.ndarray]:
        """The masks in memory, each once."""
        return list({id(m): m for m in (*self._known.values(), *self._frames.values())}.values())

    def learn(self, configuration: Configuration, mask: np.ndarray) -> None:
        """Takes over what was worked out before: the mask of this configuration, stripped."""
        self._keep(self._known, self.abstraction.of(configuration).number, mask)

    def of(self, configuration: Configuration) -> np.ndarray:
        """The packed mask of a configuration, end tokens included where the text may end."""
        found = self._known.get(configuration.number)
        if found is None:
            found = self._mask(configuration)
            self._keep(self._known, configuration.number, found)
        return found

    def _keep(self, kept: dict[int, np.ndarray], number: int, mask: np.ndarray) -> None:
        if len(kept) >= _MOST_KEPT:
            kept.clear()
        mask.flags.writeable = False
        kept[number] = mask

    def _mask(self, configuration: Configuration) -> np.ndarray:
        stripped = self.abstraction.of(configuration)
        if stripped is configuration:
            start = thread_time()
            mask = self._of_stripped(configuration)
            if thread_time() - start > _SLOW_S:
                self.slow[configuration.number] = mask
            return mask
        shared = self.of(stripped)
        wrong = [
            token
            for token in self._exceptions(configuration)
            if shared[token >> 5] >> (token & 31) & 1
            and self.machine.run(configuration, self.vocabulary.tokens[token] or b"") is None
        ]
        if not wrong:
            return shared
        mask = shared.copy()
        for token in wrong:
            mask[token >> 5] &= ~np.uint32(1 << (token & 31))
        return mask

    def _exceptions(self, configuration: Configuration) -> Iterator[int]:
        """The tokens whose being allowed may depend on what stripping leaves out."""
        trie = self.vocabulary.trie
        for frame in configuration.frames:
            if isinstance(frame.state, at.InOtherKey):
                for word in self._refused(frame):
                    node = trie.find(_key_end(word))
                    if node is not None:
                        yield from node.below()
        yield from trie.whole_key
        if configuration.tape is not None:
            yield from trie.two_items

    def _refused(self, frame: Frame) -> Iterator[str]:
        """What would complete the key begun to one that may not come."""
        state = frame.state
        assert isinstance(state, at.InOtherKey)
        begun = state.text or ""
        assert frame.parents is not None
        taken = set(state.node.names)
        for parent in frame.parents.frames:
            if isinstance(parent.state, at.InObject):
                taken |= parent.state.others
        return (name[len(begun) :] for name in taken if name.startswith(begun))

    def _of_stripped(self, configuration: Configuration) -> np.ndarray:
        mask = np.zeros(self.vocabulary.words, dtype=np.uint32)
        others: list[Frame] = []
        for frame in configuration.frames:
            if self.is_string(frame.state):
                mask |= self._string_mask(frame)
            else:
                others.append(frame)
        if others:
            rest = configuration
            if len(others) < len(configuration.frames):
                rest = self.machine.store.configuration(others)
            self._walk(self.vocabulary.trie.root, rest, mask)
        if self.machine.may_end(configuration):
            _set(mask, list(self.vocabulary.eos_ids))
        return mask

    @staticmethod
    def is_string(state: object) -> bool:
        """Whether the state is between two characters of a string."""
        if isinstance(state, at.InOtherKey):
            return state.at.pending is None and state.automaton.few(state.at) is None
        return (
            isinstance(state, at.InText)
            and isinstance(state.text, StringText)
            and isinstance(state.at, Within)
            and state.at.pending is None
            and state.text.few(state.at) is None
        )

    def leaf(self, frame: Frame) -> Leaf:
        """The leaf of a frame that is between two characters of a string."""
        state = frame.state
        assert isinstance(state, at.InText | at.InOtherKey)
        text = state.automaton if isinstance(state, at.InOtherKey) else state.text
        assert isinstance(text, StringText)
        assert isinstance(state.at, Within)
        return self.leaves.of(text, state.at)

    def _string_mask(self, frame: Frame) -> np.ndarray:
        found = self._frames.get(frame.number)
        if found is not None:
            return found
        leaf = self.leaf(frame)
        mask = leaf.inside.copy()
        if leaf.after.tokens or leaf.after.children:
            closed = self._closed(frame)
            if closed is not None:
                _set(mask, list(leaf.after.tokens))
                self._walk(leaf.after, closed, mask)
        self._keep(self._frames, frame.number, mask)
        return mask

    def _closed(self, frame: Frame) -> Configuration | None:
        """What the closing quote leads to."""
        assert frame.parents is not None
        if isinstance(frame.state, at.InOtherKey):
            frames = list(self.machine.members.close_other_key(frame.state, frame.parents))
        else:
            frames = list(frame.parents.frames)
        return unique.settled(self.machine, frames, None, 0x22)

    def _walk(self, root: Node, configuration: Configuration, mask: np.ndarray) -> None:
        """Sets the bits of the tokens under a node that the machine can follow."""
        found: list[int] = []
        step = self.machine.step
        stack = [(root, configuration)]
        while stack:
            node, current = stack.pop()
            following = current.following
            children = node.children
            few = candidates(self.machine, current) if len(children) > 4 else None
            reachable = (
                children.items()
                if few is None
                else [(b, children[b]) for b in few if b in children]
            )
            for byte, child in reachable:
                try:
                    target = following[byte]
                except KeyError:
                    target = step(current, byte)
                if target is not None:
                    if child.tokens:
                        found.extend(child.tokens)
                    if child.children:
                        stack.append((child, target))
        _set(mask, found)


def _set(mask: np.ndarray, tokens: list[int]) -> None:
    if len(tokens) < 32:
        for token in tokens:
            mask[token >> 5] |= np.uint32(1 << (token & 31))
        return
    listed = np.array(tokens, dtype=np.int64)
    np.bitwise_or.at(mask, listed >> 5, np.left_shift(1, listed & 31).astype(np.uint32))


def _key_end(text: str) -> bytes:
    """The rest of a key, as `json.dumps` writes it, and its closing quote."""
    return json.dumps(text, ensure_ascii=False)[1:].encode("utf-8", "surrogatepass")
