"""A schema document to an expression: references, and the keywords that combine schemas."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from agentrt.errors import SchemaError
from agentrt.schema.algebra.shapes import ObjectShape, Values
from agentrt.schema.copying.marks import SOURCE
from agentrt.schema.copying.passage import passage_of
from agentrt.schema.limits import spend
from agentrt.schema.load import keywords
from agentrt.schema.load.resources import Library, Place
from agentrt.schema.values.strings import EVERY_STRING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agentrt.schema.algebra.space import Expr, Space
    from agentrt.schema.copying.passage import Passage
    from agentrt.schema.load.resources import Resource

Scope = tuple[tuple[str, Place], ...]
"""The dynamic scope: for each dynamic anchor, the outermost schema that bears it."""


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """`formats`: whether `format` is asserted or, as 2020-12 has it by default, only noted."""

    formats: Literal["assert", "annotate"] = "assert"


class Loader:
    """Turns places in the library into expressions, each once for each dynamic scope."""

    def __init__(
        self,
        space: Space,
        document: Any,
        *,
        remotes: Mapping[str, Any] | None = None,
        options: LoadOptions | None = None,
    ) -> None:
        self.space = space
        self.options = options or LoadOptions()
        self.library = Library(document, remotes)

    def passage(self, place: Place) -> Passage:
        """The text that the value at a place is copied from. Raises SchemaError without one."""
        document = self.library.main.root
        text = document.get(SOURCE) if isinstance(document, dict) else None
        if not isinstance(text, str):
            raise SchemaError(
                place.pointer,
                "this value is to be copied from a text, and none is given",
                "use extract(kind, text), or verbatim(kind, text) as the type",
            )
        return passage_of(text)

    def root(self) -> Expr:
        return self.schema(self.library.root, ())

    def schema(self, place: Place, scope: Scope) -> Expr:
        """The expression of the schema at a place, looked into only when it is needed."""
        if place.schema is True or place.schema == {}:
            return self.space.anything
        if place.schema is False:
            return self.space.nothing
        if not isinstance(place.schema, dict):
            raise SchemaError(
                place.pointer, f"a schema is an object or a boolean, not {_kind(place.schema)}"
            )
        inner = entered(scope, place.resource)
        key = (id(place.schema), inner)
        return self.space.lazy(key, lambda: self.build(place, inner), place.pointer)

    def build(self, place: Place, scope: Scope) -> Expr:
        spend()
        schema: dict[str, Any] = place.schema
        if place.resource.legacy and isinstance(schema.get("$ref"), str):
            return self.reference(place, scope)
        parts = keywords.own_constraints(self, place, scope)
        parts += self.in_place(place, scope)
        if "unevaluatedProperties" in schema or "unevaluatedItems" in schema:
            from agentrt.schema.load import unevaluated

            parts.append(unevaluated.constraint(self, place, scope))
        return self.space.all_of(parts)

    def in_place(self, place: Place, scope: Scope) -> list[Expr]:
        """What the keywords that apply other schemas to the same value ask for."""
        schema, space = place.schema, self.space
        parts: list[Expr] = []
        for keyword in ("$ref", "$dynamicRef", "$recursiveRef"):
            if isinstance(schema.get(keyword), str):
                parts.append(self.schema(*self.target(place, keyword, scope)))
        parts += self.children(place, "allOf", scope)
        if "anyOf" in schema:
            parts.append(space.any_of(self.children(place, "anyOf", scope)))
        if "oneOf" in schema:
            parts.append(space.one_of(self.children(place, "oneOf", scope)))
        if "not" in schema:
            parts.append(space.negation(self.schema(place.child("not"), scope)))
        if "if" in schema:
            parts.append(self.conditional(place, scope))
        parts += [
            space.any_of((self.absent(name), self.schema(child, scope)))
            for name, child in keywords.dependent_schemas(place)
        ]
        return parts

    def children(self, place: Place, keyword: str, scope: Scope) -> list[Expr]:
        listed = place.schema.get(keyword)
        if listed is None:
            return []
        if not isinstance(listed, list) or not listed:
            raise SchemaError(f"{place.pointer}/{keyword}", f"{keyword} is a list of schemas")
        return [self.schema(place.child(keyword, i), scope) for i in range(len(listed))]

    def conditional(self, place: Place, scope: Scope) -> Expr:
        space = self.space
        condition = self.schema(place.child("if"), scope)
        branches: list[Expr] = []
        for keyword, holds in (("then", condition), ("else", space.negation(condition))):
            if keyword in place.schema:
                holds = space.all_of((holds, self.schema(place.child(keyword), scope)))
            branches.append(holds)
        if not ("then" in place.schema or "else" in place.schema):
            return space.anything
        return space.any_of(branches)

    def absent(self, name: str) -> Expr:
        """Every value but the objects that have this property."""
        space = self.space
        everything = space.normal(space.anything)
        shape = ObjectShape(((name, space.nothing),), ((EVERY_STRING, space.anything),))
        return space.exact(
            Values(
                True, True, True, everything.numbers, everything.strings, everything.arrays,
                (shape,),
            )
        )  # fmt: skip

    def present(self, name: str) -> Expr:
        """The objects that have this property."""
        space = self.space
        shape = ObjectShape((), ((EVERY_STRING, space.anything),), frozenset({name}))
        return space.exact(Values(objects=(shape,)))

    def reference(self, place: Place, scope: Scope) -> Expr:
        return self.schema(*self.target(place, "$ref", scope))

    def target(self, place: Place, keyword: str, scope: Scope) -> tuple[Place, Scope]:
        """Where a reference leads, and the dynamic scope there."""
        reference: str = place.schema[keyword]
        found = self.library.find(reference, place)
        anchor = None
        if keyword == "$dynamicRef":
            name = reference.partition("#")[2]
            if name in found.resource.dynamic_anchors:
                anchor = name
        elif keyword == "$recursiveRef" and "" in found.resource.dynamic_anchors:
            anchor = ""
        if anchor is not None:
            found = dict(scope).get(anchor, found)
        return found, scope


def entered(scope: Scope, resource: Resource) -> Scope:
    """The dynamic scope inside a resource: outer anchors win."""
    if not resource.dynamic_anchors:
        return scope
    known = dict(scope)
    for name, place in resource.dynamic_anchors.items():
        known.setdefault(name, place)
    return tuple(sorted(known.items(), key=lambda pair: pair[0]))


def _kind(value: object) -> str:
    if isinstance(value, list):
        return "a list"
    if isinstance(value, str):
        return "a string"
    return "null" if value is None else "a number"
