"""The mask of a configuration: the tokens along whose bytes the machine can go."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from agentrt.schema.cache import Cache
from agentrt.schema.machine import states as at
from agentrt.schema.machine.abstract import Abstraction
from agentrt.schema.machine.texts import StringText, Within
from agentrt.schema.tokens.apart import Apart
from agentrt.schema.tokens.bits import clear_bits, has_bit, set_bits
from agentrt.schema.tokens.names import Base, Names
from agentrt.schema.tokens.parts import Parts

if TYPE_CHECKING:
    from collections.abc import Collection

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
        self.names = Names(self.parts, vocabulary.trie, self._follow)
        self.apart = Apart(machine, vocabulary)
        self._known: Cache[int, np.ndarray] = Cache(_MOST_KEPT)
        self._made: Cache[_Making, _Made] = Cache(_MOST_KEPT)
        self._followed: Cache[tuple[int, int], list[int]] = Cache(_MOST_FOLLOWED)

    @property
    def kept(self) -> list[np.ndarray]:
        """The masks in memory, each once."""
        return list({id(m): m for m in self._known.values()}.values())

    def of(self, configuration: Configuration) -> np.ndarray:
        """The packed mask of a configuration, end tokens included where the text may end."""
        found = self._known.get(configuration.number)
        if found is None:
            found = self._known.keep(configuration.number, self._mask(configuration))
        return found

    def _mask(self, configuration: Configuration) -> np.ndarray:
        if configuration.tape is not None:
            # the same wherever else the frames are the same, but for what begins another item
            place = self.machine.store.configuration(configuration.frames)
            mask = self.of(place)
            return self._without(mask, configuration, self.apart.hanging(place, mask))
        bases, tokens = self._inside(configuration)
        if self.machine.may_end(configuration):
            tokens.extend(self.vocabulary.eos_ids)
        mask = self._joined(bases, tokens)
        tried = self._rewriting(configuration)
        if self.machine.tells_items_apart:
            tried += self.apart.opening(configuration)
        return self._without(mask, configuration, tried)

    def _inside(self, configuration: Configuration) -> tuple[list[Base], list[int]]:
        """Masks, and further tokens, that a configuration can go on with."""
        bases: list[Base] = []
        tokens: list[int] = []
        strings = [frame for frame in configuration.frames if self.is_string(frame.state)]
        # what stays within one of several strings stays within one that may go on in any way
        several = len(configuration.frames) > 1
        covering = [frame for frame in strings if several and self._covers(frame.state)]
        for frame in configuration.frames:
            if frame not in strings:
                if covering and isinstance(frame.state, at.InKnownKey):
                    self.names.known_ends(self.vocabulary.trie.quoting, frame, tokens)
                else:
                    self._from(self.vocabulary.trie.root, frame, tokens)
            elif covering and frame not in covering:
                self._end_string(frame, tokens)
            else:
                bases += self._in_string(frame, tokens)
        return bases, tokens

    def _joined(self, bases: list[Base], tokens: list[int]) -> np.ndarray:
        """The mask of all these. Most places of one schema have the masks of a few."""
        if len(bases) == 1 and not tokens and not bases[0].less:
            return bases[0].mask
        key = tuple([(id(base.mask), base.less) for base in bases]), tuple(tokens)
        found = self._made.get(key)
        if found is None:
            mask = np.zeros(self.vocabulary.words, dtype=np.uint32)
            for base in bases:
                if base.less:
                    mask |= _less(base.mask, base.less)
                else:
                    mask |= base.mask
            set_bits(mask, tokens)
            mask.flags.writeable = False
            # the bases are kept for as long as their ids tell them
            found = self._made.keep(key, _Made(mask, bases))
        return found.mask

    def _without(
        self, mask: np.ndarray, configuration: Configuration, tried: list[int]
    ) -> np.ndarray:
        """The mask less those of a few tokens that the machine cannot follow. Parts leave out which
        other names were taken and which items were seen: for tokens that write much at once, both
        may matter."""
        wrong = [
            token
            for token in tried
            if has_bit(mask, token)
            and self.machine.run(configuration, self.vocabulary.tokens[token] or b"") is None
        ]
        return _less(mask, wrong) if wrong else mask

    def _rewriting(self, configuration: Configuration) -> list[int]:
        """The tokens that may write a key, or the end of one, that was taken."""
        trie = self.vocabulary.trie
        tried = list(trie.later_key)
        for frame in configuration.frames:
            state = at.bare(frame.state)
            if isinstance(state, at.InOtherKey):
                tried += trie.escaped_key
            elif isinstance(state, at.InObject) and state.phase != "after":
                tried += trie.escaped_key
                if state.others:
                    tried += trie.first_key
        return tried

    # -- frames --------------------------------------------------------------------------------

    def _from(self, node: Node, frame: Frame, out: list[int]) -> None:
        """Adds the tokens that a frame can go on with, from a node of their tree."""
        state, parents = frame.state, frame.parents
        if parents is None:
            return
        if isinstance(state, at.InKnownKey):
            self.names.known(node, frame, out)
        elif isinstance(state, at.InOtherKey):
            self.names.others(node, frame, out)
        else:
            part = self.parts.of(node, state)
            out += part.tokens
            for after in part.after:
                out += self._follow(after, parents)

    def _follow(self, node: Node, configuration: Configuration) -> list[int]:
        """The tokens that a configuration can go on with."""
        key = (node.number, configuration.number)
        found = self._followed.get(key)
        if found is None:
            found = self._followed.keep(key, [])
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

    @staticmethod
    def _covers(state: object) -> bool:
        """Whether whatever may come next within a string may come within this one."""
        text, within = text_of(state)
        return text.covers(within)

    def _string(self, frame: Frame) -> tuple[StringText, Within]:
        """The string that a frame is in, and where, bounds out of a token's reach left out."""
        text, within = text_of(frame.state)
        return text, self.abstraction.within(text, within)

    def places(self, frame: Frame) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The plain tokens that stay within the string that a frame is in, the DFA state that each
        leads to, and the number of its characters."""
        return self.leaves.places(*self._string(frame))

    def leaving(self, frame: Frame) -> Node | None:
        """What tokens that leave the string a frame is in go on with after its closing quote."""
        return self.leaves.after(*self._string(frame))

    def _in_string(self, frame: Frame, out: list[int]) -> list[Base]:
        """The masks of the tokens that stay within a string; adds those that leave it, where the
        masks do not hold them."""
        leaf = self.leaves.of(*self._string(frame))
        state, parents = frame.state, frame.parents
        if leaf.after is None or parents is None:
            return [Base(leaf.inside)]
        if isinstance(state, at.InOtherKey):
            return self.names.in_other(leaf, state, parents)
        out += self._follow(leaf.after, parents)
        return [Base(leaf.whole)]

    def _end_string(self, frame: Frame, out: list[int]) -> None:
        """Adds the tokens that leave a string."""
        after = self.leaving(frame)
        state, parents = frame.state, frame.parents
        if after is None or parents is None:
            return
        if isinstance(state, at.InOtherKey):
            self.names.end_other(after, state, parents, out)
        else:
            out += after.tokens
            out += self._follow(after, parents)


_Making = tuple[tuple[tuple[int, tuple[int, ...]], ...], tuple[int, ...]]


class _Made(NamedTuple):
    """A mask, and those that it was made of."""

    mask: np.ndarray
    bases: list[Base]


def _less(mask: np.ndarray, tokens: Collection[int]) -> np.ndarray:
    """A mask without some tokens."""
    mask = mask.copy()
    clear_bits(mask, tokens)
    mask.flags.writeable = False
    return mask


def text_of(state: object) -> tuple[StringText, Within]:
    """The string that a state is in, and where."""
    if isinstance(state, at.InOtherKey):
        return state.automaton, state.at
    assert isinstance(state, at.InText)
    assert isinstance(state.text, StringText)
    assert isinstance(state.at, Within)
    return state.text, state.at
