"""What a thread has promised about the rest of the text: that automata accept it.

A look-ahead becomes an intersection so, a negated one that with a complement, wherever in the
expression they stand.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from agentrt.schema.limits import spend
from agentrt.schema.regex.dfa import Dfa

if TYPE_CHECKING:
    from collections.abc import Iterable

Promises = frozenset[tuple[Dfa, int]]
"""Automata, and the state that each has reached."""
NONE: Promises = frozenset()


def promise(dfa: Dfa, state: int) -> tuple[Promises, ...]:
    """That the rest is accepted from a state: nothing to promise where all are, no way where none
    is."""
    if state not in dfa.live:
        return ()
    return (NONE,) if dfa.is_free_from(state) else (frozenset({(dfa, state)}),)


def after_reading(promises: Promises, code_point: int) -> Promises | None:
    """The promises after one more character; None if one is broken for good."""
    if not promises:
        return promises
    out: list[Promises] = []
    for dfa, state in promises:
        kept = promise(dfa, dfa.step(state, code_point))
        if not kept:
            return None
        out += kept
    return NONE.union(*out)


def none_of(given: Iterable[Promises]) -> tuple[Promises, ...]:
    """The ways to break at least one promise of each."""
    ways = {NONE}
    for promises in given:
        broken = [way for dfa, state in promises for way in promise(_complement(dfa), state)]
        spend(len(ways) * len(broken))
        ways = {way | more for way in ways for more in broken}
    return tuple(ways)


@lru_cache(maxsize=1024)
def _complement(dfa: Dfa) -> Dfa:
    return dfa.complement()
