"""Masks inside strings: which tokens stay within one, and which leave it.

A string's mask is nearly the whole vocabulary, but depends on the string's own state alone; only
what follows the closing quote depends on where the string stands. So the first part is worked out
once for each state, vectorised over the plain tokens, and the second is a small tree of what tokens
hold after a quote.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from agentrt.schema.tokens.trie import Node, Trie, merged
from agentrt.schema.tokens.vocabulary import Vocabulary, pack

if TYPE_CHECKING:
    from agentrt.schema.machine.texts import StringText, Within
    from agentrt.schema.regex.alphabet import Alphabet

_MOST_KEPT = 2048


@dataclass(frozen=True, slots=True)
class Leaf:
    """`inside`: the packed mask of tokens that stay within. `after`: what tokens go on with after
    the closing quote; its own tokens end with the quote. `plain`, `states`, `read`: the plain
    tokens among those inside, the DFA state and the number of characters each leads to.
    """

    inside: np.ndarray
    after: Node
    plain: np.ndarray
    states: np.ndarray
    read: np.ndarray


class Leaves:
    """Works out the leaves of a vocabulary, and keeps them."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self.trie: Trie = vocabulary.trie
        self._known: dict[tuple[StringText, Within], Leaf] = {}
        self._classes: dict[Alphabet, np.ndarray] = {}

    def of(self, text: StringText, state: Within) -> Leaf:
        """The leaf of a state between two characters."""
        found = self._known.get((text, state))
        if found is None:
            if len(self._known) > _MOST_KEPT:
                self._known.clear()
            found = self._known[text, state] = self._leaf(text, state)
        return found

    def _leaf(self, text: StringText, state: Within) -> Leaf:
        allowed = np.zeros(self.vocabulary.size, dtype=bool)
        plain = self.trie.plain
        rows = states = np.zeros(0, dtype=np.int64)
        root = self.trie.special
        if text.codec.ascii_only or text.codec.json is False:
            # byte by byte, for texts that are not JSON's usual strings
            root = self.trie.root
        elif text.dfa is None:
            last = plain.longest if state.hi is None else min(state.hi, plain.longest)
            rows = np.arange(plain.from_length[last])
            states = np.zeros(len(rows), dtype=np.int64)
        else:
            rows, states = self._sweep(text, state)
        allowed[plain.numbers[rows]] = True
        closed: list[Node] = []
        stack: list[tuple[Node, Within]] = [(root, state)]
        while stack:
            node, within = stack.pop()
            for byte, child in node.children.items():
                following = text.step(within, byte)
                if following is None:
                    continue
                if text.is_closed(following):
                    closed.append(child)
                    continue
                if child.tokens:
                    allowed[list(child.tokens)] = True
                stack.append((child, following))
        numbers, read = plain.numbers[rows], plain.lengths[rows]
        return Leaf(pack(allowed), merged(closed), numbers, states, read)

    def _sweep(self, text: StringText, state: Within) -> tuple[np.ndarray, np.ndarray]:
        """Runs the automaton over all plain tokens at once, character by character: the rows of
        those that stay within the string, and the states that they lead to."""
        dfa, plain = text.dfa, self.trie.plain
        assert dfa is not None
        table = np.array(dfa.rows, dtype=np.int32)
        live = np.zeros(len(dfa.rows), dtype=bool)
        live[list(dfa.live)] = True
        classes = self._classes_of(dfa.alphabet)
        active = np.arange(len(plain.numbers))
        at = np.full(len(active), state.dfa, dtype=np.int32)
        rows: list[np.ndarray] = []
        states: list[np.ndarray] = []
        for j in range(plain.longest):
            if state.hi is not None and j >= state.hi:
                break
            at = table[at, classes[plain.symbols[j, active]]]
            kept = live[at]
            active, at = active[kept], at[kept]
            ended = plain.lengths[active] == j + 1
            done = self._alive(text, state, j + 1, live)
            stays = ended & done[at]
            rows.append(active[stays])
            states.append(at[stays])
            going = ~ended
            active, at = active[going], at[going]
            if not len(active):
                break
        if not rows:
            return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        return np.concatenate(rows), np.concatenate(states).astype(np.int64)

    def _alive(self, text: StringText, state: Within, read: int, live: np.ndarray) -> np.ndarray:
        """The DFA states from which the string can end, so many characters on."""
        if text.lengths is None:
            return live
        hi = None if state.hi is None else state.hi - read
        mask = text.lengths.within(max(state.lo - read, 0), hi)
        bits = np.frombuffer(mask.to_bytes(len(live) // 8 + 1, "little"), dtype=np.uint8)
        return np.unpackbits(bits, bitorder="little")[: len(live)].astype(bool)

    def _classes_of(self, symbols: Alphabet) -> np.ndarray:
        found = self._classes.get(symbols)
        if found is None:
            starts = np.array(symbols.starts, dtype=np.int64)
            at = np.searchsorted(starts, self.trie.plain.alphabet, side="right") - 1
            found = np.array(symbols.classes, dtype=np.int32)[at]
            self._classes[symbols] = found
        return found
