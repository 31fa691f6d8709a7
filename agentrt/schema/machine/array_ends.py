"""A short way to end an array."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from agentrt.schema.algebra import consts
from agentrt.schema.algebra.different import unlike
from agentrt.schema.cache import Cache
from agentrt.schema.machine.shortest import LONGEST, by_length

if TYPE_CHECKING:
    from agentrt.schema.machine import states as at
    from agentrt.schema.machine.closing import Closing

_MOST_KEPT = 4096
_MOST_STEPS_KEPT = 1024


class ArrayEnds:
    """Ends arrays, for a closing."""

    def __init__(self, closing: Closing) -> None:
        self.closing = closing
        self.machine = closing.machine
        self._known: Cache[at.InArray, tuple[bytes | None, at.InArray]] = Cache(_MOST_KEPT)
        self._steps: Cache[at.InArray, tuple[bytes, at.InArray]] = Cache(_MOST_STEPS_KEPT)

    def of(self, state: at.InArray) -> bytes | None:
        """What ends an array, the item begun being none of those that then come."""
        return self._ended(state)[0]

    def doubt(self, state: at.InArray) -> int:
        """The tokens that may come beyond those of what `of` has: where items must differ and the
        one begun is one of those to come, another takes its place, and none of it need be as cheap.
        """
        if not state.unread or self._may_end(state):
            return 0
        text, last = self._ended(state)
        return 0 if text is None else len(text) + len(self._longest(last)) + 1

    def _ended(self, state: at.InArray) -> tuple[bytes | None, at.InArray]:
        """What ends an array, and the state before its end. What the item begun will be is not
        known: it is taken for something that leaves enough to come."""
        if not state.unread or self._may_end(state):
            return self._end(state)
        found = self._known.get(state)
        if found is None:
            begun = [self._seeing(state, text) for text in self._ways(state, state.position - 1)]
            ends = (self._end(each) for each in [*begun, state])
            found = next((end for end in ends if end[0] is not None), (None, state))
            if not self.closing.is_within:
                self._known.keep(state, found)
        return found

    def _end(self, state: at.InArray) -> tuple[bytes | None, at.InArray]:
        """What ends an array, and the state before its end."""
        parts, size = list[bytes](), 2 * (state.node.plan.lo - state.position)
        while not self._may_end(state):
            best = self._best_different(state) if state.node.plan.unique else self._best_item(state)
            if best is None:
                return None, state
            text, following = best
            again, following = self._repeated(state, following)
            size += (len(text) - 1) * (1 + again)
            if size > LONGEST:
                return None, state
            first = self.closing.comma + text if state.phase == "after" else text
            parts += [first, *[self.closing.comma + text] * again]
            state = following
        return b"".join((*parts, b"]")), state

    @staticmethod
    def _may_end(state: at.InArray) -> bool:
        return state.phase != "next" and state.node.plan.may_end(state.position, state.counts)

    def _best_different(self, state: at.InArray) -> tuple[bytes, at.InArray] | None:
        """The best item where they must differ, and the state with it seen. Kept: the ends from
        what follows one another in a text go on alike."""
        place = state._replace(phase="after", unread=False)
        found = self._steps.get(place)
        if found is None:
            best = self._best_item(state)
            if best is None:
                return None
            found = best[0], self._seeing(best[1], best[0])
            if not self.closing.is_within:
                self._steps.keep(place, found)
        return found

    def _best_item(self, state: at.InArray) -> tuple[bytes, at.InArray] | None:
        """One that is counted where such are still needed, else the shortest; and the state after
        it."""
        plan = state.node.plan
        ways = [
            (
                sum(a > b for a, b in zip(following.counts, state.counts, strict=True)),
                text,
                following,
            )
            for value, following in self.machine.items.next_items(state)
            if (text := self.closing.value(value)) is not None
        ]
        if not plan.satisfied(state.counts):
            most = max((progress for progress, _, _ in ways), default=0)
            # no other item brings one nearer that matches, unless a place does
            if not most and state.position >= plan.uniform_from:
                return None
            ways = [way for way in ways if way[0] == most]
        if not ways:
            return None
        _, text, following = min(ways, key=lambda way: (len(way[1]), way[1]))
        return text, following

    def _repeated(self, state: at.InArray, following: at.InArray) -> tuple[int, at.InArray]:
        """How often the best item comes again, and the state after that: as long as no rule that it
        counts for has enough, or nothing but their number is short, no other becomes better."""
        plan, counts = state.node.plan, following.counts
        if plan.unique or following.position <= plan.uniform_from:
            return 0, following
        added = [after - n for after, n in zip(counts, state.counts, strict=True)]
        short = [
            rule.lo - after
            for rule, after, one in zip(plan.contains, counts, added, strict=True)
            if one and after <= rule.lo
        ]
        if any(added) and not short:
            return 0, following
        again = min(short) if short else max(0, plan.lo - following.position)
        counts = tuple(n + again * one for n, one in zip(counts, added, strict=True))
        position = following.position + again
        if plan.hi is None:
            position = min(position, state.node.uniform_from + 1)
        is_over = any(
            rule.hi is not None and n > rule.hi
            for rule, n in zip(plan.contains, counts, strict=True)
        )
        if is_over or not plan.completable(position, counts):
            return 0, following
        return again, following._replace(position=position, counts=counts)

    def _longest(self, state: at.InArray) -> bytes:
        """Of the ways for one more item to be, that whose shortest is longest."""
        return max(self._ways(state, state.position), key=len, default=b"")

    def _ways(self, state: at.InArray, position: int) -> list[bytes]:
        """Of each way for an item to be there, the shortest that was not seen."""
        space, plan = self.machine.space, state.node.plan
        values = (unlike(space, way.value, state.seen) for way in plan.ways(position))
        texts = [text for value in values if (text := self.closing.value(value)) is not None]
        return sorted(texts, key=by_length)

    def _seeing(self, state: at.InArray, text: bytes) -> at.InArray:
        """The state with an item among those that were seen."""
        value = consts.one_of(self.machine.space, [json.loads(text)], "")
        return state._replace(seen=tuple(sorted({*state.seen, value})), unread=False)
