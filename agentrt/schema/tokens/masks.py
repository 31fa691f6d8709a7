"""The mask of a configuration: the tokens along whose bytes the machine can go."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from agentrt.schema.machine import states as at
from agentrt.schema.machine.abstract import Abstraction
from agentrt.schema.machine.texts import StringText, Within
from agentrt.schema.tokens.parts import Ends, Part, Parts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentrt.schema.machine.frames import Configuration, Frame
    from agentrt.schema.machine.machine import Machine
    from agentrt.schema.tokens.leaves import Leaves
    from agentrt.schema.tokens.trie import Node
    from agentrt.schema.tokens.vocabulary import Vocabulary

_MOST_KEPT = 4096
_MOST_FOLLOWED = 50_000


class Masks:
    """The masks of one machine over one vocabulary. Masks given out must not be written to."""

    def __init__(self, machine: Machine, vocabulary: Vocabulary, leaves: Leaves) -> None:
        self.machine = machine
        self.vocabulary = vocabulary
        self.leaves = leaves
        self.abstraction = Abstraction(machine, vocabulary.trie.longest)
        self.parts = Parts(machine, vocabulary.trie)
        self._known: dict[int, np.ndarray] = {}
        self._followed: dict[tuple[int, int], tuple[Part, ...]] = {}

    def of(self, configuration: Configuration) -> np.ndarray:
        """The packed mask of a configuration, end tokens included where the text may end."""
        found = self._known.get(configuration.number)
        if found is None:
            if len(self._known) >= _MOST_KEPT:
                self._known.clear()
            found = self._mask(configuration)
            found.flags.writeable = False
            self._known[configuration.number] = found
        return found

    def _mask(self, configuration: Configuration) -> np.ndarray:
        mask = np.zeros(self.vocabulary.words, dtype=np.uint32)
        for frame in configuration.frames:
            if self.is_string(frame.state):
                self._in_string(frame, mask)
            else:
                for part in self._parts(self.vocabulary.trie.root, frame):
                    part.set(mask)
        for token in self._exceptions(configuration):
            if mask[token >> 5] >> (token & 31) & 1:
                text = self.vocabulary.tokens[token] or b""
                if self.machine.run(configuration, text) is None:
                    mask[token >> 5] &= ~np.uint32(1 << (token & 31))
        if self.machine.may_end(configuration):
            for token in self.vocabulary.eos_ids:
                mask[token >> 5] |= np.uint32(1 << (token & 31))
        return mask

    def _exceptions(self, configuration: Configuration) -> Iterator[int]:
        """The few tokens that write so much at once that what parts leave out may matter: which
        other names were taken, and which items were seen."""
        trie = self.vocabulary.trie
        yield from trie.later_key
        states = [_bare(frame.state) for frame in configuration.frames]
        begins = any(isinstance(s, at.InObject) and s.phase != "after" for s in states)
        if begins:
            yield from trie.first_key
        if begins or any(isinstance(s, at.InOtherKey) for s in states):
            yield from trie.escaped_key
        if self.machine.tells_items_apart:
            yield from trie.two_items

    # -- frames --------------------------------------------------------------------------------

    def _parts(self, node: Node, frame: Frame) -> Iterator[Part]:
        """What tokens can do from a frame on, from a node of their tree."""
        state, parents = frame.state, frame.parents
        if parents is None:
            return
        if isinstance(state, at.InKnownKey | at.InOtherKey):
            for parent in parents.frames:
                assert isinstance(parent.state, at.InObject)
                ends = Ends()
                self.parts.key(node, state, parent.state, ends)
                yield from self._onward(ends.part(self.vocabulary.trie), parent.parents)
        else:
            yield from self._onward(self.parts.of(node, state), parents)

    def _onward(self, part: Part, parents: Configuration | None) -> Iterator[Part]:
        yield part
        if parents is not None:
            for node in part.after:
                yield from self._follow(node, parents)

    def _follow(self, node: Node, configuration: Configuration) -> tuple[Part, ...]:
        """What tokens can do from a configuration on."""
        key = (node.number, configuration.number)
        found = self._followed.get(key)
        if found is None:
            if len(self._followed) >= _MOST_FOLLOWED:
                self._followed.clear()
            parts = chain.from_iterable(self._parts(node, f) for f in configuration.frames)
            found = self._followed[key] = tuple(p for p in parts if p.tokens)
        return found

    # -- strings -------------------------------------------------------------------------------

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

    def _string(self, frame: Frame) -> tuple[StringText, Within]:
        """The string that a frame is in, and where, bounds out of a token's reach left out."""
        state = frame.state
        assert isinstance(state, at.InText | at.InOtherKey)
        text = state.automaton if isinstance(state, at.InOtherKey) else state.text
        assert isinstance(text, StringText)
        return text, self.abstraction.within(text, state.at)

    def places(self, frame: Frame) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The plain tokens that stay within the string that a frame is in, the DFA state that each
        leads to, and the number of its characters."""
        return self.leaves.places(*self._string(frame))

    def _in_string(self, frame: Frame, mask: np.ndarray) -> None:
        leaf = self.leaves.of(*self._string(frame))
        mask |= leaf.inside
        state, parents = frame.state, frame.parents
        if leaf.after is None or parents is None:
            return
        if not isinstance(state, at.InOtherKey):
            for part in (Part(leaf.after.tokens, ()), *self._follow(leaf.after, parents)):
                part.set(mask)
            return
        for parent in parents.frames:
            assert isinstance(parent.state, at.InObject)
            ends = Ends()
            self.parts.after_other(leaf.after, state, parent.state, None, ends)
            refused = self._refused(state, parent.state)
            for part in self._onward(ends.part(self.vocabulary.trie), parent.parents):
                if refused:
                    part = Part([t for t in part.tokens if t not in refused], ())
                part.set(mask)

    def _refused(self, key: at.InOtherKey, parent: at.InObject) -> set[int]:
        """The tokens that would complete the key to a name that may not come."""
        if key.text is None:
            return set()
        return {
            token
            for rest, tokens in self.vocabulary.trie.closing.items()
            if (name := key.text + rest) in key.node.names or name in parent.others
            for token in tokens
        }


def _bare(state: object) -> object:
    return state.inner if isinstance(state, at.Spaces | at.Expect) else state
