"""Fields that are read from inside other values: Pydantic's AliasPath as nested objects and lists.

Pydantic's own schema asks for a key that its validator does not read. What a path goes through is
asked for instead: an object with the next key, or a list with what stands at the next place. Places
that no path reads are null.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from agentrt.errors import SchemaError

if TYPE_CHECKING:
    from pydantic.json_schema import JsonSchemaValue

Path = tuple[str | int, ...]
_FURTHEST = 1000


@dataclass(slots=True)
class PathTree:
    """What stands at a place, and what is read from inside of it."""

    schema: JsonSchemaValue | None = None
    required: bool = False
    inner: dict[str | int, PathTree] = field(default_factory=dict["str | int", "PathTree"])

    def add(self, path: Path, schema: JsonSchemaValue, *, required: bool) -> None:
        """Puts a field at a path from here."""
        self.required = self.required or required
        if not path:
            self.schema = schema if self.schema is None else {"allOf": [self.schema, schema]}
            return
        child = self.inner.setdefault(path[0], PathTree())
        child.add(path[1:], schema, required=required)

    def as_schema(self) -> JsonSchemaValue:
        """The schema of the value here. Raises SchemaError for paths that contradict each other."""
        if not self.inner:
            return self.schema or {}
        names = {step: kid for step, kid in self.inner.items() if isinstance(step, str)}
        places = {step: kid for step, kid in self.inner.items() if isinstance(step, int)}
        if names and places:
            raise SchemaError(
                "",
                f"one path reads it by the key {min(names)!r}, another by the place {min(places)}",
                "give both fields paths through an object, or both through a list",
            )
        inside = _object(names) if names else _list(places)
        if self.schema is None:
            return inside
        # read as a whole as well: then it may hold more
        for closing in ("type", "items"):
            inside.pop(closing, None)
        return {"allOf": [self.schema, inside]}


def _object(names: dict[str, PathTree]) -> JsonSchemaValue:
    needed = [name for name, kid in names.items() if kid.required]
    properties = {name: kid.as_schema() for name, kid in names.items()}
    return {"type": "object", "properties": properties, "required": needed}


def _list(places: dict[int, PathTree]) -> JsonSchemaValue:
    """Places counted from the end come after those counted from the start, which makes the list's
    length fixed."""
    from_start = max((place + 1 for place in places if place >= 0), default=0)
    from_end = max((-place for place in places if place < 0), default=0)
    count = from_start + from_end
    if count > _FURTHEST:
        raise SchemaError("", f"a path reads place {count} of a list; {_FURTHEST} are enough")
    items: list[JsonSchemaValue] = [{"type": "null"}] * count
    for place, kid in places.items():
        items[place] = kid.as_schema()
    needed = max((place + 1 for place, kid in places.items() if kid.required), default=0)
    return {
        "type": "array",
        "prefixItems": items,
        "items": False,
        "minItems": count if from_end else needed,
    }


def path_of(alias: Any) -> Path | None:
    """The path that a validation alias reads, where it reads no plain key (AliasPath, or
    AliasChoices of nothing else: then the first of them)."""
    if not isinstance(alias, list) or not alias:
        return None
    listed = cast("list[Any]", alias)
    if not isinstance(listed[0], list):
        return tuple(listed)
    return None if any(len(choice) == 1 for choice in listed) else tuple(listed[0])
