"""A type in words that a model reads: one line a field, for prompts."""

from __future__ import annotations

import json
from typing import Any, cast

from agentrt.schema import schema_of

Schema = dict[str, Any]

_PLAIN = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "true or false",
    "null": "null",
}


def describe(kind: Any) -> str:
    """The fields of a type or JSON schema, as indented lines with their descriptions.

    Shorter than the schema itself, and what a small model follows best. Constraints that decoding
    enforces anyway are not repeated.
    """
    schema: Schema = cast("Schema", kind) if isinstance(kind, dict) else schema_of(kind)
    return "\n".join(_Describer(schema).lines(schema, ""))


class _Describer:
    def __init__(self, root: Schema) -> None:
        self._root = root
        self._inside: list[str] = []  # the definitions being written out

    def lines(self, schema: Schema, indent: str) -> list[str]:
        """What stands under the name of a value of this schema."""
        reference = schema.get("$ref")
        if reference is not None:
            if reference in self._inside:
                return []
            self._inside.append(reference)
            found = self.lines(self._resolved(schema), indent)
            self._inside.pop()
            return found
        out: list[str] = []
        for name, field in schema.get("properties", {}).items():
            optional = "" if name in schema.get("required", ()) else ", optional"
            note = field.get("description") or self._resolved(field).get("description")
            tail = f": {note}" if note else ""
            out.append(f"{indent}- {name} ({self.word(field)}{optional}){tail}")
            out += self.lines(field, indent + "  ")
        if isinstance(schema.get("items"), dict):
            out += self.lines(schema["items"], indent)
        for option in _options(schema):
            out += self.lines(option, indent)
        return out

    def word(self, schema: Schema) -> str:
        """A few words for a value of this schema."""
        schema = self._resolved(schema)
        if "const" in schema:
            return json.dumps(schema["const"], ensure_ascii=False)
        if "enum" in schema:
            return "one of " + ", ".join(json.dumps(v, ensure_ascii=False) for v in schema["enum"])
        options = _options(schema)
        if options:
            return " or ".join(dict.fromkeys(self.word(option) for option in options))
        kind = schema.get("type")
        if kind == "array":
            items = schema.get("items")
            return f"list of {self.word(items)}" if isinstance(items, dict) else "list"
        if kind == "string" and "format" in schema:
            return str(schema["format"])
        if kind == "object":
            return str(schema.get("title", "object"))
        return _PLAIN.get(str(kind), "any value")

    def _resolved(self, schema: Schema) -> Schema:
        seen = 0
        while "$ref" in schema and seen < 32:
            target: Any = self._root
            for step in str(schema["$ref"]).lstrip("#/").split("/"):
                target = target.get(step, {}) if step else target
            schema, seen = {**target, **{k: v for k, v in schema.items() if k != "$ref"}}, seen + 1
        return schema


def _options(schema: Schema) -> list[Schema]:
    return [*schema.get("anyOf", ()), *schema.get("oneOf", ())]
