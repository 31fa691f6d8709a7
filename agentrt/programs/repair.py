"""Field repair: of a rejected answer, what stands before the bad field is kept.

Pydantic's own validators can refuse a value that is valid JSON of the right schema. Then the
sequence rolls back to where that field starts (the cache has the KV of all before it), the refused
value is excluded from the grammar, and decoding goes on from there; or, where nothing else fits
there, from the choice that led there.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from agentrt.errors import AnswerRejected, Attempt, SchemaError
from agentrt.programs.branches import marks, places, without
from agentrt.programs.faults import Written, first_fault
from agentrt.schema import Span, compile_schema, compiled_in_thread, token_spans
from agentrt.schema.compile import DIGITS
from agentrt.schema.copying.marks import SOURCE
from agentrt.schema.load.resources import pointer_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pydantic import ValidationError

    from agentrt.programs.answers import Answer
    from agentrt.programs.branches import Mark
    from agentrt.programs.faults import Path
    from agentrt.runtime.runtime import Runtime
    from agentrt.schema import Grammar, GrammarMatcher


@dataclass(frozen=True, slots=True)
class Resumed:
    """A constraint whose first tokens are already in the prompt."""

    grammar: Grammar
    token_ids: tuple[int, ...]

    @property
    def min_tokens(self) -> int:
        return len(self.matcher().shortest_close)

    def matcher(self) -> GrammarMatcher:
        """A matcher that stands after the tokens. Raises ValueError where they do not fit."""
        matcher = self.grammar.matcher()
        for token in self.token_ids:
            matcher.accept(token)
        return matcher


class Repairs:
    """What one answer has been refused for so far, and how to go on from there."""

    def __init__(self, answer: Answer[Any], runtime: Runtime, limit: int) -> None:
        self.attempts: list[Attempt] = []
        self._answer = answer
        self._runtime = runtime
        self._limit = limit
        self._refused: dict[tuple[Path, bool, tuple[Mark, ...]], list[Any]] = {}

    async def resume(self, token_ids: Sequence[int], error: ValidationError) -> Resumed:
        """The tokens to keep of an answer that was refused, and the grammar to go on under.

        Raises AnswerRejected past the limit, or where nothing else fits; SchemaError for a type
        that refuses what its own schema asks for.
        """
        assert self._answer.schema is not None
        pieces = [self._runtime.vocabulary.tokens[token] or b"" for token in token_ids]
        written = Written.of(b"".join(pieces).decode())
        found = first_fault(written, error)
        self.attempts.append(Attempt(written.text, pointer_of(found.path), found.reason))
        if len(self.attempts) > self._limit:
            raise self._give_up(f"the limit of {self._limit} repairs is reached")
        marked = marks(written, found.path, self._answer.schema)
        self._refused.setdefault((found.within, found.is_key, marked), []).append(found.refused)
        grammar = await self._grammar()
        for start in places(written, found, marked):
            span = Span(start, found.span.end)
            first = token_spans(pieces, {"": span})[""].start
            resumed = Resumed(grammar, tuple(token_ids[:first]))
            with suppress(ValueError):  # a dead end: an earlier choice is to be made otherwise
                resumed.matcher()
                return resumed
        raise self._give_up("no other value fits there")

    async def _grammar(self) -> Grammar:
        """The grammar without every refused value."""
        assert self._answer.schema is not None
        # What was asked for comes first in `allOf`: keys are written in the order of first mention.
        asked = dict(self._answer.schema)
        roots = {key: asked.pop(key) for key in ("$schema", "$id", "$defs", SOURCE) if key in asked}
        others = [without(*where, values) for where, values in self._refused.items()]
        schema = {**roots, "allOf": [asked, *others]}
        vocabulary = self._runtime.vocabulary
        make = partial(compile_schema, schema, vocabulary, plain_numbers="all", max_digits=DIGITS)
        try:
            return await compiled_in_thread(make)
        except SchemaError as error:
            raise self._give_up(f"no other value can be asked for ({error})") from error

    def _give_up(self, why: str) -> AnswerRejected:
        return AnswerRejected(self._answer.wanted, self.attempts, why)
