"""The subset construction, with assertions and look-around.

A DFA state is a set of threads. Each thread is an NFA state and what it has promised about the rest
of the text: the states that the look-aheads it went through have reached. Look-behinds run beside,
from the start of the text, once for all threads. So a look-ahead becomes an intersection, a negated
one that with a complement, wherever in the expression they stand.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from agentrt.schema.charset import CharSet, chars
from agentrt.schema.limits import spend
from agentrt.schema.regex import classes, nfa
from agentrt.schema.regex.alphabet import Alphabet, alphabet
from agentrt.schema.regex.dfa import Dfa, Row, minimal
from agentrt.schema.regex.nodes import ANY_TEXT, At, Cat, Look, Node

Promises = frozenset[tuple[int, int]]
Thread = tuple[int, Promises]
_NONE: Promises = frozenset()


class _Place(NamedTuple):
    """What an assertion can see: None where the text begins or ends, else what the character is."""

    before: _Kind | None
    after: _Kind | None


class _Kind(NamedTuple):
    word: bool
    newline: bool


class _Core(NamedTuple):
    threads: frozenset[Thread]
    before: _Kind | None
    behinds: tuple[int, ...]


_LINE_GUARDS = {At.LINE_START, At.LINE_END}
_WORD_GUARDS = {At.WORD_BOUNDARY, At.NOT_WORD_BOUNDARY}


def _holds(at: At, place: _Place) -> bool:
    before, after = place
    if at is At.START:
        return before is None
    if at is At.END:
        return after is None
    if at is At.LINE_START:
        return before is None or before.newline
    if at is At.LINE_END:
        return after is None or after.newline
    boundary = (before is not None and before.word) != (after is not None and after.word)
    return boundary == (at is At.WORD_BOUNDARY)


class _Subsets:
    def __init__(self, node: Node) -> None:
        self.nfa = nfa.build(node)
        self.looks = [_look_automaton(look) for look in self.nfa.looks]
        self.behind = [i for i, look in enumerate(self.nfa.looks) if not look.ahead]
        self.sees_lines = bool(self.nfa.guards & _LINE_GUARDS)
        self.sees_words = bool(self.nfa.guards & _WORD_GUARDS)
        self.sees_start = At.START in self.nfa.guards or self.sees_lines or self.sees_words
        self.guarded = bool(self.nfa.guards or self.looks)
        self.universal = self._universal_state()
        self.alphabet = self._alphabet()
        self.samples = self.alphabet.samples()
        self.reading = self._reading()
        self.closures: dict[tuple[_Core, _Kind | None], list[Thread]] = {}
        self.plain: dict[int, tuple[int, ...]] = {}

    def _alphabet(self) -> Alphabet:
        sets: set[CharSet] = {read[0] for read in self.nfa.reads if read is not None}
        if self.sees_words:
            sets.add(classes.ASCII_WORD)
        if self.sees_lines:
            sets.add(chars("\n"))
        for look in self.looks:
            ends = (*look.alphabet.starts[1:], 0x110000)
            for cls in range(look.alphabet.size):
                spans = zip(look.alphabet.starts, ends, look.alphabet.classes, strict=True)
                sets.add(CharSet(tuple((lo, hi - 1) for lo, hi, c in spans if c == cls)))
        return alphabet(sets)

    def _reading(self) -> list[frozenset[int]]:
        """For each NFA state, the classes it reads."""
        known: dict[CharSet, frozenset[int]] = {}
        out: list[frozenset[int]] = []
        for read in self.nfa.reads:
            if read is None:
                out.append(frozenset())
                continue
            if read[0] not in known:
                known[read[0]] = frozenset(
                    c for c, sample in enumerate(self.samples) if sample in read[0]
                )
            out.append(known[read[0]])
        return out

    def _universal_state(self) -> int:
        """A state that loops over every character and may end: what reached it matches whatever
        follows, so the other threads no longer matter."""
        for q, read in enumerate(self.nfa.reads):
            if read is None or read[0].complement().intervals:
                continue
            loops = any(t == q for g, t in self.nfa.moves[read[1]] if g is None)
            back = loops or self._reaches(read[1], q)
            if back and self._reaches(read[1], self.nfa.end):
                return read[1]
        return -1

    def _reaches(self, start: int, goal: int) -> bool:
        seen, stack = {start}, [start]
        while stack:
            q = stack.pop()
            if q == goal:
                return True
            for guard, target in self.nfa.moves[q]:
                if guard is None and target not in seen:
                    seen.add(target)
                    stack.append(target)
        return False

    def kind(self, sample: int) -> _Kind:
        return _Kind(
            self.sees_words and sample in classes.ASCII_WORD, self.sees_lines and sample == 0x0A
        )

    def start(self) -> _Core:
        behinds = tuple(0 for _ in self.behind)
        return _Core(frozenset({(0, _NONE)}), None, behinds)

    def closure(self, core: _Core, after: _Kind | None) -> list[Thread]:
        """The threads, after every move that reads nothing and may be made here."""
        key = (core, after)
        known = self.closures.get(key)
        if known is not None:
            return known
        place = _Place(core.before, after)
        seen: set[Thread] = set(core.threads)
        stack = list(seen)
        while stack:
            q, promises = stack.pop()
            for guard, target in self.nfa.moves[q]:
                thread = self.through(guard, target, promises, place, core)
                if thread is not None and thread not in seen:
                    seen.add(thread)
                    stack.append(thread)
        self.closures[key] = found = list(seen)
        return found

    def through(
        self,
        guard: nfa.Guard | None,
        target: int,
        promises: Promises,
        place: _Place,
        core: _Core,
    ) -> Thread | None:
        if guard is None:
            return target, promises
        if isinstance(guard, At):
            return (target, promises) if _holds(guard, place) else None
        number, ahead = guard
        look = self.looks[number]
        if ahead:
            return target, promises | {(number, 0)}
        state = core.behinds[self.behind.index(number)]
        return (target, promises) if state in look.accepting else None

    def step(self, core: _Core, cls: int) -> _Core:
        sample = self.samples[cls]
        kind = self.kind(sample)
        after = kind if self.guarded else None
        threads: set[Thread] = set()
        for q, promises in self.closure(core, after):
            if cls not in self.reading[q]:
                continue
            read = self.nfa.reads[q]
            kept = self.kept(promises, sample)
            if read is not None and kept is not None:
                threads.add((read[1], kept))
        if (self.universal, _NONE) in threads:
            threads = {(self.universal, _NONE)}
        behinds = tuple(
            self.looks[n].step(s, sample) for n, s in zip(self.behind, core.behinds, strict=True)
        )
        before = kind if self.sees_start else None
        return _Core(frozenset(threads), before, behinds if threads else (0,) * len(behinds))

    def kept(self, promises: Promises, sample: int) -> Promises | None:
        """The promises after one more character; None if one is broken for good."""
        if not promises:
            return promises
        out: set[tuple[int, int]] = set()
        for number, state in promises:
            look = self.looks[number]
            following = look.step(state, sample)
            if following not in look.live:
                return None
            if not _forever(look, following):
                out.add((number, following))
        return frozenset(out)

    def accepts(self, core: _Core) -> bool:
        return any(
            q == self.nfa.end and all(s in self.looks[n].accepting for n, s in promises)
            for q, promises in self.closure(core, None)
        )


def _forever(look: Dfa, state: int) -> bool:
    return state in look.accepting and all(target == state for target in look.rows[state])


def _look_automaton(look: Look) -> Dfa:
    """Of the texts that may follow (a look-ahead) or precede (a look-behind) the place."""
    parts = (look.body, ANY_TEXT) if look.ahead else (ANY_TEXT, look.body)
    found = determinise(Cat(parts))
    return found.complement() if look.negated else found


@lru_cache(maxsize=1024)
def determinise(node: Node) -> Dfa:
    """The minimal automaton of the texts that the whole expression matches."""
    subsets = _Subsets(node)
    start = subsets.start()
    index: dict[_Core, int] = {start: 0}
    order = [start]
    rows: list[Row] = []
    for core in order:
        spend(1 + len(core.threads) // 8)
        rows.append(_row(subsets, core, index, order))
    accepting = [i for i, core in enumerate(order) if subsets.accepts(core)]
    return minimal(subsets.alphabet, rows, accepting)


def _row(subsets: _Subsets, core: _Core, index: dict[_Core, int], order: list[_Core]) -> Row:
    row: list[int] = []
    for cls in range(subsets.alphabet.size):
        target = subsets.step(core, cls)
        number = index.get(target)
        if number is None:
            number = index[target] = len(order)
            order.append(target)
        row.append(number)
    return tuple(row)
