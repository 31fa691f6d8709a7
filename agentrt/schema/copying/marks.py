"""How a type or a schema says which of its values are copied from a text, and from which."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, cast, get_args, get_origin, overload

from pydantic.errors import PydanticInvalidForJsonSchema

from agentrt.schema.load.resources import subschemas

if TYPE_CHECKING:
    from pydantic import GetJsonSchemaHandler
    from pydantic.json_schema import JsonSchemaValue
    from pydantic_core import core_schema

T = TypeVar("T")
Schema = dict[str, Any]

MARK = "x-verbatim"
"""The keyword of a value that is copied: true."""
SOURCE = "x-source"
"""The keyword, at the root, that holds the text to copy from."""

_COPIED = {"string", "number", "integer"}
_BINDING = ("enum", "const", "pattern", "format", "contentEncoding", "contentMediaType")


class Verbatim:
    """Marks a text or a number that is copied from what is read: `Annotated[str, Verbatim]`.

    A text is then a span of it that begins and ends at word boundaries (and matches the field's
    `pattern`, or is one of a Literal's texts, where it has such), a number one that it mentions, a
    date one that it names, where it names any. Inside lists and unions the mark is that of the
    values in them. The text is the one given to `extract`, or by `verbatim(kind, text)`.
    """

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        found = marked(handler(schema), bound_too=True)
        if not has_marks(found):
            raise PydanticInvalidForJsonSchema(
                "Verbatim marks texts, numbers and dates; of a model, mark its fields, or extract "
                "with verbatim=True"
            )
        return found


@dataclass(frozen=True, slots=True)
class _From:
    """In a type's annotation: the text that its values are copied from."""

    text: str
    every: bool


@overload
def verbatim(kind: type[T], text: str, *, every: bool = True) -> type[T]: ...
@overload
def verbatim(kind: Any, text: str, *, every: bool = True) -> Any: ...
def verbatim(kind: Any, text: str, *, every: bool = True) -> Any:
    """The same type or JSON schema (a dict), its values copied from a text.

        invoice = await s.gen(verbatim(Invoice, page))

    Texts that nothing else binds (no pattern, format or list of values) are spans of it, white
    space as one space, at most 80 characters long unless `max_length` says otherwise; numbers are
    among those that it mentions, dates among those that it names, if it names any. Without `every`
    only what is marked with `Verbatim`. A field that the text may not tell should be optional: a
    required one with nothing to copy is an UnsatisfiableSchema.
    """
    if isinstance(kind, dict):
        return schema_from(cast("Schema", kind), text, every=every)
    return Annotated[kind, _From(text, every)]


def source_of(kind: Any) -> _From | None:
    """The text that `verbatim` gave a type, if it did."""
    if get_origin(kind) is not Annotated:
        return None
    return next((each for each in get_args(kind)[1:] if isinstance(each, _From)), None)


def without_source(kind: Any) -> Any:
    """The type as it was before `verbatim`."""
    while source_of(kind) is not None:
        inner, *rest = get_args(kind)
        kept = tuple(each for each in rest if not isinstance(each, _From))
        kind = Annotated[(inner, *kept)] if kept else inner
    return kind


def schema_from(schema: Schema, text: str, *, every: bool) -> Schema:
    """A schema with the text that its marked values are copied from; with `every`, all free values
    are marked."""
    return {**(marked(schema) if every else schema), SOURCE: text}


def marked(schema: Schema, *, bound_too: bool = False) -> Schema:
    """The schema, every text and number in it marked that is not bound otherwise; or that is."""
    return cast("Schema", _marked(schema, bound_too))


def _marked(value: Any, bound_too: bool) -> Any:
    if isinstance(value, list):
        return [_marked(each, bound_too) for each in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    schema = cast("Schema", value)
    inner: Schema = {}
    for key, found in schema.items():
        if key in _NAMED and isinstance(found, dict):
            named = cast("Schema", found)
            inner[key] = {name: _marked(each, bound_too) for name, each in named.items()}
        elif key in _INNER or (key == "allOf" and not any(map(_is_bound, found))):
            inner[key] = _marked(found, bound_too)
        else:
            inner[key] = found
    return {**inner, MARK: True} if _is_copied(schema, bound_too) else inner


_INNER = {"items", "prefixItems", "additionalProperties", "anyOf", "oneOf"}
_NAMED = {"properties", "patternProperties", "$defs", "definitions"}


def _is_copied(schema: Schema, bound_too: bool) -> bool:
    given = schema.get("type")
    kinds = {given} if isinstance(given, str) else set(given or ())
    if not kinds & _COPIED:
        return False
    return bound_too or schema.get("format") == "date" or not _is_bound(schema)


def _is_bound(schema: Any) -> bool:
    """Whether more than a kind is said of a value, so that it is no plain copy."""
    return isinstance(schema, dict) and any(key in schema for key in _BINDING)


def has_marks(schema: Any) -> bool:
    """Whether some value of a schema is marked as copied."""
    if not isinstance(schema, dict):
        return False
    known = cast("Schema", schema)
    return MARK in known or any(has_marks(child) for _, child in subschemas(known))
