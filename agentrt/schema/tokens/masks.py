"""The mask of a configuration: the tokens along whose bytes the machine can go."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from agentrt.schema.machine import states as at
from agentrt.schema.machine.abstract import Abstraction
from agentrt.schema.machine.texts import StringText, Within
from agentrt.schema.tokens.parts import Ends, Parts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentrt.schema.machine.frames import Configuration, Frame
    from agentrt.schema.machine.machine import Machine
    from agentrt.schema.tokens.leaves import Leaf, Leaves
    from agentrt.schema.tokens.trie import Node
    from agentrt.schema.tokens.vocabulary import Vocabulary

_MOST_KEPT = 4096
_MOST_FOLLOWED = 50_000
_MOST_KEYS = 512
_MANY = 60


class Masks:
    """The masks of one machine over one vocabulary. Masks given out must not be written to."""

    def __init__(self, machine: Machine, vocabulary: Vocabulary, leaves: Leaves) -> None:
        self.machine = machine
        self.vocabulary = vocabulary
        self.leaves = leaves
        self.abstraction = Abstraction(machine, vocabulary.trie.longest)
        self.parts = Parts(machine, vocabulary.trie)
        self._known: dict[int, np.ndarray] = {}
        self._keys: dict[tuple[object, int], tuple[Leaf, np.ndarray]] = {}
        self._followed: dict[tuple[int, int], list[int]] = {}

    @property
    def kept(self) -> list[np.ndarray]:
        """The masks in memory, each once."""
        return list({id(m): m for m in self._known.values()}.values())

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
        frames, trie = configuration.frames, self.vocabulary.trie
        if configuration.tape is not None:
            # the same wherever else the frames are the same, but for what begins another item
            mask = self.of(self.machine.store.configuration(frames))
            return self._without(mask, configuration, self._two_items(configuration))
        mask, tokens = self._inside(configuration)
        if self.machine.may_end(configuration):
            tokens.extend(self.vocabulary.eos_ids)
        if tokens:
            mask = mask.copy()
            set_bits(mask, tokens)
        tried = list(self._rewriting(configuration))
        if self.machine.tells_items_apart:
            tried += trie.two_first_items
        return self._without(mask, configuration, tried)

    def _inside(self, configuration: Configuration) -> tuple[np.ndarray, list[int]]:
        """A mask, and further tokens, that a configuration can go on with."""
        mask: np.ndarray | None = None
        tokens: list[int] = []
        # whatever stays within a known key stays within one that may be any
        in_any_key = any(_in_any_key(frame.state) for frame in configuration.frames)
        for frame in configuration.frames:
            if self.is_string(frame.state):
                inside = self._in_string(frame, tokens)
                mask = inside if mask is None else mask | inside
            elif in_any_key and isinstance(frame.state, at.InKnownKey):
                self._past_known_key(frame, tokens)
            else:
                self._from(self.vocabulary.trie.root, frame, tokens)
        if mask is None:
            mask = np.zeros(self.vocabulary.words, dtype=np.uint32)
        return mask, tokens

    def _without(
        self, mask: np.ndarray, configuration: Configuration, tried: list[int]
    ) -> np.ndarray:
        """The mask less those of a few tokens that the machine cannot follow. Parts leave out which
        other names were taken and which items were seen: for tokens that write much at once, both
        may matter."""
        wrong = [
            token
            for token in tried
            if mask[token >> 5] >> (token & 31) & 1
            and self.machine.run(configuration, self.vocabulary.tokens[token] or b"") is None
        ]
        if wrong:
            mask = mask.copy()
            for token in wrong:
                mask[token >> 5] &= ~np.uint32(1 << (token & 31))
        return mask

    def _rewriting(self, configuration: Configuration) -> Iterator[int]:
        """The tokens that may write a key, or the end of one, that was taken."""
        trie = self.vocabulary.trie
        yield from trie.later_key
        states = [_bare(frame.state) for frame in configuration.frames]
        begins = any(isinstance(s, at.InObject) and s.phase != "after" for s in states)
        if begins:
            yield from trie.first_key
        if begins or any(isinstance(s, at.InOtherKey) for s in states):
            yield from trie.escaped_key

    def _two_items(self, configuration: Configuration) -> list[int]:
        """The tokens that may end an item and begin one that was seen."""
        trie = self.vocabulary.trie
        states = [_bare(frame.state) for frame in configuration.frames]
        if all(isinstance(s, at.InOtherKey | at.InKnownKey) for s in states):
            return trie.two_items_after_key
        if not all(_in_json_string(s) for s in states):
            return trie.two_items
        around = [
            f for frame in configuration.frames if frame.parents for f in frame.parents.frames
        ]
        if any(_tells_items_apart(frame.state) for frame in around):
            return trie.two_items_after_string
        return trie.two_items_after_nested

    # -- frames --------------------------------------------------------------------------------

    def _from(self, node: Node, frame: Frame, out: list[int]) -> None:
        """Adds the tokens that a frame can go on with, from a node of their tree."""
        state, parents = frame.state, frame.parents
        if parents is None:
            return
        if isinstance(state, at.InKnownKey | at.InOtherKey):
            for parent in parents.frames:
                assert isinstance(parent.state, at.InObject)
                ends = Ends()
                self.parts.key(node, state, parent.state, ends)
                self._onward(ends, parent.parents, out)
        else:
            part = self.parts.of(node, state)
            out += part.tokens
            for after in part.after:
                out += self._follow(after, parents)

    def _past_known_key(self, frame: Frame, out: list[int]) -> None:
        """Adds the tokens that end a key among known names."""
        state, parents = frame.state, frame.parents
        assert isinstance(state, at.InKnownKey)
        for parent in () if parents is None else parents.frames:
            assert isinstance(parent.state, at.InObject)
            ends = Ends()
            self.parts.known_ends(self.vocabulary.trie.quoting, state, parent.state, ends)
            self._onward(ends, parent.parents, out)

    def _onward(self, ends: Ends, parents: Configuration | None, out: list[int]) -> None:
        out += ends.tokens
        if parents is not None:
            for node in ends.nodes:
                if node.children:
                    out += self._follow(node, parents)

    def _follow(self, node: Node, configuration: Configuration) -> list[int]:
        """The tokens that a configuration can go on with."""
        key = (node.number, configuration.number)
        found = self._followed.get(key)
        if found is None:
            if len(self._followed) >= _MOST_FOLLOWED:
                self._followed.clear()
            found = self._followed[key] = []
            for frame in configuration.frames:
                self._from(node, frame, found)
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

    def _in_string(self, frame: Frame, out: list[int]) -> np.ndarray:
        """The packed mask of the tokens that stay within a string; adds those that leave it."""
        text, within = self._string(frame)
        leaf = self.leaves.of(text, within)
        state, parents = frame.state, frame.parents
        if leaf.after is None or parents is None:
            return leaf.inside
        if isinstance(state, at.InOtherKey):
            return self._in_other_key(leaf, state, parents)
        out += self._follow(leaf.after, parents)
        return leaf.whole

    def _in_other_key(self, leaf: Leaf, key: at.InOtherKey, parents: Configuration) -> np.ndarray:
        """The packed mask of the tokens that stay within a key, or end it and go on."""
        refused = self._refused(key, parents)
        if refused:
            return self._ended(leaf, key, parents, refused)
        # most of it is the same all along the key, if not in every object of the shape
        assert leaf.after is not None
        place: object = parents.number
        if len(parents.frames) == 1 and isinstance(parents.frames[0].state, at.InObject):
            place = self.parts.alone(leaf.after, key, parents.frames[0].state) or place
        known = self._keys.get((place, key.cls))
        if known is not None and known[0] is leaf:
            return known[1]
        mask = self._ended(leaf, key, parents, refused)
        if len(self._keys) >= _MOST_KEYS:
            self._keys.clear()
        self._keys[place, key.cls] = leaf, mask
        return mask

    def _ended(
        self, leaf: Leaf, key: at.InOtherKey, parents: Configuration, refused: list[set[int]]
    ) -> np.ndarray:
        assert leaf.after is not None
        tokens: list[int] = []
        for i, parent in enumerate(parents.frames):
            assert isinstance(parent.state, at.InObject)
            ends, found = Ends(), list[int]()
            self.parts.after_other(leaf.after, key, parent.state, None, ends)
            self._onward(ends, parent.parents, found)
            tokens += [t for t in found if t not in refused[i]] if refused else found
        mask = leaf.inside.copy()
        set_bits(mask, tokens)
        return mask

    def _refused(self, key: at.InOtherKey, parents: Configuration) -> list[set[int]]:
        """For each object that the key may be in, the tokens that would complete the key to a name
        that may not come; nothing where there are none."""
        begun = key.text
        if begun is None:
            return []
        closing, length = self.vocabulary.trie.closing, len(begun)

        def of(names: frozenset[str]) -> set[int]:
            rests = [name[length:] for name in names if name.startswith(begun)]
            return {token for rest in rests for token in closing.get(rest, ())}

        known = of(key.node.names)
        found = [
            known | of(p.state.others) for p in parents.frames if isinstance(p.state, at.InObject)
        ]
        return found if any(found) else []


def _in_any_key(state: object) -> bool:
    """Whether the state is in a key, between two characters, that may become any name."""
    return (
        isinstance(state, at.InOtherKey)
        and state.automaton.strings.is_everything
        and state.at.pending is None
    )


def set_bits(mask: np.ndarray, tokens: list[int]) -> None:
    """Sets the tokens' bits in a packed mask of little-endian words."""
    if len(tokens) < _MANY:
        octets = mask.data.cast("B")
        for token in tokens:
            octets[token >> 3] |= 1 << (token & 7)
        return
    listed = np.array(tokens, dtype=np.int64)
    np.bitwise_or.at(mask, listed >> 5, _BITS[listed & 31])


_BITS = np.left_shift(np.uint32(1), np.arange(32, dtype=np.uint32))


def _in_json_string(state: object) -> bool:
    if isinstance(state, at.InText) and isinstance(state.text, StringText):
        return state.text.codec.json
    return isinstance(state, at.InOtherKey | at.InKnownKey)


def _tells_items_apart(state: object) -> bool:
    return isinstance(state, at.InArray) and state.node.plan.unique


def _bare(state: object) -> object:
    return state.inner if isinstance(state, at.Spaces | at.Expect) else state
