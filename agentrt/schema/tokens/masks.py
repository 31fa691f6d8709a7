"""The mask of a configuration: the tokens along whose bytes the machine can go."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, NamedTuple

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
        self._made: dict[tuple[tuple[int, ...], tuple[int, ...]], _Made] = {}
        self._differing: dict[int, bool] = {}
        self._keys: dict[tuple[object, int], tuple[Leaf, list[list[int]]]] = {}
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
                self._made.clear()
                self._differing.clear()
            found = self._mask(configuration)
            self._known[configuration.number] = found
        return found

    def _mask(self, configuration: Configuration) -> np.ndarray:
        if configuration.tape is not None:
            # the same wherever else the frames are the same, but for what begins another item
            mask = self.of(self.machine.store.configuration(configuration.frames))
            return self._without(mask, configuration, self._two_items(configuration))
        bases, tokens = self._inside(configuration)
        if self.machine.may_end(configuration):
            tokens.extend(self.vocabulary.eos_ids)
        mask = self._joined(bases, tokens)
        tried = self._rewriting(configuration)
        if self.machine.tells_items_apart:
            tried += self.vocabulary.trie.two_items("in an array that it opened")
        return self._without(mask, configuration, tried)

    def _inside(self, configuration: Configuration) -> tuple[list[np.ndarray], list[int]]:
        """Masks, and further tokens, that a configuration can go on with."""
        frames = configuration.frames
        bases: list[np.ndarray] = []
        tokens: list[int] = []
        # whatever stays within a known key stays within one that may be any
        in_any_key = len(frames) > 1 and any(_in_any_key(frame.state) for frame in frames)
        for frame in frames:
            if self.is_string(frame.state):
                bases.append(self._in_string(frame, tokens))
            elif in_any_key and isinstance(frame.state, at.InKnownKey):
                self._past_known_key(frame, tokens)
            else:
                self._from(self.vocabulary.trie.root, frame, tokens)
        return bases, tokens

    def _joined(self, bases: list[np.ndarray], tokens: list[int]) -> np.ndarray:
        """The mask of all these. Most places of one schema have the masks of a few."""
        if len(bases) == 1 and not tokens:
            return bases[0]
        key = tuple(map(id, bases)), tuple(tokens)
        found = self._made.get(key)
        if found is None:
            mask = np.zeros(self.vocabulary.words, dtype=np.uint32)
            for base in bases:
                mask |= base
            set_bits(mask, tokens)
            mask.flags.writeable = False
            # the bases are kept for as long as their ids tell them
            found = self._made[key] = _Made(mask, bases)
        return found.mask

    def _without(
        self, mask: np.ndarray, configuration: Configuration, tried: list[int]
    ) -> np.ndarray:
        """The mask less those of a few tokens that the machine cannot follow. Parts leave out which
        other names were taken and which items were seen: for tokens that write much at once, both
        may matter."""
        octets = mask.data.cast("B")
        wrong = [
            token
            for token in tried
            if octets[token >> 3] >> (token & 7) & 1
            and self.machine.run(configuration, self.vocabulary.tokens[token] or b"") is None
        ]
        if wrong:
            mask = mask.copy()
            for token in wrong:
                mask[token >> 5] &= ~np.uint32(1 << (token & 31))
            mask.flags.writeable = False
        return mask

    def _rewriting(self, configuration: Configuration) -> list[int]:
        """The tokens that may write a key, or the end of one, that was taken."""
        trie = self.vocabulary.trie
        tried = list(trie.later_key)
        for frame in configuration.frames:
            state = _bare(frame.state)
            if isinstance(state, at.InOtherKey):
                tried += trie.escaped_key
            elif isinstance(state, at.InObject) and state.phase != "after":
                tried += trie.escaped_key
                if state.others:
                    tried += trie.first_key
        return tried

    def _two_items(self, configuration: Configuration) -> list[int]:
        """The tokens that may end an item and begin one that was seen."""
        strings = not self._strings_differ(configuration)
        states = [_bare(frame.state) for frame in configuration.frames]
        if all(isinstance(s, at.InOtherKey | at.InKnownKey) for s in states):
            where = "from within a key"
        elif not all(_in_json_string(s) for s in states):
            where = "anywhere"
        else:
            above = [f.parents.frames for f in configuration.frames if f.parents]
            apart = any(_tells_items_apart(f.state) for frames in above for f in frames)
            where = "from within a string" + ("" if apart else " nested in the item")
        return self.vocabulary.trie.two_items(where, strings=strings)

    def _strings_differ(self, configuration: Configuration) -> bool:
        """Whether in each array around whose items must differ, any string that the next item can
        begin with can become endlessly many: then it need not be one that was seen, and there is
        always a next."""
        found = self._differing.get(configuration.number)
        if found is None:
            found = self._differing[configuration.number] = all(
                self._next_string_is_free(frame.state)
                and (frame.parents is None or self._strings_differ(frame.parents))
                for frame in configuration.frames
            )
        return found

    def _next_string_is_free(self, state: object) -> bool:
        state = _bare(state)
        if not isinstance(state, at.InArray) or not _tells_items_apart(state):
            return True
        strings = [
            each
            for way in state.node.plan.ways(state.position)
            for each in self.machine.space.normal(way.value).strings
        ]
        return bool(strings) and all(each.is_free for each in strings)

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
            self._end_other_key(leaf, state, parents, out)
            return leaf.inside
        out += self._follow(leaf.after, parents)
        return leaf.whole

    def _end_other_key(
        self, leaf: Leaf, key: at.InOtherKey, parents: Configuration, out: list[int]
    ) -> None:
        """Adds the tokens that end a key and go on."""
        refused = self._refused(key, parents)
        for i, tokens in enumerate(self._ending(leaf, key, parents)):
            out += [t for t in tokens if t not in refused[i]] if refused else tokens

    def _ending(self, leaf: Leaf, key: at.InOtherKey, parents: Configuration) -> list[list[int]]:
        """For each object that the key may be in, the tokens that end some key and go on."""
        # most of it is the same all along the key, if not in every object of the shape
        assert leaf.after is not None
        place: object = parents.number
        if len(parents.frames) == 1 and isinstance(parents.frames[0].state, at.InObject):
            place = self.parts.alone(leaf.after, key, parents.frames[0].state) or place
        known = self._keys.get((place, key.cls))
        if known is not None and known[0] is leaf:
            return known[1]
        found: list[list[int]] = []
        for parent in parents.frames:
            assert isinstance(parent.state, at.InObject)
            ends, tokens = Ends(), list[int]()
            self.parts.after_other(leaf.after, key, parent.state, None, ends)
            self._onward(ends, parent.parents, tokens)
            found.append(tokens)
        if len(self._keys) >= _MOST_KEYS:
            self._keys.clear()
        self._keys[place, key.cls] = leaf, found
        return found

    def _refused(self, key: at.InOtherKey, parents: Configuration) -> list[set[int]]:
        """For each object that the key may be in, the tokens that would complete the key to a name
        that may not come; nothing where there are none."""
        begun = key.text
        if begun is None:
            return []
        closing, length = self.vocabulary.trie.closing, len(begun)
        known = {
            t for n in _beginning(key.node.sorted_names, begun) for t in closing.get(n[length:], ())
        }
        found: list[set[int]] = []
        for parent in parents.frames:
            assert isinstance(parent.state, at.InObject)
            rests = [n[length:] for n in parent.state.others if n.startswith(begun)]
            found.append(known.union(*(closing.get(rest, ()) for rest in rests)))
        return found if any(found) else []


class _Made(NamedTuple):
    """A mask, and those that it was made of."""

    mask: np.ndarray
    bases: list[np.ndarray]


def _beginning(names: list[str], text: str) -> Iterator[str]:
    """Those of sorted names that begin so."""
    for i in range(bisect_left(names, text), len(names)):
        if not names[i].startswith(text):
            return
        yield names[i]


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
