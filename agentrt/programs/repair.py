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
    from collections.abc import Iterator, Sequence

    from pydantic import ValidationError
    from pydantic_core import ErrorDetails

    from agentrt.programs.answers import Answer
    from agentrt.schema import Grammar, GrammarMatcher, Vocabulary

Path = tuple[str | int, ...]

_ANY = object()


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
        self._refused: dict[tuple[Path, bool], list[Any]] = {}

    async def resume(self, token_ids: Sequence[int], error: ValidationError) -> Resumed:
        """The tokens to keep of an answer that was refused, and the grammar to go on under.

        Raises AnswerRejected past the limit, or where nothing else fits; SchemaError for a type
        that refuses what its own schema asks for.
        """
        pieces = [self._vocabulary.tokens[token] or b"" for token in token_ids]
        text = b"".join(pieces).decode()
        found = _first_fault(text, error)
        self.attempts.append(Attempt(text, pointer_of(found.path), found.reason))
        if len(self.attempts) > self._limit:
            raise self._give_up(f"the limit of {self._limit} repairs is reached")
        self._refused.setdefault((found.within, found.is_key), []).append(found.refused)
        first = token_spans(pieces, {"": found.span})[""].start
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
        without = [_without(*where, values) for where, values in self._refused.items()]
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


@dataclass(frozen=True, slots=True)
class _Fault:
    """What was refused of a value: the value at `path`, or where `is_key` the key it is under."""

    path: Path
    is_key: bool
    span: Span
    refused: Any
    reason: str

    @property
    def within(self) -> Path:
        """Where it is excluded from."""
        return self.path[:-1] if self.is_key else self.path


def _first_fault(text: str, error: ValidationError) -> _Fault:
    """The fault that is written first. Raises SchemaError where type and schema disagree."""
    value = json.loads(text)
    # a bare number could still go on, for all that its text says
    spans = {"": Span(0, len(text.encode())), **parse_partial(text).spans}
    errors = error.errors()
    if all(each["type"] == "missing" for each in errors):
        names = ", ".join(".".join(map(str, each["loc"])) for each in errors)
        raise SchemaError(
            "",
            f"{error.title} wants {names} of a value that has all its JSON schema asks for",
            "see what its validators with mode='before' take away",
        )
    faults = (_fault(value, spans, each) for each in errors)
    return min(faults, key=lambda fault: fault.span.start)


def _fault(value: Any, spans: dict[str, Span], error: ErrorDetails) -> _Fault:
    """What one of Pydantic's errors is about. Its location ends in "[key]" where that is a key."""
    loc = error["loc"]
    if loc and loc[-1] == "[key]":
        path = _path(value, loc[:-1])
        container = _at(value, path[:-1])
        if path[-1:] == loc[-2:-1] and isinstance(container, dict):
            keys = list(cast("dict[str, Any]", container))
            span = _key_span(spans, path, keys)
            return _Fault(path, True, span, path[-1], error["msg"])
    path = _path(value, loc, error["input"])
    return _Fault(path, False, spans[pointer_of(path)], _at(value, path), error["msg"])


def _key_span(spans: dict[str, Span], path: Path, keys: list[str]) -> Span:
    """From where a key is written: after the brace, or after the comma of the one before."""
    place = keys.index(str(path[-1]))
    if place == 0:
        start = spans[pointer_of(path[:-1])].start + 1
    else:
        start = spans[pointer_of((*path[:-1], keys[place - 1]))].end + 1
    return Span(start, spans[pointer_of(path)].end)


def _path(value: Any, loc: Sequence[str | int], refused: Any = _ANY) -> Path:
    """Where in the JSON value Pydantic's location is; it names union members and aliases too.

    A name in it may be that of a union's member and of a field: the way that leads to what was
    `refused` is the right one, or else the one that takes every name for a field.
    """
    ways = list(_ways(value, loc))
    return next((path for path, found in ways if found == refused), ways[0][0])


def _ways(value: Any, loc: Sequence[str | int]) -> Iterator[tuple[Path, Any]]:
    """Every way through a value that a location can mean, and what is there; the longest first."""
    if not loc:
        yield (), value
        return
    step, rest = loc[0], loc[1:]
    is_field = isinstance(value, dict) and step in value
    if is_field or (isinstance(value, list) and isinstance(step, int) and step < len(value)):
        inner = cast("Any", value)[step]
        yield from (((step, *path), found) for path, found in _ways(inner, rest))
    yield from _ways(value, rest)


def _at(value: Any, path: Path) -> Any:
    for step in path:
        value = value[step]
    return value


def _without(path: Path, is_key: bool, values: list[Any]) -> dict[str, Any]:
    """A schema that excludes values at a path, or keys of what is there."""
    other: dict[str, Any] = {"not": {"enum": values}}
    return _nested(path, {"propertyNames": other} if is_key else other)


def _nested(path: Path, schema: dict[str, Any]) -> dict[str, Any]:
    """A schema that says `schema` of what is at `path`, and nothing of anything else."""
    for step in reversed(path):
        if isinstance(step, str):
            schema = {"properties": {step: schema}}
        else:
            schema = {"prefixItems": [*[{} for _ in range(step)], schema]}
    return schema
