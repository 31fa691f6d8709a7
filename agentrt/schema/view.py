"""A schema as one regex, where it is flat enough for a person to read.

The decoder follows a network of automata, not this; what is shown here matches the same texts.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Sequence

Schema = dict[str, Any]

_LONGEST = 2_000
_NOTES = {"title", "description", "default", "examples", "deprecated", "$schema", "$defs"}
_PLAIN = {
    "integer": r"(-?[1-9][0-9]{0,31}|0)",
    "boolean": "(true|false)",
    "null": "null",
}


def regex_view(schema: Schema) -> str | None:
    """The regex of the compact JSON that a schema allows; None where there is none to be read.

    Objects of declared keys, enums, constants, whole numbers, true, false, null, and unions of
    these. Texts, bounds, patterns and lists make a regex that is no longer one to read.
    """
    try:
        view = _View(schema).of(schema, ())
    except _NotFlat:
        return None
    return view if len(view) <= _LONGEST else None


class _NotFlat(Exception):
    """This part has no readable regex."""


class _View:
    def __init__(self, root: Schema) -> None:
        self._root = root

    def of(self, schema: Schema, inside: tuple[str, ...]) -> str:
        said = {key for key in schema if key not in _NOTES}
        if said == {"$ref"}:
            return self._referred(str(schema["$ref"]), inside)
        if said <= {"const", "type"} and "const" in said:
            return _literal(schema["const"])
        if said <= {"enum", "type"} and "enum" in said:
            return _either([_literal(value) for value in schema["enum"]])
        if said == {"anyOf"}:
            return _either([self.of(option, inside) for option in schema["anyOf"]])
        kind = schema.get("type")
        if said == {"type"} and kind in _PLAIN:
            return _PLAIN[str(kind)]
        is_closed = schema.get("additionalProperties") is False
        if kind == "object" and is_closed and said <= _OBJECT:
            return self._object(schema, inside)
        raise _NotFlat

    def _referred(self, reference: str, inside: tuple[str, ...]) -> str:
        name = reference.removeprefix("#/$defs/")
        if reference in inside or name not in self._root.get("$defs", {}):
            raise _NotFlat
        return self.of(self._root["$defs"][name], (*inside, reference))

    def _object(self, schema: Schema, inside: tuple[str, ...]) -> str:
        members = [
            (
                f"{_literal(name)}:{self.of(value, inside)}",
                name in schema.get("required", ()),
            )
            for name, value in cast("Schema", schema.get("properties", {})).items()
        ]
        return rf"\{{{_members(members)}\}}"


_OBJECT = {"type", "properties", "required", "additionalProperties"}


def _members(members: Sequence[tuple[str, bool]]) -> str:
    """Members in order, optional ones left out or not, with commas between those that are there."""
    begun, unbegun = "", ""  # what may follow, after a member and before any
    for text, is_required in reversed(members):
        here = text + begun
        unbegun = here if is_required else (f"({here}|{unbegun})" if unbegun else f"({here})?")
        begun = f",{here}" if is_required else f"(,{text})?{begun}"
    return unbegun


def _literal(value: object) -> str:
    text = json.dumps(value)
    # What JSON can spell in more than one way, as `é` and `\\u00e9`, is no one literal.
    if isinstance(value, (dict, list, float)) or (isinstance(value, str) and text != f'"{value}"'):
        raise _NotFlat
    return re.escape(text)


def _either(options: Sequence[str]) -> str:
    return options[0] if len(options) == 1 else f"({'|'.join(options)})"
