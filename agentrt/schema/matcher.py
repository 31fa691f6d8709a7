"""Follows one generation through a grammar (the protocol is `agentrt.matching.Matcher`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from agentrt.matching import Allowed
from agentrt.schema.tokens.bits import set_bits
from agentrt.schema.tokens.jump import CUTS

if TYPE_CHECKING:
    from agentrt.schema.grammar import Grammar
    from agentrt.schema.machine.frames import Configuration


class GrammarMatcher:
    """Where one text stands. Configurations never change, so that going back is dropping the last.

    `jump`: whether the tokens of text that can only be one thing are told ahead, as likely.
    """

    def __init__(self, grammar: Grammar, *, jump: bool = True) -> None:
        self.grammar = grammar
        self.jump = jump
        self._engine = grammar.engine
        self._path: list[Configuration] = [grammar.engine.machine.start]
        self._tokens: list[int] = []
        self._ended = False
        self._plans: list[tuple[int, ...]] = [()]
        self._cuts = CUTS

    def __repr__(self) -> str:
        state = "finished" if self.is_finished else "complete" if self.is_complete else "open"
        return f"<GrammarMatcher {len(self._tokens)} tokens, {state}>"

    def next(self, tokens_left: int | None = None) -> Allowed:
        if self._ended:
            return Allowed(self._engine.end_mask)
        current = self._path[-1]
        likely = self._engine.jumps.of(current, self._cuts) if self.jump else ()
        if tokens_left is None:
            return Allowed(self._engine.masks.of(current), likely)
        mask = self._engine.budget.mask(current, tokens_left)
        if mask is not None:
            return Allowed(mask, likely)
        # what is shortest in bytes need not be in tokens: once on a way that fits, stay on it
        plan = self._plans[-1] or tuple(self._engine.budget.plan(current))
        self._plans[-1] = plan
        only = np.zeros(self._engine.vocabulary.words, dtype=np.uint32)
        set_bits(only, [*plan[:1]])
        return Allowed(only, plan if self.jump else ())

    def _step(self, current: Configuration | None, token: int) -> Configuration | None:
        vocabulary = self._engine.vocabulary
        text = vocabulary.tokens[token] if 0 <= token < vocabulary.size else None
        if current is None or text is None:
            return None
        return self._engine.machine.run(current, text)

    def accept(self, token_id: int) -> None:
        if self._ended:
            raise ValueError(f"token {token_id} follows the end of the text")
        if token_id in self._engine.vocabulary.eos_ids:
            if not self.is_complete:
                raise ValueError(f"end token {token_id} before the text is complete")
            self._ended = True
            self._path.append(self._path[-1])
        else:
            reached = self._step(self._path[-1], token_id)
            if reached is None:
                raise ValueError(
                    f"token {token_id} is not allowed after {len(self._tokens)} tokens"
                )
            self._learn(token_id)
            self._path.append(reached)
        self._tokens.append(token_id)
        plan = self._plans[-1]
        self._plans.append(plan[1:] if plan[:1] == (token_id,) else ())

    def _learn(self, token_id: int) -> None:
        """Notes where the model cuts text that can only be one thing."""
        if self.jump:
            likely = self._engine.jumps.of(self._path[-1], self._cuts)
            if likely and likely[0] != token_id:
                self._cuts = self._engine.jumps.learnt(self._cuts, likely[0], token_id)

    def rollback(self, tokens: int) -> None:
        if not 0 <= tokens <= len(self._tokens):
            raise ValueError(f"{tokens} tokens to take back, {len(self._tokens)} accepted")
        if tokens:
            del self._path[-tokens:]
            del self._tokens[-tokens:]
            del self._plans[-tokens:]
            self._ended = False

    @property
    def token_ids(self) -> tuple[int, ...]:
        """The tokens accepted so far."""
        return tuple(self._tokens)

    @property
    def text(self) -> bytes:
        """The text so far, end tokens left out."""
        return self._engine.vocabulary.spelled(self._tokens)

    @property
    def is_complete(self) -> bool:
        return self._engine.machine.may_end(self._path[-1])

    @property
    def is_finished(self) -> bool:
        if self._ended:
            return True
        current = self._path[-1]
        return self.is_complete and self._engine.machine.is_done(current)

    @property
    def shortest_close(self) -> tuple[int, ...]:
        """The tokens of a short way to complete the text."""
        return tuple(self._engine.budget.plan(self._path[-1]))
