"""Calls that are not made again: what a tool may still be given, as a type."""

from __future__ import annotations

import inspect
import json
import re
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from pydantic.fields import FieldInfo
from pydantic_core import PydanticSerializationError, PydanticUndefined, to_jsonable_python

from agentrt.errors import UnsatisfiableSchema
from agentrt.programs.answers import answer_of
from agentrt.schema.types import adapter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pydantic import GetJsonSchemaHandler
    from pydantic.json_schema import JsonSchemaValue
    from pydantic_core import core_schema

    from agentrt.messages import ToolCall
    from agentrt.programs.tools import Tool
    from agentrt.runtime.runtime import Runtime


_SHORT = 80  # characters of a text that is quick to make an automaton of


@dataclass(frozen=True, slots=True)
class _Other:
    """In a type's annotation: schemas, as JSON, none of which a value may match."""

    than: tuple[str, ...]

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return {"allOf": [handler(schema), *({"not": json.loads(each)} for each in self.than)]}


class Offer(NamedTuple):
    """A tool, and the type of what it may be given."""

    tool: Tool[..., Any]
    arguments: Any


async def offers_of(
    runtime: Runtime, tools: Sequence[Tool[..., Any]], made: Sequence[ToolCall]
) -> tuple[Offer, ...]:
    """The tools of which there are calls that were not `made` yet, and their arguments.

    What is left out of a call and what is given by its default are the same, and so are short texts
    that differ by the space around them.
    """
    offers: list[Offer] = []
    for tool in tools:
        calls = [call.arguments for call in made if call.name == tool.name]
        given = dict.fromkeys(text for arguments in calls for text in _spelled(arguments, tool))
        kind = tool.arguments
        if given:
            kind = Annotated[kind, _Other(tuple(_of_call(each, tool) for each in given))]
            try:
                await answer_of(kind, runtime)
            except UnsatisfiableSchema:
                continue
        offers.append(Offer(tool, kind))
    return tuple(offers)


def _spelled(arguments: str, tool: Tool[..., Any]) -> tuple[str, str]:
    """The arguments as they are, and without what models within them were filled up with."""
    whole = tool.validated(arguments)
    return arguments, adapter(tool.arguments).dump_json(whole, exclude_defaults=True).decode()


def _of_call(arguments: str, tool: Tool[..., Any]) -> str:
    """The schema of the arguments that come to the same call as these."""
    defaults = _defaults(tool)
    whole = {**defaults, **json.loads(arguments)}
    return json.dumps(
        {
            "type": "object",
            "properties": {name: _same(value) for name, value in whole.items()},
            "required": [n for n, v in whole.items() if n not in defaults or defaults[n] != v],
            "additionalProperties": False,
        }
    )


def _same(value: Any) -> dict[str, Any]:
    """The schema of what is the same to a tool: a short text also with other space around it."""
    if not isinstance(value, str) or len(value) > _SHORT:
        return {"const": value}
    return {"type": "string", "pattern": rf"^\s*{re.escape(value.strip())}\s*$"}


def _defaults(tool: Tool[..., Any]) -> dict[str, Any]:
    """The defaults, as JSON, of the arguments that have one which JSON can say."""
    found: dict[str, Any] = {}
    for name, parameter in inspect.signature(tool).parameters.items():
        default = parameter.default
        if isinstance(default, FieldInfo):
            default = parameter.empty if default.default is PydanticUndefined else default.default
        if name in tool.schema.get("properties", ()) and default is not parameter.empty:
            with suppress(PydanticSerializationError):
                found[name] = to_jsonable_python(default)
    return found
