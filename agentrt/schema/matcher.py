"""Follows one generation through a grammar (the protocol is `agentrt.matching.Matcher`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from agentrt.matching import Allowed, Forced

if TYPE_CHECKING:
    from agentrt.schema.grammar import Grammar
    from agentrt.schema.machine.frames import Configuration


class GrammarMatcher:
    """Where one text stands. Configurations never change, so that going back is dropping the last.

    `jump`: whether text that can only be one thing is reported as Forced.
    """

    def __init__(self, grammar: Grammar, *, jump: bool = True) -> None:
        self.grammar = grammar
        self.jump = jump
        self._engine = grammar.engine
        self._path: list[Configuration] = [grammar.engine.machine.start]
        self._tokens: list[int] = []
        self._ended = False
        self._plan: list[int] = []

    def __repr__(self) -> str:
        state = "finished" if self.is_finished else "complete" if self.is_complete else "open"
        return f"<GrammarMatcher {len(self._tokens)} tokens, {state}>"

    def next(self, tokens_left: int | None = None) -> Forced | Allowed:
        if self._ended:
            return Allowed(self._engine.end_mask)
        current = self._path[-1]
        if self.jump:
            forced = self._engine.jumps.of(current)
            if forced and (tokens_left is None or self._leaves_time(forced, tokens_left)):
                return Forced(forced)
        if tokens_left is None:
            return Allowed(self._engine.masks.of(current))
        return Allowed(self._budgeted(current, tokens_left))

    def _leaves_time(self, forced: tuple[int, ...], tokens_left: int) -> bool:
        reached: Configuration | None = self._path[-1]
        for token in forced:
            reached = self._step(reached, token)
        assert reached is not None
        return len(forced) + self._engine.budget.cost(reached) <= tokens_left

    def _budgeted(self, current: Configuration, tokens_left: int) -> np.ndarray:
        budget = self._engine.budget
        mask = budget.mask(current, tokens_left)
        if mask is not None:
            return mask
        # what is shortest in bytes need not be in tokens: once on a way that fits, stay on it
        if not self._plan:
            self._plan = budget.plan(current)
        only = np.zeros(self._engine.vocabulary.words, dtype=np.uint32)
        if self._plan:
            only[self._plan[0] >> 5] = np.uint32(1 << (self._plan[0] & 31))
        return only

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
            self._path.append(reached)
        self._tokens.append(token_id)
        self._plan = self._plan[1:] if self._plan[:1] == [token_id] else []

    def rollback(self, tokens: int) -> None:
        if not 0 <= tokens <= len(self._tokens):
            raise ValueError(f"{tokens} tokens to take back, {len(self._tokens)} accepted")
        if tokens:
            del self._path[-tokens:]
            del self._tokens[-tokens:]
            self._ended = False
            self._plan = []

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
