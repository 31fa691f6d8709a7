"""Masks inside strings: which tokens stay within one, and which leave it.

A string's mask is nearly the whole vocabulary, but depends on the string's own state alone; only
what follows the closing quote depends on where the string stands. So the first part is worked out
once for each DFA state, for all tokens at once, and the second is a small tree of what tokens hold
after a quote. Bounds on the length only choose among the tokens by how much room each needs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np

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
_K = TypeVar("_K")
_V = TypeVar("_V")


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
    room for, for token t to stay within it (uint16). `closed` are the places in the tree of bytes
    after a closing quote, with the number of characters before it."""

    needs: np.ndarray
    most: int
    closed: list[tuple[int, Node]]


class Leaves:
    """Works out the leaves of a vocabulary, and keeps them: all its grammars share them."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self.trie = vocabulary.trie
        self._special: dict[Flags, SpecialTokens] = {}
        self._tables: dict[Dfa, Table] = {}
        self._swept: dict[tuple[Dfa, int, Flags], _Swept] = {}
        self._leaves: dict[tuple[Dfa, int, Flags, int, int | None], Leaf] = {}

    def of(self, text: StringText, state: Within) -> Leaf:
        """The leaf of a state between two characters."""
        dfa = text.dfa or UNIVERSAL
        if dfa.is_free_from(state.dfa):
            dfa, state = UNIVERSAL, state._replace(dfa=0)
        key = (dfa, state.dfa, _flags(text.codec), state.lo, state.hi)
        found = self._leaves.get(key)
        if found is None:
            found = self._leaf(text, dfa, state)
            _keep(self._leaves, key, found, _MOST_KEPT)
        return found

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
        last = swept.most if hi is None else hi
        after = self.trie.merged(node for read, node in swept.closed if lo <= read <= last)
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
            found = self._sweep(dfa, start, codec)
            _keep(self._swept, key, found, _MOST_SWEPT)
        return found

    def _table(self, dfa: Dfa) -> Table:
        found = self._tables.get(dfa)
        if found is None:
            found = Table(dfa)
            _keep(self._tables, dfa, found, _MOST_TABLES)
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
        closed = [(int(depth[n]), node) for n, node in special.closed if at[n] in dfa.accepting]
        short = np.minimum(needs, _NEVER).astype(np.uint16)
        # one more than _NEVER is nothing
        most = max([int((short + np.uint16(1)).max()) - 1, *(read for read, _ in closed)])
        return _Swept(short, most, closed)

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


def _keep(kept: dict[_K, _V], key: _K, value: _V, most: int) -> None:
    if len(kept) >= most:
        kept.clear()
    kept[key] = value


def _flags(codec: Codec) -> Flags:
    return codec.json, codec.ascii_only, codec.plain


def _bits(mask: int, size: int) -> np.ndarray:
    """The lowest bits of an integer."""
    octets = (mask & (1 << size) - 1).to_bytes(size // 8 + 1, "little")
    return np.unpackbits(np.frombuffer(octets, np.uint8), bitorder="little")[:size].astype(bool)
