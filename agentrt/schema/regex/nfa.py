"""Thompson's construction: a syntax tree to an automaton with moves that read nothing.

A move that reads nothing may ask something of its place: an assertion of what is around it, or a
look-around, of which an automaton of its own is made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentrt.errors import SchemaTooLarge
from agentrt.schema.limits import current_pointer, spend
from agentrt.schema.regex.nodes import Alt, Assertion, At, Cat, Chars, Look, Node, Repeat

if TYPE_CHECKING:
    from agentrt.schema.charset import CharSet

MAX_STATES = 100_000

Guard = At | int
"""An assertion, or the number of a look-around."""


class Nfa:
    """`reads[q]` is the set read and where it leads; `moves[q]` the moves that read nothing."""

    def __init__(self) -> None:
        self.reads: list[tuple[CharSet, int] | None] = []
        self.moves: list[list[tuple[Guard | None, int]]] = []
        self.looks: dict[Look, int] = {}
        self.guards: set[At] = set()
        self.end = -1

    def new(self) -> int:
        spend()
        if len(self.reads) >= MAX_STATES:
            raise SchemaTooLarge(
                current_pointer(),
                f"the regex takes more than {MAX_STATES} automaton states",
                "use smaller counted repeats",
            )
        self.reads.append(None)
        self.moves.append([])
        return len(self.reads) - 1

    def add(self, node: Node, start: int) -> int:
        """Builds the node from `start` on; the state where it ends."""
        match node:
            case Chars(given):
                end = self.new()
                if self.reads[start] is not None or self.moves[start]:
                    start = self.branch(start)
                self.reads[start] = (given, end)
                return end
            case Cat(parts):
                for part in parts:
                    start = self.add(part, start)
                return start
            case Alt(parts):
                end = self.new()
                for part in parts:
                    self.join(self.add(part, self.branch(start)), end)
                return end
            case Repeat(body, lo, hi):
                return self.repeat(body, lo, hi, start)
            case Assertion(at):
                self.guards.add(at)
                return self.guarded(start, at)
            case Look():
                return self.guarded(start, self.looks.setdefault(node, len(self.looks)))

    def branch(self, start: int) -> int:
        fresh = self.new()
        self.join(start, fresh)
        return fresh

    def join(self, start: int, end: int) -> None:
        self.moves[start].append((None, end))

    def guarded(self, start: int, guard: Guard) -> int:
        end = self.new()
        self.moves[start].append((guard, end))
        return end

    def repeat(self, body: Node, lo: int, hi: int | None, start: int) -> int:
        for _ in range(lo):
            start = self.add(body, start)
        if hi is None:
            loop = self.branch(start)
            self.join(self.add(body, self.branch(loop)), loop)
            return self.branch(loop)
        end = self.new()
        for _ in range(hi - lo):
            self.join(start, end)
            start = self.add(body, self.branch(start))
        self.join(start, end)
        return end


def build(node: Node) -> Nfa:
    nfa = Nfa()
    nfa.end = nfa.add(node, nfa.new())
    return nfa
