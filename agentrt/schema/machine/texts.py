"""Automata over bytes for the values that hold no others: strings, numbers, literals.

Each has a start, steps from byte to byte (None: not allowed), and says whether it may end. From
every state that a step gives, the text can be completed.
"""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, NamedTuple, Protocol

from agentrt.schema.machine.codec import CLOSE, Codec, Pending
from agentrt.schema.values.strings import Strings, lengths

if TYPE_CHECKING:
    from agentrt.schema.regex.alphabet import Alphabet


class TextAutomaton(Protocol):
    """`closed` is the state after which nothing may follow, for those that have one."""

    def step(self, state: object, byte: int) -> object | None: ...
    def may_end(self, state: object) -> bool: ...
    def is_closed(self, state: object) -> bool: ...


class Within(NamedTuple):
    """In a string: the DFA state, the least and most characters to follow, the one begun."""

    dfa: int
    lo: int
    hi: int | None
    pending: Pending | None


_FEW = 24
_PLAIN = frozenset(range(0x20, 0x7F)) - frozenset(b'"\\')
"""The bytes that are a character of their own, however a text is written."""
_CLOSED = Within(-1, 0, 0, None)


@lru_cache(maxsize=1024)
def _first_bytes(symbols: Alphabet) -> tuple[frozenset[int] | None, ...]:
    """The first bytes of each class of characters; None where they are many."""
    out: list[set[int] | None] = [set() for _ in range(symbols.size)]
    ends = (*symbols.starts[1:], 0x110000)
    for lo, hi, cls in zip(symbols.starts, ends, symbols.classes, strict=True):
        found = out[cls]
        if hi - lo > _FEW or found is None:
            out[cls] = None
            continue
        found |= {chr(cp).encode("utf-8", "surrogatepass")[0] for cp in range(lo, hi)}
    return tuple(None if s is None else frozenset(s) for s in out)


class StringText:
    """The texts of a set of strings, after the opening quote (or, raw, from the start)."""

    def __init__(self, strings: Strings, codec: Codec) -> None:
        self.strings = strings
        self.codec = codec
        self.dfa = strings.dfa
        self.lengths = None
        if self.dfa is not None and strings.lo > 0:
            self.lengths = lengths(self.dfa)
        self._unbounded = self.dfa is not None and strings.lo == 0 and strings.hi is None
        self._places: dict[int, Within | None] = {}
        self._few: dict[int, frozenset[int] | None] = {}
        self._classes: dict[tuple[int, int, int | None], frozenset[int]] = {}

    def start(self) -> Within:
        return Within(0, self.strings.lo, self.strings.hi, None)

    def is_closed(self, state: object) -> bool:
        return state is _CLOSED

    def may_end(self, state: object) -> bool:
        assert isinstance(state, Within)
        if self.codec.json:
            return state is _CLOSED
        return self._complete(state)

    def _complete(self, state: Within) -> bool:
        if state.lo > 0 or state.pending is not None:
            return False
        return self.dfa is None or state.dfa in self.dfa.accepting

    def step(self, state: object, byte: int) -> Within | None:
        assert isinstance(state, Within)
        if self._unbounded and byte in _PLAIN and state.pending is None and state is not _CLOSED:
            assert self.dfa is not None
            return self._place(self.dfa.step(state.dfa, byte))
        found = self.codec.step(state.pending, byte)
        if found is None or state is _CLOSED:
            return None
        if isinstance(found, Pending):
            within = Within(state.dfa, state.lo, state.hi, found)
            return within if self._can_become(within) else None
        if found == CLOSE:
            return _CLOSED if self._complete(state) else None
        return self.after(state, found)

    def covers(self, state: Within) -> bool:
        """Whether every text stays within the string, from between two characters."""
        if state.hi is not None or state.pending is not None:
            return False
        return self.dfa is None or self.dfa.is_free_from(state.dfa)

    def few(self, state: Within) -> frozenset[int] | None:
        """The bytes that may come next, between characters; None where they are many."""
        if self.dfa is None:
            return None
        if state.dfa not in self._few:
            self._few[state.dfa] = self._first_bytes(state.dfa)
        return self._few[state.dfa]

    @cached_property
    def _first(self) -> tuple[frozenset[int] | None, ...]:
        assert self.dfa is not None
        return _first_bytes(self.dfa.alphabet)

    def _first_bytes(self, state: int) -> frozenset[int] | None:
        dfa = self.dfa
        assert dfa is not None
        first = self._first
        out: set[int] = {0x22, 0x5C} if self.codec.json else set()
        for cls, target in enumerate(dfa.rows[state]):
            if target in dfa.live:
                some = first[cls]
                if some is None or (len(out) > _FEW and not dfa.is_sparse):
                    return None
                out |= some
        return frozenset(out)

    def after(self, state: Within, code_point: int) -> Within | None:
        """The state after one more character."""
        if self._unbounded and self.dfa is not None:
            return self._place(self.dfa.step(state.dfa, code_point))
        lo, hi = max(state.lo - 1, 0), None if state.hi is None else state.hi - 1
        if hi is not None and hi < lo:
            return None
        if self.dfa is None:
            return Within(0, lo, hi, None)
        target = self.dfa.step(state.dfa, code_point)
        return Within(target, lo, hi, None) if self._alive(target, lo, hi) else None

    def _place(self, target: int) -> Within | None:
        """Between two characters, at a state of the automaton, where no bound matters."""
        try:
            return self._places[target]
        except KeyError:
            assert self.dfa is not None
            found = Within(target, 0, None, None) if target in self.dfa.live else None
            self._places[target] = found
            return found

    def _alive(self, target: int, lo: int, hi: int | None) -> bool:
        assert self.dfa is not None
        if lo == 0 or self.lengths is None:
            return self.dfa.ends_within(target, hi)
        return self.lengths.reachable(target, lo, hi)

    def _can_become(self, state: Within) -> bool:
        if state.hi is not None and state.hi < 1:
            return False
        if self.dfa is None:
            return True
        key = (state.dfa, state.lo, state.hi)
        allowed = self._classes.get(key)
        if allowed is None:
            lo, hi = max(state.lo - 1, 0), None if state.hi is None else state.hi - 1
            row = self.dfa.rows[state.dfa]
            allowed = frozenset(c for c, t in enumerate(row) if self._alive(t, lo, hi))
            self._classes[key] = allowed
        assert state.pending is not None
        symbols = self.dfa.alphabet
        return any(
            not allowed.isdisjoint(symbols.classes_within(a, b)) for a, b in state.pending.ranges
        )


class LiteralText:
    """One text exactly; states count the bytes read."""

    def __init__(self, text: bytes) -> None:
        self.text = text

    def step(self, state: object, byte: int) -> int | None:
        assert isinstance(state, int)
        matches = state < len(self.text) and self.text[state] == byte
        return state + 1 if matches else None

    def may_end(self, state: object) -> bool:
        return state == len(self.text)

    def is_closed(self, state: object) -> bool:
        return state == len(self.text)
