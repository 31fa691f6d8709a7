"""Masks under a budget: only tokens from which the text can still be completed in time."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from agentrt.schema.algebra.emptiness import is_empty
from agentrt.schema.cache import Cache
from agentrt.schema.machine import states as at
from agentrt.schema.machine.abstract import Abstraction
from agentrt.schema.machine.closing import Closing
from agentrt.schema.machine.digits import NumberText
from agentrt.schema.machine.shortest import shortest_text
from agentrt.schema.machine.texts import StringText, Within
from agentrt.schema.prepare import children
from agentrt.schema.tokens.bits import pack, set_bits, tokens_of
from agentrt.schema.tokens.costs import TOO_DEAR, Costs
from agentrt.schema.tokens.masks import text_of
from agentrt.schema.tokens.reach import (
    longest_end,
    longest_number,
    names_avoided,
    written_name,
)
from agentrt.schema.tokens.walk import onward

if TYPE_CHECKING:
    from agentrt.schema.machine.frames import Configuration, Frame
    from agentrt.schema.machine.machine import Machine
    from agentrt.schema.tokens.masks import Masks
    from agentrt.schema.tokens.trie import Node
    from agentrt.schema.tokens.vocabulary import Vocabulary

_MOST_KEPT = 50_000
_MOST_PRICED = 512
_MOST_STAYING = 64


class _Staying(NamedTuple):
    """Tokens that stay within a string, and which of `ends` is its shortest after each of them."""

    tokens: np.ndarray
    which: np.ndarray
    ends: list[bytes | None]


class _Prices(NamedTuple):
    """What completing the text costs after each token, very much where it is not allowed; and the
    most that it costs after one that is."""

    after: np.ndarray
    dearest: int


class Budget:
    """Knows what completing costs, in tokens."""

    def __init__(self, machine: Machine, vocabulary: Vocabulary, masks: Masks) -> None:
        self.machine = machine
        self.vocabulary = vocabulary
        self.masks = masks
        self.closing = Closing(machine)
        self._costs = Costs(vocabulary)
        self._nameless = Abstraction(machine, None)
        self._known: Cache[int, _Prices] = Cache(_MOST_PRICED)
        self._stayings: Cache[tuple[StringText, Within], _Staying] = Cache(_MOST_STAYING)
        self._reaches: Cache[int, int] = Cache(_MOST_KEPT)
        self._avoided: Cache[int, int] = Cache(_MOST_KEPT)

    def plan(self, configuration: Configuration) -> list[int]:
        """The tokens of a short way to complete the text; none where there is none."""
        ways = self.closing.each(configuration)
        best = min(ways, key=lambda way: self._costs.of(way[0]) + way[1], default=(b"", 0))
        return self.vocabulary.segment(self.closing.completion(configuration, best[0]) or b"")

    def cost(self, configuration: Configuration) -> int:
        """How many tokens completing the text takes; very many where no short way is known."""
        return self._cost(b"", configuration)

    def _cost(self, end: bytes | None, rest: Configuration) -> int:
        """How many tokens the end of a value takes, and what completes the text after it."""
        if end is None:
            return TOO_DEAR
        ways = self.closing.each(rest)
        return min((self._costs.of(end + text) + doubt for text, doubt in ways), default=TOO_DEAR)

    @cached_property
    def _dearest(self) -> int:
        """The most tokens that something opened can need to be closed: its bytes."""
        space, root = self.machine.space, self.machine.root
        dearest, seen, frontier = 8, {root}, [root]
        while frontier:
            expr = frontier.pop()
            if is_empty(space, expr):
                continue
            values = space.normal(expr)
            keys = [written_name(name) for shape in values.objects for name, _ in shape.named]
            keys += [longest_end(names) for shape in values.objects for names, _ in shape.rest]
            texts = [longest_end(strings) for strings in values.strings]
            numbers = [longest_number(self.machine.number(n)) for n in values.numbers]
            dearest = max([dearest, *keys, *texts, *numbers])
            # what is begun already, as the root is, is not opened again unless it is in itself
            for child in children(values):
                dearest = max(dearest, len(self.closing.value(child) or b""))
                if child not in seen:
                    seen.add(child)
                    frontier.append(child)
        return dearest

    @cached_property
    def _most_reach(self) -> int:
        """The most tokens that any token can add to the cost."""
        return self._reach(int(self.vocabulary.openings[0].max(initial=0)))

    def _reach(self, opened: int) -> int:
        """The most tokens that one which opens so many values and keys can add to the cost: each,
        and what it stands in, needs at most so many bytes to be closed."""
        return (opened + 1) * (2 * self._dearest + 8)

    def _reach_of(self, configuration: Configuration, whole: np.ndarray) -> int:
        """The most tokens that one of a mask can add to the cost."""
        found = self._reaches.get(configuration.number)
        if found is None:
            found = self._reach_from(configuration, whole)
            self._reaches.keep(configuration.number, found)
        return found

    def _reach_from(self, configuration: Configuration, whole: np.ndarray) -> int:
        frames = configuration.frames
        in_string = all(self.masks.is_string(frame.state) for frame in frames)
        if in_string and all(not _is_json(frame.state) for frame in frames):
            return self._dearest
        opened = self.vocabulary.openings[in_string][tokens_of(whole)]
        return self._reach(int(opened.max(initial=0)))

    def mask(self, configuration: Configuration, tokens_left: int) -> np.ndarray | None:
        """The mask with so many tokens left; None where no token leaves time to complete."""
        whole = self.masks.of(configuration)
        to_spare = tokens_left - 1 - self.cost(configuration)
        if to_spare >= self._most_reach:
            return whole
        limit = tokens_left - 1
        priced = configuration
        if configuration.tape is None:
            priced = self._nameless.of(configuration)
            if priced is not configuration:
                limit -= self._avoiding(configuration)
            priced = self._boundless(priced)
        prices = self._known.get(priced.number)
        if prices is None:
            if to_spare >= self._reach_of(configuration, whole):
                return whole
            prices = self._known.keep(priced.number, self._prices(priced))
        if prices.dearest <= limit:
            return whole
        mask = pack(prices.after <= limit) & whole
        if self.machine.may_end(configuration):
            set_bits(mask, [*self.vocabulary.eos_ids])
        return mask if mask.any() else None

    def _avoiding(self, configuration: Configuration) -> int:
        """The most tokens that names taken already can add to what completing costs."""
        found = self._avoided.get(configuration.number)
        if found is None:
            found = max(
                names_avoided(frame) + (self._avoiding(frame.parents) if frame.parents else 0)
                for frame in configuration.frames
            )
            self._avoided.keep(configuration.number, found)
        return found

    def _boundless(self, configuration: Configuration) -> Configuration:
        """The same without the most characters of the string it is in: what lies beyond them is
        not in the mask, and what does not costs the same. Of several readings another may allow
        it, and at another price: those stay as they are."""
        if len(configuration.frames) != 1:
            return configuration
        (frame,) = configuration.frames
        return self.machine.store.configuration([self._boundless_frame(frame)])

    def _boundless_frame(self, frame: Frame) -> Frame:
        state, parents = frame.state, frame.parents
        if not isinstance(state, at.InText | at.InOtherKey) or not isinstance(state.at, Within):
            return frame
        if state.at.hi is None or parents is None:
            return frame
        return self.machine.store.frame(state._replace(at=state.at._replace(hi=None)), parents)

    def _prices(self, configuration: Configuration) -> _Prices:
        prices = np.full(self.vocabulary.size, TOO_DEAR, dtype=np.int32)
        others: list[Frame] = []
        for frame in configuration.frames:
            if self.masks.is_string(frame.state):
                self._in_string(frame, configuration, prices)
            else:
                others.append(frame)
        if others:
            rest = self.machine.store.configuration(others, configuration.tape)
            tokens = tokens_of(self.masks.of(rest))
            if len(configuration.frames) == 1 and _is_unquoted(others[0].state):
                self._in_unquoted(others[0], prices)
                tokens = tokens[prices[tokens] == TOO_DEAR]
            self._one_by_one(rest, tokens, prices)
        allowed = tokens_of(self.masks.of(configuration))
        return _Prices(prices, int(prices[allowed].max(initial=0)))

    def _in_unquoted(self, frame: Frame, prices: np.ndarray) -> None:
        """Prices the tokens that stay within a number. Of digits there may be a thousand, which
        begin alike: so they are read along their tree."""
        state, parents = frame.state, frame.parents
        assert isinstance(state, at.InText)
        assert parents is not None
        stack = [(self.vocabulary.trie.root, state.at)]
        while stack:
            node, within = stack.pop()
            for child, following in onward(node, state.text, within):
                if child.tokens:
                    end = shortest_text(state.text, following)
                    prices[[*child.tokens]] = self._cost(end, parents)
                if child.children:
                    stack.append((child, following))

    def _in_string(self, frame: Frame, configuration: Configuration, prices: np.ndarray) -> None:
        """Tokens that stay within the string are priced by what ends it after them; those that
        leave it by what they hold after the quote."""
        staying, after = self._staying(frame), self._after_string(frame)
        costs = np.array([self._cost(end, after) for end in staying.ends], dtype=np.int32)
        prices[staying.tokens] = np.minimum(prices[staying.tokens], costs[staying.which])
        alone = self.machine.store.configuration([frame], configuration.tape)
        mask = np.zeros(self.vocabulary.size, dtype=bool)
        mask[tokens_of(self.masks.of(alone))] = True
        mask[staying.tokens] = False
        # items on a tape are told apart by what they say
        if configuration.tape is None:
            mask[self._leaving(frame, after, prices)] = False
        self._one_by_one(alone, np.flatnonzero(mask), prices)

    def _after_string(self, frame: Frame) -> Configuration:
        """Where the closing quote of the string that a frame is in leads: after a key not known it
        is the same whatever the name."""
        state, parents = frame.state, frame.parents
        assert parents is not None
        if isinstance(state, at.InOtherKey):
            nameless = state._replace(text=None)
            keyed = self.machine.members.close_other_key(nameless, parents)
            return self.machine.store.configuration(keyed)
        return parents

    def _staying(self, frame: Frame) -> _Staying:
        """The tokens that stay within the string that a frame is in, whatever it stands in."""
        text, within = text_of(frame.state)
        found = self._stayings.get((text, within))
        if found is None:
            plain, states, read = self.masks.places(frame)
            if within.lo == 0 and within.hi is None:
                read = np.zeros_like(read)  # how many they read does not matter
            places, which = np.unique(states << 32 | read, return_inverse=True)
            ends = [
                shortest_text(text, _moved(within, place >> 32, place & 0xFFFF))
                for place in places.tolist()
            ]
            special = self._special_ends(text, within)
            index = {end: i for i, end in enumerate(dict.fromkeys((*ends, *special.values())))}
            which = [np.array([index[e] for e in ends], dtype=np.int64)[which],
                     np.array([index[e] for e in special.values()], dtype=np.int64)]  # fmt: skip
            tokens = np.concatenate((plain, np.array([*special], dtype=np.int64)))
            found = _Staying(tokens, np.concatenate(which), [*index])
            self._stayings.keep((text, within), found)
        return found

    def _special_ends(self, text: StringText, within: Within) -> dict[int, bytes | None]:
        """What ends a string after each token that stays within it with escapes, or with a part of
        a character at its end."""
        found: dict[int, bytes | None] = {}
        ends: dict[object, bytes | None] = {}
        stack: list[tuple[Node, object]] = [(self.vocabulary.trie.special, within)]
        while stack:
            node, reached = stack.pop()
            for child, following in onward(node, text, reached):
                if text.is_closed(following):
                    continue
                if child.tokens and following not in ends:
                    ends[following] = shortest_text(text, following)
                found.update(dict.fromkeys(child.tokens, ends.get(following)))
                stack.append((child, following))
        return found

    def _leaving(self, frame: Frame, after: Configuration, prices: np.ndarray) -> list[int]:
        """Prices the tokens that leave a string; which they are. What is left is the same whatever
        they hold before the quote."""
        node = self.masks.leaving(frame)
        found: list[int] = []
        stack = [] if node is None else [(node, after)]
        while stack:
            node, reached = stack.pop()
            if node.tokens:
                tokens = [*node.tokens]
                prices[tokens] = np.minimum(prices[tokens], self.cost(reached))
                found += tokens
            for byte, child in node.children.items():
                following = self.machine.step(reached, byte)
                if following is not None:
                    stack.append((child, following))
        return found

    def _one_by_one(
        self, configuration: Configuration, tokens: np.ndarray, prices: np.ndarray
    ) -> None:
        for token in tokens.tolist():
            text = self.vocabulary.tokens[token]
            reached = None if text is None else self.machine.run(configuration, text)
            if reached is not None:
                prices[token] = min(prices[token], self.cost(reached))


def _moved(within: Within, dfa: int, read: int) -> Within:
    """The place after so many more characters that lead to this state of the automaton."""
    hi = None if within.hi is None else within.hi - read
    return Within(dfa, max(within.lo - read, 0), hi, None)


def _is_unquoted(state: object) -> bool:
    """Whether the state is in a number, or a plain text: nothing that follows one goes on alike."""
    if not isinstance(state, at.InText):
        return False
    text = state.text
    return isinstance(text, NumberText) or (isinstance(text, StringText) and not text.codec.json)


def _is_json(state: object) -> bool:
    """Whether what a string is followed by is JSON, and not the end of a plain text."""
    text = state.text if isinstance(state, at.InText) else None
    return not (isinstance(text, StringText) and not text.codec.json)
