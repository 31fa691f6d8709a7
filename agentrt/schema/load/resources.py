"""Where schemas are: documents, the resources inside them ($id), anchors, references.

JSON Schema 2020-12, sections 8.2 and 9. Nothing is fetched: a reference outside the documents given
is refused.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urldefrag, urljoin

from agentrt.errors import SchemaError
from agentrt.schema.limits import spend

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

# the keywords whose values are schemas, lists of schemas, and named schemas
_ONE = {
    "additionalItems", "additionalProperties", "contains", "contentSchema", "else", "if", "not",
    "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties",
}  # fmt: skip
_MANY = {"allOf", "anyOf", "oneOf", "prefixItems"}
_NAMED = {
    "$defs", "definitions", "dependentSchemas", "patternProperties", "properties", "dependencies",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Place:
    """A schema at its place: its resource, and its JSON pointer from the document's root."""

    resource: Resource
    pointer: str
    schema: Any = field(compare=False)

    def child(self, *steps: str | int) -> Place:
        schema = self.schema
        for step in steps:
            schema = schema[step]
        return Place(self.resource, self.pointer + pointer_of(steps), schema).entered()

    def entered(self) -> Place:
        """The same schema, in the resource of its own that an $id makes it."""
        own = self.resource.library.owners.get(id(self.schema))
        if own is None or own is self.resource:
            return self
        return Place(own, self.pointer, self.schema)


@dataclass(slots=True, eq=False)
class Resource:
    """A schema with a URI of its own."""

    library: Library
    uri: str
    root: Any
    pointer: str
    anchors: dict[str, Place] = field(default_factory=dict)
    dynamic_anchors: dict[str, Place] = field(default_factory=dict)
    legacy: bool = False
    """Drafts 4 to 7, where what stands beside a $ref is ignored."""


