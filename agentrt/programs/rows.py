"""Rows out of a text, in its order: each is read on from where the one before was."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, cast, overload

from agentrt.errors import SchemaError, UnsatisfiableSchema
from agentrt.programs.ambient import ensure_runtime
from agentrt.programs.answers import name_of
from agentrt.programs.arguments import check_count
from agentrt.programs.extract import ask_for, check_text_to_read
from agentrt.programs.options import read_options
from agentrt.programs.program import program
from agentrt.schema import schema_of
from agentrt.schema.copying import marks
from agentrt.schema.copying.spans import as_one_line
from agentrt.schema.load.resources import subschemas

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from agentrt.programs.options import GenOptions
    from agentrt.programs.state import State

T = TypeVar("T")
Schema = dict[str, Any]
MOST = 1000
"""Rows of a text where `most` does not say."""


@overload
async def extract_rows(
    kind: type[T],
    text: str,
    *,
    instructions: str | None = None,
    examples: Sequence[tuple[str, Sequence[T]]] = (),
    most: int = MOST,
    **options: Unpack[GenOptions],
) -> list[T]: ...
@overload
async def extract_rows(
    kind: Any,
    text: str,
    *,
    instructions: str | None = None,
    examples: Sequence[tuple[str, Sequence[Any]]] = (),
    most: int = MOST,
    **options: Unpack[GenOptions],
) -> list[Any]: ...
async def extract_rows(
    kind: Any,
    text: str,
    *,
    instructions: str | None = None,
    examples: Sequence[tuple[str, Sequence[Any]]] = (),
    most: int = MOST,
    **options: Unpack[GenOptions],
) -> list[Any]:
    """The objects of a type that a text tells of, one after another, their values copied.

    As `extract(list[kind], text, verbatim=True)`, but for what a small model does with that: say
    one row again and again. Here a row is copied from what follows the first text of the row
    before, so that every mention is read once, in the text's order, and the list comes to an end.
    After each row the model says, by likelihood, whether there is another. What it skips is not
    come back to. Raises SchemaError for a type that copies no text, UnsatisfiableSchema where not
    even one row has all that it must have, and what `extract` raises.
    """
    check_text_to_read(kind, text)
    check_count("most", most, 1)
    read_options(options, "instructions", "examples", "most")
    copied = Copied.of(kind)
    await ensure_runtime()
    return await _extract_rows(kind, copied, text, instructions, examples, most, options)


@program(name="extract_rows")
async def _extract_rows(
    s: State,
    kind: Any,
    copied: Copied,
    text: str,
    instructions: str | None,
    examples: Sequence[tuple[str, Sequence[Any]]],
    most: int,
    options: GenOptions,
) -> list[Any]:
    listed: Any = {"type": "array", "items": kind} if isinstance(kind, dict) else list[kind]
    ask_for(s, listed, instructions, examples)
    s.user(text)
    s.assistant("[")
    rows: list[Any] = []
    left = as_one_line(text)
    while left and len(rows) < most:
        if rows and await s.select([",", "]"], by="probability") == "]":
            break
        try:
            rows.append(await s.gen(marks.verbatim(kind, left), **{**options, "name": "row"}))
        except UnsatisfiableSchema:  # what is left has not all that a row must have
            if not rows:
                raise
            break
        left = copied.left_after(json.loads(s.result("row").text), left)
    return rows


@dataclass(frozen=True, slots=True)
class Copied:
    """Where the texts of a row are that are copied: its fields, or None for the row itself."""

    fields: frozenset[str] | None

    @classmethod
    def of(cls, kind: Any) -> Copied:
        """Raises SchemaError for a type or a schema that copies no texts."""
        root = marks.marked(kind if isinstance(kind, dict) else schema_of(kind))
        row = _followed(root, root)
        fields = row.get("properties") if row.get("type") == "object" else None
        found = [n for n, each in (fields or {}).items() if _copies_texts(each, root, ())]
        if not found and (fields or not _copies_texts(row, root, ())):
            raise SchemaError("", f"{name_of(kind)} copies no text to read on from", "add a field")
        return cls(frozenset(found) or None)

    def left_after(self, row: Any, text: str) -> str:
        """What follows the first text of a row that was copied from `text`; nothing without one."""
        if self.fields is not None:
            row = [value for name, value in row.items() if name in self.fields]
        for copied in _texts(row):
            found = re.search(rf"(?<!\w){re.escape(copied)}(?!\w)", text)
            if found is not None:
                return text[found.end() :].strip()
        return ""


def _texts(value: Any) -> Iterator[str]:
    """The texts in a JSON value that are not empty, in order."""
    if isinstance(value, str) and value:
        yield value
    elif isinstance(value, dict | list):
        inner = cast("list[Any]", [*value.values()] if isinstance(value, dict) else value)
        for each in inner:
            yield from _texts(each)


def _followed(schema: Schema, root: Schema) -> Schema:
    ref = str(schema.get("$ref", "")).rpartition("/")[2]
    return root.get("$defs", {}).get(ref, schema)


def _copies_texts(schema: Any, root: Schema, inside: tuple[Schema, ...]) -> bool:
    """Whether a marked schema has a text in it that is copied."""
    if not isinstance(schema, dict):
        return False
    known = _followed(cast("Schema", schema), root)
    if any(known is each for each in inside):  # a type within itself
        return False
    if marks.MARK in known and known.get("type") == "string" and known.get("format") != "date":
        return True
    inner = [child for _, child in subschemas(known)]
    return any(_copies_texts(child, root, (*inside, known)) for child in inner)
