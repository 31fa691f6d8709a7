"""The subset construction, with assertions.

A DFA state is a set of threads. Each thread is an NFA state and what it has promised about the rest
of the text: the states that the automata of look-aheads it went through have reached. Look-behinds
run beside, from the start of the text, once for all threads. A look-around asks a place in the
midst of the text, and what is inside it may look at both sides of that place again.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from agentrt.schema.limits import spend
from agentrt.schema.regex import nfa
from agentrt.schema.regex.dfa import Dfa, Row, minimal
from agentrt.schema.regex.nodes import ANY_TEXT, At, Cat, Look, Node
from agentrt.schema.regex.places import SEES_BEFORE, Kind, Place, Symbols, holds
from agentrt.schema.regex.promises import NONE, Promises, after_reading, none_of, promise

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentrt.schema.charset import CharSet

_Thread = tuple[int, Promises]


class _Core(NamedTuple):
    """What is known between two characters: `before` where that matters, and the state of each
    look-behind."""

    threads: frozenset[_Thread]
    before: Kind | None
    behinds: tuple[int, ...]


class _Subsets:
    def __init__(self, node: Node, symbols: Symbols) -> None:
        self.symbols = symbols
        self.nfa = nfa.build(node)
        self.behinds: list[_Behind] = []
        # a look-ahead starts in the midst of the text: what its own look-behinds have seen until
        # then is followed here
        self.looks: list[tuple[_Ahead | _Behind, slice]] = []
        for given in self.nfa.looks:
            look = _Ahead(given, symbols) if given.ahead else _Behind(given, symbols)
            first = len(self.behinds)
            self.behinds += look.behinds
            self.looks.append((look, slice(first, len(self.behinds))))
        self.sees_before = bool(self.nfa.guards & SEES_BEFORE) or any(
            look.sees_before for look, _ in self.looks
        )
        self.guarded = bool(self.nfa.guards or self.looks)
        self.universal = self._universal_state()
        self.reading = self._reading()
        self.closures: dict[tuple[_Core, Kind | None], list[_Thread]] = {}

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
                    c for c, sample in enumerate(self.symbols.samples) if sample in read[0]
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

    def start(self, before: Kind | None = None, behinds: tuple[int, ...] | None = None) -> _Core:
        """Where the text begins, or at a place in it."""
        if behinds is None:
            behinds = (0,) * len(self.behinds)
        return _Core(frozenset({(0, NONE)}), before if self.sees_before else None, behinds)

    def closure(self, core: _Core, after: Kind | None) -> list[_Thread]:
        """The threads, after every move that reads nothing and may be made here."""
        key = (core, after if self.guarded else None)
        known = self.closures.get(key)
        if known is not None:
            return known
        place = Place(core.before, after)
        seen: set[_Thread] = set(core.threads)
        stack = list(seen)
        while stack:
            q, promises = stack.pop()
            for guard, target in self.nfa.moves[q]:
                for more in self.through(guard, place, core.behinds):
                    thread = target, promises | more
                    if thread not in seen:
                        seen.add(thread)
                        stack.append(thread)
        self.closures[key] = found = list(seen)
        return found

    def through(
        self, guard: nfa.Guard | None, place: Place, behinds: tuple[int, ...]
    ) -> tuple[Promises, ...]:
        """What is to be promised to pass a guard here, each a way to pass it; none: it is shut."""
        if guard is None:
            return (NONE,)
        if isinstance(guard, At):
            return (NONE,) if holds(guard, place) else ()
        look, own = self.looks[guard]
        return look.ways(place, behinds[own])

    def step(self, core: _Core, cls: int) -> _Core:
        sample, kind = self.symbols.samples[cls], self.symbols.kinds[cls]
        threads: set[_Thread] = set()
        for q, promises in self.closure(core, kind):
            if cls not in self.reading[q]:
                continue
            read = self.nfa.reads[q]
            kept = after_reading(promises, sample)
            if read is not None and kept is not None:
                threads.add((read[1], kept))
        if (self.universal, NONE) in threads:
            threads = {(self.universal, NONE)}
        behinds = (0,) * len(self.behinds)
        if threads:
            paired = zip(self.behinds, core.behinds, strict=True)
            behinds = tuple(behind.step(state, cls) for behind, state in paired)
        return _Core(frozenset(threads), kind if self.sees_before else None, behinds)

    def ends(self, core: _Core, after: Kind | None) -> Iterator[Promises]:
        """What the threads that end here have promised."""
        return (promises for q, promises in self.closure(core, after) if q == self.nfa.end)

    def accepts(self, core: _Core) -> bool:
        return any(
            all(state in dfa.accepting for dfa, state in promises)
            for promises in self.ends(core, None)
        )


class _Ahead:
    """An automaton for each that can be known of a place: the kind of character before, and how
    far the look-behinds inside have come."""

    def __init__(self, look: Look, symbols: Symbols) -> None:
        self.negated = look.negated
        self.subsets = _Subsets(Cat((look.body, ANY_TEXT)), symbols)
        self.behinds = self.subsets.behinds
        self.sees_before = self.subsets.sees_before
        self.known: dict[_Core, Dfa] = {}

    def ways(self, place: Place, behinds: tuple[int, ...]) -> tuple[Promises, ...]:
        """What to promise so that it holds here, each a way; none: it cannot hold."""
        start = self.subsets.start(place.before, behinds)
        dfa = self.known.get(start)
        if dfa is None:
            found = _automaton(self.subsets, start)
            dfa = self.known[start] = found.complement() if self.negated else found
        return promise(dfa, 0)


class _Behind:
    """Runs from the start of the text; what follows the place is known only while it is asked, and
    its own look-aheads go on as promises of whoever asks.

    Its states are numbered as they are found; 0 is where the text begins.
    """

    sees_before = False  # it has run from where the text begins, and knows what it read

    def __init__(self, look: Look, symbols: Symbols) -> None:
        self.negated = look.negated
        self.subsets = _Subsets(Cat((ANY_TEXT, look.body)), symbols)
        self.behinds = [self]
        self.cores = [self.subsets.start()]
        self.numbers = {self.cores[0]: 0}
        self.steps: dict[tuple[int, int], int] = {}
        self.asked: dict[tuple[int, Kind | None], tuple[Promises, ...]] = {}

    def step(self, state: int, cls: int) -> int:
        known = self.steps.get((state, cls))
        if known is not None:
            return known
        core = self.subsets.step(self.cores[state], cls)
        number = self.numbers.setdefault(core, len(self.cores))
        if number == len(self.cores):
            spend(1 + len(core.threads) // 8)
            self.cores.append(core)
        self.steps[state, cls] = number
        return number

    def ways(self, place: Place, behinds: tuple[int, ...]) -> tuple[Promises, ...]:
        """What to promise so that it holds here, each a way; none: it cannot hold."""
        key = (behinds[0], place.after)
        known = self.asked.get(key)
        if known is None:
            ends = set(self.subsets.ends(self.cores[behinds[0]], place.after))
            found = (NONE,) if NONE in ends else tuple(ends)
            known = self.asked[key] = none_of(found) if self.negated else found
        return known


@lru_cache(maxsize=1024)
def determinise(node: Node) -> Dfa:
    """The minimal automaton of the texts that the whole expression matches."""
    subsets = _Subsets(node, Symbols(node))
    return _automaton(subsets, subsets.start())


def _automaton(subsets: _Subsets, start: _Core) -> Dfa:
    """Of the rests of a text that are matched from a place in it."""
    index: dict[_Core, int] = {start: 0}
    order = [start]
    rows: list[Row] = []
    for core in order:
        spend(1 + len(core.threads) // 8)
        rows.append(_row(subsets, core, index, order))
    accepting = [i for i, core in enumerate(order) if subsets.accepts(core)]
    return minimal(subsets.symbols.alphabet, rows, accepting)


def _row(subsets: _Subsets, core: _Core, index: dict[_Core, int], order: list[_Core]) -> Row:
    row: list[int] = []
    for cls in range(subsets.symbols.alphabet.size):
        target = subsets.step(core, cls)
        number = index.get(target)
        if number is None:
            number = index[target] = len(order)
            order.append(target)
        row.append(number)
    return tuple(row)
