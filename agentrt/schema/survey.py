"""What a grammar is like: how many states it has, the shortest text, how much of that is forced."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from agentrt.matching import Forced

if TYPE_CHECKING:
    from agentrt.schema.grammar import Grammar
    from agentrt.schema.machine.frames import Configuration


@dataclass(frozen=True, slots=True)
class Survey:
    """`states` were found from the start; `is_whole` says that there are no others.

    `shortest` is a short text of the grammar, `tokens` what it takes, and `forced` how many of
    those the model is not asked for.
    """

    states: int
    is_whole: bool
    shortest: str
    tokens: int
    forced: int


def survey(grammar: Grammar, *, most_states: int = 2_000) -> Survey:
    """Looks a grammar over; needs one with a vocabulary.

    States are those of the automaton over bytes, where whatever may follow is the same; they are
    made as they are reached, and a schema that counts or nests has more than can be listed.
    """
    states, is_whole = _states(grammar, most_states)
    matcher = grammar.matcher()
    forced = 0
    while not matcher.is_complete:
        following = matcher.next()
        if isinstance(following, Forced):
            matcher.rollback(following.rollback)
            tokens = following.token_ids
            forced += len(tokens) - following.rollback
        else:
            tokens = matcher.shortest_close[:1]
        for token in tokens:
            matcher.accept(token)
    text = matcher.text.decode(errors="replace")
    return Survey(states, is_whole, text, len(matcher.token_ids), forced)


def _states(grammar: Grammar, most: int) -> tuple[int, bool]:
    machine = grammar.engine.machine
    seen: set[Configuration] = {machine.start}
    waiting = [machine.start]
    while waiting:
        current = waiting.pop()
        for byte in range(256):
            reached = machine.step(current, byte)
            if reached is not None and reached not in seen:
                if len(seen) >= most:
                    return len(seen), False
                seen.add(reached)
                waiting.append(reached)
    return len(seen), True