class Library:
    """The document and what else may be referred to, by URI."""

    def __init__(self, document: Any, remotes: Mapping[str, Any] | None = None) -> None:
        self.resources: dict[str, Resource] = {}
        self.owners: dict[int, Resource] = {}
        self.waiting: dict[str, Any] = {}
        for uri, schema in (remotes or {}).items():
            self.waiting[uri.rstrip("#")] = schema
        self.main = self._add("", document)
        self.root = Place(self.main, "", document).entered()

    def _add(self, uri: str, document: Any) -> Resource:
        dialect = document.get("$schema") if isinstance(document, dict) else None
        legacy = isinstance(dialect, str) and any(f"draft-0{n}" in dialect for n in (3, 4, 6, 7))
        self._check_vocabulary(dialect)
        resource = Resource(self, uri, document, "", legacy=legacy)
        self.resources[uri] = resource
        self._scan(document, resource, "")
        return resource

    def _check_vocabulary(self, dialect: Any) -> None:
        meta = self.waiting.get(dialect) if isinstance(dialect, str) else None
        vocabulary = meta.get("$vocabulary") if isinstance(meta, dict) else None
        if isinstance(vocabulary, dict) and not any("vocab/validation" in v for v in vocabulary):
            raise SchemaError(
                "/$schema",
                f"the dialect {dialect!r} is without the validation vocabulary",
                "use a standard dialect",
            )

    def _scan(self, schema: Any, resource: Resource, pointer: str) -> None:
        stack: list[tuple[Any, Resource, str]] = [(schema, resource, pointer)]
        while stack:
            schema, resource, pointer = stack.pop()
            if not isinstance(schema, dict):
                continue
            spend()
            resource = self._identified(schema, resource, pointer)
            place = Place(resource, pointer, schema)
            anchor, dynamic = schema.get("$anchor"), schema.get("$dynamicAnchor")
            if isinstance(anchor, str):
                resource.anchors.setdefault(anchor, place)
            if isinstance(dynamic, str):
                resource.anchors.setdefault(dynamic, place)
                resource.dynamic_anchors.setdefault(dynamic, place)
            if schema.get("$recursiveAnchor") is True:
                resource.dynamic_anchors.setdefault("", place)
            stack.extend(
                (child, resource, f"{pointer}/{path}") for path, child in subschemas(schema)
            )

    def _identified(self, schema: dict[str, Any], resource: Resource, pointer: str) -> Resource:
        own = schema.get("$id")
        properties = schema.get("properties")
        if own is None and not (isinstance(properties, dict) and "id" in properties):
            own = schema.get("id")
        if not isinstance(own, str) or not own:
            return resource
        if resource.legacy and "$ref" in schema:
            return resource
        base, fragment = urldefrag(own)
        if fragment and not base:
            resource.anchors.setdefault(fragment, Place(resource, pointer, schema))
            return resource
        uri = urljoin(resource.uri, base)
        dialect = schema.get("$schema")
        legacy = resource.legacy
        if isinstance(dialect, str):
            legacy = any(f"draft-0{n}" in dialect for n in (3, 4, 6, 7))
        if schema is resource.root:
            resource.uri, resource.legacy = uri, legacy
            self.resources.setdefault(uri, resource)
            return resource
        made = Resource(self, uri, schema, pointer, legacy=legacy)
        self.resources.setdefault(uri, made)
        self.owners[id(schema)] = made
        return made

    def find(self, reference: str, place: Place) -> Place:
        """The schema that a reference at a place means. Raises SchemaError if there is none."""
        uri, fragment = urldefrag(reference)
        target = urljoin(place.resource.uri, uri) if uri else place.resource.uri
        resource = self.resource(target)
        if resource is None and not uri:
            resource = place.resource
        if resource is None:
            raise SchemaError(
                place.pointer,
                f"the reference {reference!r} leads outside the schema, and nothing is fetched",
                "put what it refers to under $defs",
            )
        fragment = unquote(fragment)
        if fragment and not fragment.startswith("/"):
            found = resource.anchors.get(fragment)
            if found is None:
                raise SchemaError(place.pointer, f"the reference {reference!r} finds no anchor")
            return found.entered()
        return self._at(resource, fragment, reference, place)

    def resource(self, uri: str) -> Resource | None:
        found = self.resources.get(uri)
        if found is None and uri in self.waiting:
            found = self._add(uri, self.waiting.pop(uri))
        return found

    def _at(self, resource: Resource, fragment: str, reference: str, place: Place) -> Place:
        found = Place(resource, resource.pointer, resource.root)
        for step in fragment.split("/")[1:]:
            key: Any = step.replace("~1", "/").replace("~0", "~")
            if isinstance(found.schema, list) and key.isdigit():
                key = int(key)
            try:
                found = found.child(key)
            except (KeyError, IndexError, TypeError):
                raise SchemaError(
                    place.pointer, f"the reference {reference!r} leads to nothing"
                ) from None
        if not isinstance(found.schema, dict | bool):
            raise SchemaError(place.pointer, f"the reference {reference!r} leads to no schema")
        if id(found.schema) not in self.owners and not _scanned(fragment):
            self._scan(found.schema, found.resource, found.pointer)
        return found.entered()


def _scanned(fragment: str) -> bool:
    """Whether the way to it goes only through keywords that hold schemas."""
    steps = fragment.split("/")[1:]
    return bool(steps) and steps[0] in _NAMED | _MANY | _ONE | {"items"}


def subschemas(schema: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """The schemas directly inside a schema, each with its path."""
    for key, value in schema.items():
        if key in _ONE or (key == "items" and not isinstance(value, list)):
            yield key, value
        elif (key in _MANY or key == "items") and isinstance(value, list):
            yield from ((f"{key}/{i}", child) for i, child in enumerate(value))
        elif key in _NAMED and isinstance(value, dict):
            yield from ((f"{key}/{escaped(name)}", child) for name, child in value.items())


def pointer_of(path: Iterable[str | int]) -> str:
    """The JSON pointer (RFC 6901) of a path."""
    return "".join(f"/{escaped(str(step))}" for step in path)


def escaped(step: str) -> str:
    """One step of a JSON pointer (RFC 6901)."""
    return step.replace("~", "~0").replace("/", "~1")
