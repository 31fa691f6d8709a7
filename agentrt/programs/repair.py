"""Field repair: of a rejected answer, what stands before the bad field is kept.

Pydantic's own validators can refuse a value that is valid JSON of the right schema. Then the
sequence rolls back to where that field starts (the cache has the KV of all before it), the refused
value is excluded from the grammar, and decoding goes on from there.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from agentrt.errors import AnswerRejected, Attempt, SchemaError
from agentrt.schema import Span, compile_schema, compiled_in_thread, token_spans
from agentrt.schema import partial as parse_partial
from agentrt.schema.compile import DIGITS
from agentrt.schema.copying.marks import SOURCE
from agentrt.schema.load.resources import pointer_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pydantic import ValidationError

    from agentrt.programs.answers import Answer
    from agentrt.schema import Grammar, GrammarMatcher, Vocabulary

Path = tuple[str | int, ...]


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

    def __init__(self, answer: Answer[Any], vocabulary: Vocabulary, limit: int) -> None:
        self.attempts: list[Attempt] = []
        self._answer = answer
        self._vocabulary = vocabulary
        self._limit = limit
        self._refused: dict[Path, list[Any]] = {}

    async def resume(self, token_ids: Sequence[int], error: ValidationError) -> Resumed:
        """The tokens to keep of an answer that was refused, and the grammar to go on under.

        Raises AnswerRejected past the limit, or where nothing else fits.
        """
        pieces = [self._vocabulary.tokens[token] or b"" for token in token_ids]
        text = b"".join(pieces).decode()
        value = json.loads(text)
        # a bare number could still go on, for all that its text says
        spans = {"": Span(0, len(text.encode())), **parse_partial(text).spans}
        path, reason = min(
            ((_path(value, each["loc"]), each["msg"]) for each in error.errors()),
            key=lambda found: spans[pointer_of(found[0])].start,
        )
        pointer = pointer_of(path)
        self.attempts.append(Attempt(text, pointer, reason))
        if len(self.attempts) > self._limit:
            raise self._give_up(f"the limit of {self._limit} repairs is reached")
        self._refused.setdefault(path, []).append(_at(value, path))
        first = token_spans(pieces, spans)[pointer].start
        resumed = Resumed(await self._grammar(), tuple(token_ids[:first]))
        try:
            resumed.matcher()
        except ValueError as dead_end:
            raise self._give_up("no other value fits there") from dead_end
        return resumed

    async def _grammar(self) -> Grammar:
        """The grammar without every refused value."""
        assert self._answer.schema is not None
        # What was asked for comes first in `allOf`: keys are written in the order of first mention.
        asked = dict(self._answer.schema)
        roots = {key: asked.pop(key) for key in ("$schema", "$id", "$defs", SOURCE) if key in asked}
        without = [
            _nested(path, {"not": {"enum": values}}) for path, values in self._refused.items()
        ]
        schema = {**roots, "allOf": [asked, *without]}
        make = partial(
            compile_schema, schema, self._vocabulary, plain_numbers="all", max_digits=DIGITS
        )
        try:
            return await compiled_in_thread(make)
        except SchemaError as error:
            raise self._give_up(f"no other value can be asked for ({error})") from error

    def _give_up(self, why: str) -> AnswerRejected:
        return AnswerRejected(self._answer.wanted, self.attempts, why)


def _path(value: Any, loc: Sequence[str | int]) -> Path:
    """Where in the JSON value Pydantic's location is; it names union members and aliases too."""
    path: list[str | int] = []
    for step in loc:
        found = isinstance(value, dict) and step in value
        if found or (isinstance(value, list) and isinstance(step, int) and step < len(value)):
            value = cast("Any", value)[step]
            path.append(step)
    return tuple(path)


def _at(value: Any, path: Path) -> Any:
    for step in path:
        value = value[step]
    return value


def _nested(path: Path, schema: dict[str, Any]) -> dict[str, Any]:
    """A schema that says `schema` of what is at `path`, and nothing of anything else."""
    for step in reversed(path):
        if isinstance(step, str):
            schema = {"properties": {step: schema}}
        else:
            schema = {"prefixItems": [*[{} for _ in range(step)], schema]}
    return schema
