"""Masks inside strings: which tokens stay within one, and which leave it.

A string's mask is nearly the whole vocabulary, but depends on the string's own state alone; only
what follows the closing quote depends on where the string stands. So the first part is worked out
once for each DFA state, for all tokens at once, and the second is a small tree of what tokens hold
after a quote. Bounds on the length only choose among the tokens by how much room each needs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from agentrt.schema.cache import Cache
from agentrt.schema.regex.dfa import UNIVERSAL
from agentrt.schema.tokens.bits import pack
from agentrt.schema.tokens.spelling import FAR, SpecialTokens, Table

if TYPE_CHECKING:
    from agentrt.schema.machine.codec import Codec
    from agentrt.schema.machine.texts import StringText, Within
    from agentrt.schema.regex.dfa import Dfa
    from agentrt.schema.tokens.trie import Node
    from agentrt.schema.tokens.vocabulary import Vocabulary

_MOST_KEPT = 4096
_MOST_SWEPT = 256
_MOST_TABLES = 64
_NEVER = np.iinfo(np.uint16).max

Flags = tuple[bool, bool, bool]


@dataclass(frozen=True, slots=True, eq=False)
class Leaf:
    """`inside`: the packed mask of tokens that stay within; `whole`: and of those that end with the
    closing quote. `after`: what tokens go on with after it, None for nothing. Compared by identity.
    """

    inside: np.ndarray
    whole: np.ndarray
    after: Node | None


@dataclass(frozen=True, slots=True)
class _Swept:
    """What tokens do from one DFA state. `needs[t]` is how many more characters a string must have
    room for, for token t to stay within it (uint16); `most` the most that any needs."""

    needs: np.ndarray
    most: int


_Place = tuple["Dfa", int, Flags]


class Leaves:
    """Works out the leaves of a vocabulary, and keeps them: all its grammars share them."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self.trie = vocabulary.trie
        self._special: dict[Flags, SpecialTokens] = {}
        self._tables: Cache[Dfa, Table] = Cache(_MOST_TABLES)
        self._swept: Cache[_Place, _Swept] = Cache(_MOST_SWEPT)
        self._closings: Cache[_Place, np.ndarray] = Cache(_MOST_KEPT)
        self._afters: Cache[tuple[Flags, bytes], Node | None] = Cache(_MOST_KEPT)
        self._leaves: Cache[tuple[Dfa, int, Flags, int, int | None], Leaf] = Cache(_MOST_KEPT)

    def of(self, text: StringText, state: Within) -> Leaf:
        """The leaf of a state between two characters."""
        dfa, state = _standing(text, state)
        key = (dfa, state.dfa, _flags(text.codec), state.lo, state.hi)
        found = self._leaves.get(key)
        if found is None:
            found = self._leaves.keep(key, self._leaf(text, dfa, state))
        return found

    def after(self, text: StringText, state: Within) -> Node | None:
        """What tokens that leave the string go on with after its closing quote, None for none."""
        dfa, state = _standing(text, state)
        return self._after(dfa, state, text.codec)

    def _after(self, dfa: Dfa, state: Within, codec: Codec) -> Node | None:
        special, closed = self._special_of(codec), self._closed(dfa, state.dfa, codec)
        if state.lo or state.hi is not None:
            read = special.closing.depth[special.closing.ends]
            closed = closed & (read >= state.lo) & (read <= (FAR if state.hi is None else state.hi))
        key = _flags(codec), closed.tobytes()
        try:
            return self._afters[key]
        except KeyError:
            nodes = [special.closed[i] for i in np.flatnonzero(closed)]
            return self._afters.keep(key, self.trie.merged(nodes))

    def places(self, text: StringText, state: Within) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The plain tokens that stay within, the DFA state that each leads to, and the number of
        its characters (int64 each)."""
        plain = self.trie.plain
        inside = np.unpackbits(self.of(text, state).inside.view(np.uint8), bitorder="little")
        tokens = plain.numbers[inside[plain.numbers].astype(bool)]
        nodes = plain.ends[tokens]
        at = plain.tree.sweep(self._table(text.dfa or UNIVERSAL), state.dfa)
        return tokens, at[nodes], plain.tree.depth[nodes]

    def _leaf(self, text: StringText, dfa: Dfa, state: Within) -> Leaf:
        swept, lo, hi = self._sweep_of(dfa, state.dfa, text.codec), state.lo, state.hi
        if lo == 0 or dfa.is_universal or (hi is None and dfa.all_infinite):
            allowed = swept.needs <= (swept.most if hi is None else min(hi, swept.most))
        else:
            allowed = self._by_lengths(text, dfa, state)
        after = self._after(dfa, state, text.codec)
        inside = whole = pack(allowed)
        if after is not None and after.tokens:
            allowed[list(after.tokens)] = True
            whole = pack(allowed)
        inside.flags.writeable = whole.flags.writeable = False
        return Leaf(inside, whole, after)

    # -- from one DFA state, whatever the bounds -------------------------------------------------

    def _sweep_of(self, dfa: Dfa, start: int, codec: Codec) -> _Swept:
        key = (dfa, start, _flags(codec))
        found = self._swept.get(key)
        if found is None:
            found = self._swept.keep(key, self._sweep(dfa, start, codec))
        return found

    def _table(self, dfa: Dfa) -> Table:
        found = self._tables.get(dfa)
        if found is None:
            found = self._tables.keep(dfa, Table(dfa))
        return found

    def _special_of(self, codec: Codec) -> SpecialTokens:
        found = self._special.get(_flags(codec))
        if found is None:
            found = self._special[_flags(codec)] = SpecialTokens(self.trie.special, codec)
        return found

    def _sweep(self, dfa: Dfa, start: int, codec: Codec) -> _Swept:
        table, plain, special = self._table(dfa), self.trie.plain, self._special_of(codec)
        left, depth = table.left, special.tree.depth
        needs = left.take(plain.tree.sweep(table, start).take(plain.ends))
        needs += plain.depth
        if codec.ascii_only:
            needs[plain.numbers[~plain.ascii]] = FAR
        at = special.tree.sweep(table, start)
        needs[special.numbers] = (depth + left[at])[special.ends]
        places, which = table.begun(special)
        if places:
            rooms = [
                depth[end] + 1 + min(left[dfa.rows[at[end]][c]] for c in classes)
                for end, classes in places
            ]
            needs[special.partial_tokens] = np.array(rooms)[which]
        short = np.minimum(needs, _NEVER).astype(np.uint16)
        # one more than _NEVER is nothing
        return _Swept(short, max(int((short + np.uint16(1)).max()) - 1, 0))

    def _closed(self, dfa: Dfa, start: int, codec: Codec) -> np.ndarray:
        """Of each way that tokens close a string, whether the text may end there (bool)."""
        key = (dfa, start, _flags(codec))
        found = self._closings.get(key)
        if found is None:
            table, tree = self._table(dfa), self._special_of(codec).closing
            at = tree.sweep(table, start)
            found = self._closings.keep(key, table.accepting[at[tree.ends]])
        return found

    # -- where the bounds say which DFA states will do -------------------------------------------

    def _by_lengths(self, text: StringText, dfa: Dfa, state: Within) -> np.ndarray:
        """For each token, whether it stays within: whether the number of characters that it leaves
        can be had from where it leads."""
        plain, special, table = (
            self.trie.plain,
            self._special_of(text.codec),
            self._table(dfa),
        )
        assert text.lengths is not None
        deepest = max(len(plain.tree.levels), len(special.tree.levels))
        alive = np.zeros((deepest + 1, len(dfa.rows)), dtype=bool)
        for read in range(deepest + 1 if state.hi is None else min(deepest, state.hi) + 1):
            hi = None if state.hi is None else state.hi - read
            alive[read] = _bits(text.lengths.within(state.lo - read, hi), len(dfa.rows))
        allowed = np.zeros(self.vocabulary.size, dtype=bool)
        at = plain.tree.sweep(table, state.dfa)
        nodes = plain.tree.ends
        allowed[plain.numbers] = alive[plain.tree.depth[nodes], at[nodes]]
        if text.codec.ascii_only:
            allowed[plain.numbers[~plain.ascii]] = False
        at = special.tree.sweep(table, state.dfa)
        allowed[special.numbers] = alive[special.tree.depth, at][special.ends]
        places, which = table.begun(special)
        if places:
            good = [
                any(alive[special.tree.depth[end] + 1, dfa.rows[at[end]][c]] for c in classes)
                for end, classes in places
            ]
            allowed[special.partial_tokens] = np.array(good)[which]
        return allowed


def _standing(text: StringText, state: Within) -> tuple[Dfa, Within]:
    """The automaton of a string and the place in it: of all texts, where any may follow."""
    dfa = text.dfa
    if dfa is None:
        return UNIVERSAL, state
    return (UNIVERSAL, state._replace(dfa=0)) if dfa.is_free_from(state.dfa) else (dfa, state)


def _flags(codec: Codec) -> Flags:
    return codec.json, codec.ascii_only, codec.plain


def _bits(mask: int, size: int) -> np.ndarray:
    """The lowest bits of an integer."""
    octets = (mask & (1 << size) - 1).to_bytes(size // 8 + 1, "little")
    return np.unpackbits(np.frombuffer(octets, np.uint8), bitorder="little")[:size].astype(bool)
