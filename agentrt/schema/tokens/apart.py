"""Which tokens may write an item that was seen, in arrays whose items must differ.

What an array's items were so far is in its tape, and the mask of the same place without the tape
holds for every tape, but for tokens that end an item and begin another: nothing may be left that
the next can be. Mostly much is left whatever the items were, since what the token begins can become
endlessly many values. Only the tokens where that is not plain have to be tried along the tape.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentrt.schema.algebra.cardinality import surely
from agentrt.schema.algebra.objects import bits
from agentrt.schema.cache import Cache
from agentrt.schema.machine import states as at
from agentrt.schema.machine.texts import StringText
from agentrt.schema.tokens.bits import has_bit

if TYPE_CHECKING:
    import numpy as np

    from agentrt.schema.algebra.space import Expr
    from agentrt.schema.machine.frames import Configuration, Frame
    from agentrt.schema.machine.items import ArrayNode
    from agentrt.schema.machine.machine import Machine
    from agentrt.schema.tokens.vocabulary import Vocabulary

_MOST_KEPT = 4096
_DEEPEST = 2
_ARRAY, _OBJECT = 0x5B, 0x7B


class Apart:
    """Tells tokens that may write what was seen, for one machine over one vocabulary."""

    def __init__(self, machine: Machine, vocabulary: Vocabulary) -> None:
        self.machine = machine
        self.vocabulary = vocabulary
        self._hanging: Cache[int, list[int]] = Cache(_MOST_KEPT)
        self._clear: Cache[tuple[int, int], bool] = Cache(_MOST_KEPT)
        self._endless: Cache[tuple[Expr, int], bool] = Cache(_MOST_KEPT)

    def opening(self, place: Configuration) -> list[int]:
        """The tokens that may open an array and begin a second item in it."""
        inside = all(_in_json_string(at.bare(frame.state)) for frame in place.frames)
        where = "in an array that it opened" + (" after a string" if inside else "")
        return self.vocabulary.trie.two_items(where)

    def hanging(self, place: Configuration, mask: np.ndarray) -> list[int]:
        """The tokens of a mask that may hang on which items were seen: `place` is without a tape,
        and the mask is its."""
        found = self._hanging.get(place.number)
        if found is None:
            found = [
                token
                for token in self.vocabulary.trie.two_items(_where(place))
                if has_bit(mask, token) and not any(self._is_clear(f, token) for f in place.frames)
            ]
            self._hanging.keep(place.number, found)
        return found

    def _is_clear(self, frame: Frame, token: int) -> bool:
        """Whether a token may come after one frame alone, whatever items were seen."""
        key = frame.number, token
        found = self._clear.get(key)
        if found is None:
            found = self._clear.keep(key, self._runs_clear(frame, token))
        return found

    def _runs_clear(self, frame: Frame, token: int) -> bool:
        text = self.vocabulary.tokens[token] or b""
        _, _, after = text.partition(b",")
        if b"," in after or b"]" in after:
            return False  # the item that it begins may have ended, and need not be the last begun
        reached = self.machine.run(self.machine.store.configuration([frame]), text)
        return reached is not None and any(self._goes_on(f) for f in reached.frames)

    def _goes_on(self, frame: Frame) -> bool:
        """Whether a frame stands whatever items were seen, the last of which a token has just
        ended with the only comma in it."""
        state = at.bare(frame.state)
        if isinstance(state, at.InArray) and state.phase == "next":
            return not state.node.plan.unique or self._more_follow(state)
        return self._has_others(frame, endless=False)

    def _more_follow(self, state: at.InArray) -> bool:
        """Whether there is a next item, were one more seen."""
        plan = state.node.plan
        for way in plan.ways(state.position):
            counts, index = plan.after(state.counts, way), state.position + 1
            if (
                counts is not None
                and plan.completable(index, counts)
                and self._enough_left(state.node, index)
                and surely(self.machine.space, way.value, len(state.seen) + 2)
            ):
                return True
        return False

    def _has_others(self, frame: Frame, *, endless: bool) -> bool:
        """Whether the items that a frame is in can be others than those seen; `endless`: what it
        goes on after can become endlessly many values."""
        state, parents = at.bare(frame.state), frame.parents
        if parents is None:
            return True
        if isinstance(state, at.InArray) and state.phase == "after" and state.node.plan.unique:
            if not endless or not self._enough_left(state.node, state.position):
                return False
        elif not endless:
            endless = self._becomes_endless(state, parents)
        return any(self._has_others(parent, endless=endless) for parent in parents.frames)

    def _enough_left(self, node: ArrayNode, index: int) -> bool:
        """Whether as many items as must still come are plainly to be had, whatever was seen."""
        plan = node.plan
        if plan.contains:
            return False  # of those that count there may be few
        if index >= plan.lo or not plan.ways(index):
            return True
        value = plan.ways(index)[0].value
        return index >= plan.uniform_from and surely(self.machine.space, value, plan.lo)

    # -- values that can become endlessly many: False is no answer -------------------------------

    def _becomes_endless(self, state: object, parents: Configuration) -> bool:
        """Whether the value that a state is in, or the key, can."""
        if isinstance(state, at.InKnownKey | at.InOtherKey):
            objects = [frame.state for frame in parents.frames]
            return any(
                self._key_is_endless(state, each, _DEEPEST)
                for each in objects
                if isinstance(each, at.InObject)
            )
        if isinstance(state, at.InText):
            return isinstance(state.text, StringText) and state.text.strings.is_free
        if isinstance(state, at.Start | at.BeforeColon):
            return self._is_endless(state.value, _DEEPEST)
        return self._holds_endless(state, _DEEPEST)

    def _holds_endless(self, state: object, deep: int) -> bool:
        """Whether the array or object that a state is in can."""
        if isinstance(state, at.InArray):
            items = self.machine.items.next_items(state)
            return any(self._is_endless(value, deep) for value, _ in items)
        if isinstance(state, at.InObject) and state.phase != "key":
            keys = self.machine.members.keys(state)
            return any(self._key_is_endless(key, state, deep) for key in keys)
        return False

    def _key_is_endless(self, key: object, parent: at.InObject, deep: int) -> bool:
        members, plan = self.machine.members, parent.node.plan
        if isinstance(key, at.InOtherKey):
            value = plan.usable_classes[key.cls].value
            return key.automaton.strings.is_free or self._is_endless(value, deep)
        assert isinstance(key, at.InKnownKey)
        return any(
            self._is_endless(value, deep)
            for i in bits(key.at.allowed)
            for value, _ in members.after_known(parent, i)
        )

    def _is_endless(self, value: Expr, deep: int) -> bool:
        found = self._endless.get((value, deep))
        if found is None:
            strings = self.machine.space.normal(value).strings
            found = any(s.is_free and not s.is_empty for s in strings)
            if not found and deep:
                openings = self.machine.openings(value)
                begun = [*openings.get(_ARRAY, ()), *openings.get(_OBJECT, ())]
                found = any(self._holds_endless(state, deep - 1) for state in begun)
            self._endless.keep((value, deep), found)
        return found


def _where(place: Configuration) -> str:
    """Where a token stands, for what it has to hold before it begins another item."""
    states = [at.bare(frame.state) for frame in place.frames]
    if all(isinstance(s, at.InOtherKey | at.InKnownKey) for s in states):
        return "from within a key"
    if not all(_in_json_string(s) for s in states):
        return "anywhere"
    above = [f.parents.frames for f in place.frames if f.parents]
    apart = any(_tells_items_apart(f.state) for frames in above for f in frames)
    return "from within a string" + ("" if apart else " nested in the item")


def _in_json_string(state: object) -> bool:
    if isinstance(state, at.InText) and isinstance(state.text, StringText):
        return state.text.codec.json
    return isinstance(state, at.InOtherKey | at.InKnownKey)


def _tells_items_apart(state: object) -> bool:
    return isinstance(state, at.InArray) and state.node.plan.unique
