"""Objects out of texts longer than the context: in chunks, all at once, merged into one."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, cast, overload

from pydantic import ValidationError

from agentrt.errors import AnswerRejected, Attempt, InvalidRequest, SchemaError
from agentrt.programs.ambient import ensure_runtime
from agentrt.programs.answers import name_of
from agentrt.programs.arguments import check_count
from agentrt.programs.extract import ask_for, check_text_to_read
from agentrt.programs.options import read_options
from agentrt.programs.program import program
from agentrt.schema import schema_of
from agentrt.schema.load.resources import pointer_of
from agentrt.schema.types import adapter

if TYPE_CHECKING:
    from collections.abc import Callable

    from agentrt.programs.options import GenOptions
    from agentrt.programs.state import State

T = TypeVar("T")
Schema = dict[str, Any]

_PART = (
    "The text is one part of a longer one. Give null, or an empty list, for what this part does "
    "not tell."
)
_CUTS = (r"(?<=\n)\n+", r"(?<=\n)", r"(?<=[.!?])\s+", r"(?<=\s)", "")


@overload
async def extract_long(
    kind: type[T],
    text: str,
    *,
    chunk_tokens: int = 1024,
    overlap_tokens: int = 64,
    instructions: str | None = None,
    limit: int | None = None,
    **options: Unpack[GenOptions],
) -> T: ...
@overload
async def extract_long(
    kind: Any,
    text: str,
    *,
    chunk_tokens: int = 1024,
    overlap_tokens: int = 64,
    instructions: str | None = None,
    limit: int | None = None,
    **options: Unpack[GenOptions],
) -> Any: ...
async def extract_long(
    kind: Any,
    text: str,
    *,
    chunk_tokens: int = 1024,
    overlap_tokens: int = 64,
    instructions: str | None = None,
    limit: int | None = None,
    **options: Unpack[GenOptions],
) -> Any:
    """The object, or the list of objects, of a type that a text of any length tells of.

    The text is cut into chunks of at most `chunk_tokens`, at paragraphs where it can be, each
    beginning with the last `overlap_tokens` of the one before; all are read at once (at most
    `limit` at a time) after one shared prompt. Of a list the items are joined; one that several
    chunks tell (apart from case) is there once, or as often as one chunk has it. Of an object a
    chunk may leave any field out: lists are joined, objects merged by these rules, and of other
    values the one that most chunks tell wins, among equals the first. Raises SchemaError
    for a type that is neither, AnswerRejected where a field that must be there is in no chunk or
    the type refuses the whole, and what `extract` raises.
    """
    check_count("chunk_tokens", chunk_tokens, 1)
    if check_count("overlap_tokens", overlap_tokens) >= chunk_tokens:
        raise InvalidRequest(
            f"chunk_tokens={chunk_tokens}, overlap_tokens={overlap_tokens}; a chunk is longer than "
            "its overlap"
        )
    if limit is not None:
        check_count("limit", limit, 1)
    read_options(options, "chunk_tokens", "overlap_tokens", "instructions", "limit")
    check_text_to_read(kind, text)
    runtime = await ensure_runtime()
    chunks = cut(text, lambda piece: len(runtime.tokenize(piece)), chunk_tokens, overlap_tokens)
    return await _extract_long(kind, chunks, instructions, limit, options)


@program(name="extract_long")
async def _extract_long(
    s: State,
    kind: Any,
    chunks: list[str],
    instructions: str | None,
    limit: int | None,
    options: GenOptions,
) -> Any:
    ask_for(s, kind, _PART if instructions is None else f"{instructions}\n{_PART}")
    schema = schema_of_part(cast("Schema", kind) if isinstance(kind, dict) else schema_of(kind))

    async def read(branch: State, chunk: str) -> Any:
        branch.user(chunk)
        return await branch.gen(schema, **options)

    merged = json.dumps(merge(await s.each(read, chunks, limit=limit)), ensure_ascii=False)
    try:
        return adapter(Any if isinstance(kind, dict) else kind).validate_json(merged)
    except ValidationError as error:
        first = error.errors()[0]
        attempt = Attempt(merged, pointer_of(first["loc"]), first["msg"])
        why = f"{len(chunks)} chunks were read"
        raise AnswerRejected(name_of(kind), [attempt], why) from error


def schema_of_part(schema: Schema) -> Schema:
    """The schema of what a part of a text may tell: any number of items, any field or null.

    Raises SchemaError for what is neither a list nor an object.
    """
    root: Schema = schema
    if "$ref" in schema:  # a recursive type names itself
        root = {**schema["$defs"][schema["$ref"].rpartition("/")[2]], "$defs": schema["$defs"]}
    if root.get("type") == "array":
        return {k: v for k, v in root.items() if k not in ("minItems", "maxItems")}
    if root.get("type") != "object" or not root.get("properties"):
        raise SchemaError("", "what is merged from chunks is an object with fields, or a list")
    fields = {
        name: {"anyOf": [_without_least(field), {"type": "null"}]}
        for name, field in root["properties"].items()
    }
    return {**root, "properties": fields, "required": list(fields)}


def _without_least(field: Schema) -> Schema:
    return {k: v for k, v in field.items() if k not in ("default", "minItems")}


def merge(parts: list[Any]) -> Any:
    """One JSON value of several: lists joined, objects field by field, else what most say."""
    told = [part for part in parts if part is not None]
    if not told:
        return None
    if all(isinstance(part, list) for part in told):
        return _joined(told)
    if all(isinstance(part, dict) for part in told):
        names = dict.fromkeys(name for part in told for name in part)
        fields = {name: merge([part.get(name) for part in told]) for name in names}
        return {name: value for name, value in fields.items() if value is not None}
    counts = Counter(_key(part) for part in told)  # keeps the order of the first of each
    most = counts.most_common(1)[0][0]
    return next(part for part in told if _key(part) == most)


def _joined(lists: list[list[Any]]) -> list[Any]:
    """The items of all, in order; each as often as the list that has it most often."""
    joined: list[Any] = []
    seen: Counter[str] = Counter()
    for items in lists:
        here: Counter[str] = Counter()
        for item in items:
            key = _key(item)
            here[key] += 1
            if here[key] > seen[key]:
                joined.append(item)
        seen |= here
    return joined


def _key(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False).casefold()


def cut(text: str, count: Callable[[str], int], most: int, overlap: int = 0) -> list[str]:
    """A text in chunks of at most `most` tokens, as `count` counts them.

    Cut between paragraphs where that does, else between lines, sentences, words or characters; each
    chunk but the first begins with the end of the one before, up to `overlap` tokens of whole
    pieces.
    """
    pieces = [(piece, count(piece)) for piece in _pieces(text, count, most - overlap, 0)]
    chunks: list[str] = []
    now: list[tuple[str, int]] = []
    for piece, size in pieces:
        if now and sum(s for _, s in now) + size > most:
            chunks.append("".join(p for p, _ in now))
            now = _tail(now, min(overlap, most - size))
        now.append((piece, size))
    return [*chunks, "".join(p for p, _ in now)] if now else chunks


def _pieces(text: str, count: Callable[[str], int], most: int, level: int) -> list[str]:
    """A text in pieces that are short enough, cut as coarsely as that allows."""
    if count(text) <= most or len(text) <= 1:
        return [text] if text else []
    found: list[str] = []
    start = 0
    for border in [*(m.end() for m in re.finditer(_CUTS[level], text)), len(text)]:
        if border > start:
            found += _pieces(text[start:border], count, most, min(level + 1, len(_CUTS) - 1))
            start = border
    return found


def _tail(pieces: list[tuple[str, int]], most: int) -> list[tuple[str, int]]:
    """The last pieces that have at most that many tokens together."""
    kept = 0
    for index in range(len(pieces) - 1, -1, -1):
        kept += pieces[index][1]
        if kept > most:
            return pieces[index + 1 :]
    return pieces
