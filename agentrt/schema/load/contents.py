"""Strings whose content is itself JSON: of Pydantic's Json[T], and the keys of a dict[int, ...].

In JSON Schema `contentSchema` only notes what a string holds. With MARK beside it, the string's
content is a text of that schema: compact, names in declared order, numbers plain.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentrt.errors import SchemaError, UnsatisfiableSchema
from agentrt.schema.flat.view import contents_regex
from agentrt.schema.machine.machine import Machine, TextOptions
from agentrt.schema.regex.determinise import determinise
from agentrt.schema.regex.parse import parse
from agentrt.schema.regex.stored import stored
from agentrt.schema.values.strings import Strings

if TYPE_CHECKING:
    from agentrt.schema.load.loader import Loader, Scope
    from agentrt.schema.load.resources import Place

MARK = "x-json"
"""The keyword of a string whose content is a text of its `contentSchema`: true."""

_DEEP = 2  # how many times a value may stand within itself
_MOST = 60_000
_OPTIONS = TextOptions(max_digits=15, plain_numbers="all")


def content_strings(loader: Loader, place: Place, scope: Scope) -> Strings:
    """The texts of the schema of the content. Raises SchemaError where no automaton has them."""
    inner = place.child("contentSchema") if "contentSchema" in place.schema else None
    expr = loader.space.anything if inner is None else loader.schema(inner, scope)
    try:
        regex = contents_regex(Machine(loader.space, expr, _OPTIONS), _MOST, _DEEP)
    except SchemaError as error:
        raise SchemaError(
            error.pointer or place.pointer,
            f"JSON inside a string is asked for as one automaton: {error.reason}",
            "use the type itself, not as JSON inside a string",
        ) from None
    if not regex:
        raise UnsatisfiableSchema(place.pointer, "no value fits the content of this string")
    return Strings(stored(f"content {regex}", lambda: determinise(parse(regex))))
