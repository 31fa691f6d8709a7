"""Sets of strings: a regular language and a range of lengths, in code points.

The lengths stay numbers, so that `maxLength: 1000000` costs nothing; whether a text of an allowed
length can still be reached is asked of the automaton's lengths, which are periodic in the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING

from agentrt.schema.limits import spend
from agentrt.schema.regex.dfa import UNIVERSAL, Dfa
from agentrt.schema.regex.words import of_word, of_words

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator


_SETS_BITS = 1000
"""Of sets of states, as many bits as count for one state."""


@dataclass(frozen=True, slots=True)
class Strings:
    """The texts that the automaton (None: any) accepts, of `lo` to `hi` (None: any) characters."""

    dfa: Dfa | None = None
    lo: int = 0
    hi: int | None = None

    @property
    def is_everything(self) -> bool:
        return self.dfa is None and self.lo == 0 and self.hi is None

    @property
    def is_free(self) -> bool:
        """Whether every start of a text of the set can be continued in endlessly many ways."""
        return self.hi is None and (self.dfa is None or self.dfa.all_infinite)

    def intersection(self, other: Strings) -> Strings:
        dfa = _both(self.dfa, other.dfa)
        hi = self.hi if other.hi is None else other.hi
        if self.hi is not None and other.hi is not None:
            hi = min(self.hi, other.hi)
        return Strings(dfa, max(self.lo, other.lo), hi)

    def complement(self) -> list[Strings]:
        """What is not in the set, in disjoint parts."""
        out: list[Strings] = []
        if self.dfa is not None:
            out.append(Strings(_complement(self.dfa)))
        if self.lo > 0:
            out.append(Strings(self.dfa, 0, self.lo - 1))
        if self.hi is not None:
            out.append(Strings(self.dfa, self.hi + 1, None))
        return out

    @property
    def is_empty(self) -> bool:
        if self.hi is not None and self.hi < self.lo:
            return True
        if self.dfa is None:
            return False
        if self.lo == 0:
            return not self.dfa.ends_within(0, self.hi)
        return not lengths(self.dfa).reachable(0, self.lo, self.hi)

    def contains(self, text: str) -> bool:
        if len(text) < self.lo or (self.hi is not None and len(text) > self.hi):
            return False
        return self.dfa is None or self.dfa.matches(text)

    def count(self, limit: int) -> int:
        """How many texts there are, or `limit` if that many or more."""
        if self.is_empty:
            return 0
        dfa = self.dfa
        if dfa is None:
            return limit if self.hi != 0 else min(1, limit)
        if dfa.longest is None and (self.hi is None or self.hi > limit):
            return limit
        if self.lo or self.hi is not None:
            most = dfa.longest if self.hi is None else self.hi
            dfa = dfa.intersection(of_lengths(self.lo, most or 0))
        return dfa.count_words(limit)

    def words(self, limit: int) -> list[str] | None:
        """Every text of the set where there are at most `limit`, else None."""
        if self.dfa is None:
            return [""] if self.hi == 0 and self.lo == 0 else None
        dfa = self.dfa
        if dfa.longest is None:
            if self.hi is None or self.hi > limit:
                return None
            dfa = dfa.intersection(of_lengths(0, self.hi))
        if dfa.count_words(10 * limit + 1) > 10 * limit:
            return None
        found = [w for w in islice(dfa.words(), 10 * limit + 1) if self.contains(w)]
        return found if len(found) <= limit else None


EVERY_STRING = Strings()


def words(texts: Collection[str]) -> Strings:
    return _word(*texts) if len(texts) == 1 else Strings(of_words(texts))


@lru_cache(maxsize=4096)
def _word(text: str) -> Strings:
    """Of one text alone: where items must differ, those of the ones so far come again and again."""
    return Strings(of_word(text))


@lru_cache(maxsize=4096)
def _both(a: Dfa | None, b: Dfa | None) -> Dfa | None:
    if a is None or a == b:
        return b
    if b is None:
        return a
    return a.intersection(b)


@lru_cache(maxsize=4096)
def _complement(dfa: Dfa) -> Dfa:
    return dfa.complement()


def of_lengths(lo: int, hi: int) -> Dfa:
    """The automaton of the texts of lo to hi characters."""
    rows = [(min(i + 1, hi + 1),) for i in range(hi + 2)]
    spend(hi)
    return Dfa(UNIVERSAL.alphabet, tuple(rows), frozenset(range(lo, hi + 1)))


class Lengths:
    """From which states of an automaton a text of n more characters is accepted.

    `layers[n]` has bit q set where state q accepts some text of exactly n characters. Each layer
    follows from the one before, so that they repeat from `loop` on.
    """

    def __init__(self, dfa: Dfa) -> None:
        states = len(dfa.rows)
        spend(states * states // _SETS_BITS)
        self.sources = [0] * states
        for q in range(states):
            for target in dfa.targets(q):
                self.sources[target] |= 1 << q
        layer = 0
        for q in dfa.accepting:
            layer |= 1 << q
        self.layers: list[int] = []
        seen: dict[int, int] = {}
        while layer not in seen:
            spend()
            seen[layer] = len(self.layers)
            self.layers.append(layer)
            layer = self._before(layer)
        self.loop = seen[layer]
        self.known: dict[tuple[int, int | None], int] = {}

    def _before(self, layer: int) -> int:
        out = 0
        for q in _bits(layer):
            out |= self.sources[q]
        return out

    def within(self, lo: int, hi: int | None) -> int:
        """The states, one bit each, that accept a text of lo to hi more characters."""
        lo = max(lo, 0)
        key = (lo, hi)
        found = self.known.get(key)
        if found is not None:
            return found
        period = len(self.layers) - self.loop
        if lo >= len(self.layers):
            shift = (lo - self.loop) // period * period
            lo, hi = lo - shift, None if hi is None else hi - shift
        last = len(self.layers) + period if hi is None else min(hi, len(self.layers) + period)
        out = 0
        for n in range(lo, last + 1):
            out |= self.layers[n if n < len(self.layers) else self.loop + (n - self.loop) % period]
        self.known[key] = out
        return out

    def reachable(self, state: int, lo: int, hi: int | None) -> bool:
        return bool(self.within(lo, hi) >> state & 1)


def _bits(number: int) -> Iterator[int]:
    while number:
        low = number & -number
        yield low.bit_length() - 1
        number ^= low


@lru_cache(maxsize=4096)
def lengths(dfa: Dfa) -> Lengths:
    return Lengths(dfa)
