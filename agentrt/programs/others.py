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

from agentrt.errors import SchemaTooLarge, UnsatisfiableSchema
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


Schema = dict[str, Any]
Arguments = dict[str, Any]

_NONE: Schema = {"not": {}}  # no value
_NESTED = 2  # calls; telling objects apart multiplies
_SHORT = 80  # characters of a text that is quick to make an automaton of


@dataclass(frozen=True, slots=True)
class _Within:
    """In a type's annotation: a schema, as JSON, that a value has to match as well."""

    schema: str

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return {"allOf": [handler(schema), json.loads(self.schema)]}


class Offer(NamedTuple):
    """A tool, and the type of what it may be given."""

    tool: Tool[..., Any]
    arguments: Any


async def offers_of(
    runtime: Runtime, tools: Sequence[Tool[..., Any]], made: Sequence[ToolCall]
) -> tuple[Offer, ...]:
    """The tools of which there are calls that were not `made` yet, and their arguments.

    What is left out of a call and what is given by its default are the same, and so are short texts
    that differ by the space around them. Calls with objects or lists among their arguments differ
    from the last two only, and where even that is too much to be told apart, from none.
    """
    offers: list[Offer] = []
    for tool in tools:
        calls = [call.arguments for call in made if call.name == tool.name]
        kind = tool.arguments
        if calls:
            kind = Annotated[kind, _Within(json.dumps(_unlike(calls, tool)))]
            try:
                await answer_of(kind, runtime)
            except UnsatisfiableSchema:
                continue
            except SchemaTooLarge:
                kind = tool.arguments
        offers.append(Offer(tool, kind))
    return tuple(offers)


def _unlike(calls: Sequence[str], tool: Tool[..., Any]) -> Schema:
    """The schema of the arguments that come to another call than any of these."""
    defaults = _defaults(tool)
    if any(isinstance(value, dict | list) for text in calls for value in json.loads(text).values()):
        calls = calls[-_NESTED:]
    spelled = dict.fromkeys(text for arguments in calls for text in _spelled(arguments, tool))
    given = [{**defaults, **json.loads(text)} for text in spelled]
    return _others(list(tool.schema.get("properties", ())), given, defaults)


def _others(names: Sequence[str], calls: Sequence[Arguments], defaults: Arguments) -> Schema:
    """Calls that differ in the first argument from all of these, or are as some there and differ in
    the next: nothing is said twice, however many there are."""
    if not names:
        return _NONE
    name, *rest = names
    alike: dict[str | None, list[Arguments]] = {}
    for call in calls:
        alike.setdefault(_key(call[name]) if name in call else None, []).append(call)
    told = [group[0][name] for key, group in alike.items() if key is not None]
    usual = _key(defaults[name]) if name in defaults else None  # what leaving it out comes to
    another: Schema = {"not": {"anyOf": [_same(value) for value in told]}} if told else {}
    ways = [_given(name, another, usual in alike)]
    for key, group in alike.items():
        then = _others(rest, group, defaults)
        if then != _NONE:
            value = _NONE if key is None else _same(group[0][name])
            ways.append({**_given(name, value, key != usual), **then})
    return {"anyOf": ways}


def _given(name: str, value: Schema, must: bool) -> Schema:
    """Objects in which a member, if it is there, is such a value."""
    return {"properties": {name: value}, "required": [name] if must else []}


def _key(value: Any) -> str:
    return json.dumps(value.strip() if _is_short(value) else value)


def _spelled(arguments: str, tool: Tool[..., Any]) -> tuple[str, str]:
    """The arguments as they are, and without what models within them were filled up with."""
    whole = tool.validated(arguments)
    return arguments, adapter(tool.arguments).dump_json(whole, exclude_defaults=True).decode()


def _same(value: Any) -> dict[str, Any]:
    """The schema of what is the same to a tool: a short text also with other space around it."""
    if not _is_short(value):
        return {"const": value}
    return {"type": "string", "pattern": rf"^\s*{re.escape(value.strip())}\s*$"}


def _is_short(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= _SHORT


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
