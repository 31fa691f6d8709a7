"""What a grammar is like, in figures: for people, and for choosing a budget."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agentrt.schema.grammar import Grammar
    from agentrt.schema.machine.frames import Configuration


@dataclass(frozen=True, slots=True)
class GrammarStats:
    """Figures of one grammar.

    `shortest` is a short text that matches; `min_tokens` what it takes, `forced_tokens` those of
    it that jump-forward writes. The others grow with use: `places` that texts have come to, object
    and array shapes met, automata of strings with their states, masks in memory with their bytes.
    """

    kind: str
    vocabulary: int
    shortest: str
    min_tokens: int
    forced_tokens: int
    shortest_tokens: int
    places: int
    objects: int
    arrays: int
    automata: int
    automaton_states: int
    masks: int
    mask_bytes: int

    @property
    def forced_share(self) -> float:
        """Of the tokens of the shortest text as it would be generated, the share that is forced."""
        return self.forced_tokens / self.shortest_tokens if self.shortest_tokens else 0.0


def statistics(grammar: Grammar) -> GrammarStats:
    """The figures of a grammar as it stands. Raises ValueError without a vocabulary, SchemaTooLarge
    as `Grammar.min_tokens` does."""
    engine = grammar.engine
    machine, masks = engine.machine, engine.masks
    min_tokens, shortest = grammar.min_tokens, engine.budget.closing.of(machine.start) or b""
    forced, written = forced_tokens(grammar, shortest)
    kept = masks.kept
    return GrammarStats(
        kind=grammar.source.kind,
        vocabulary=engine.vocabulary.size,
        shortest=shortest.decode(errors="replace"),
        min_tokens=min_tokens,
        forced_tokens=forced,
        shortest_tokens=written,
        **machine.sizes(),
        masks=len(kept),
        mask_bytes=sum(mask.nbytes for mask in kept),
    )


def count_states(grammar: Grammar, most: int = 2_000) -> tuple[int, bool]:
    """How many states the automaton over bytes has, and whether that is all of them.

    States where whatever may follow is the same are one; they are made as they are reached, and a
    schema that counts or nests has more than can be listed.
    """
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


def forced_tokens(grammar: Grammar, text: bytes) -> tuple[int, int]:
    """Of the tokens of a text that matches, those that jump-forward writes; and how many there are.

    The model is taken to choose what it is expected to, and where the text is free the tokenizer's
    own next token. Raises ValueError for a text that does not match.
    """
    engine = grammar.engine
    current, at, forced, written = engine.machine.start, 0, 0, 0
    while at < len(text):
        ids = engine.jumps.of(current)
        forced += len(ids)
        ids = ids or tuple(engine.vocabulary.tokenise(text[at:])[:1])
        written += len(ids)
        piece = engine.vocabulary.spelled(ids)
        following = engine.machine.run(current, piece)
        if following is None or not text.startswith(piece, at):
            raise ValueError(f"{text!r:.80} does not match at byte {at}")
        current, at = following, at + len(piece)
    return forced, written
