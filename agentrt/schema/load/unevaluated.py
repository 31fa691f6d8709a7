"""unevaluatedProperties and unevaluatedItems, by the ways the schemas beside them can apply.

Which members count as evaluated depends on which branches a value matches. Each way to choose
branches is an alternative: a value matches all of them, and what they do not speak of matches the
unevaluated schema. A way that leaves out a branch the value happens to match only asks for more
than the way that has it, so the union of all ways is exact (JSON Schema 2020-12, section 11).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations, product
from typing import TYPE_CHECKING, Any

from agentrt.errors import SchemaError, SchemaTooLarge
from agentrt.schema.algebra.combine import array
from agentrt.schema.algebra.shapes import ArrayShape, ObjectShape, Values
from agentrt.schema.load import keywords
from agentrt.schema.load.patterns import pattern_strings
from agentrt.schema.load.resources import Place, escaped
from agentrt.schema.regex.words import of_words
from agentrt.schema.values.strings import EVERY_STRING, Strings

if TYPE_CHECKING:
    from agentrt.schema.algebra.space import Expr
    from agentrt.schema.load.loader import Loader, Scope

_MOST_WAYS = 4096


@dataclass(frozen=True, slots=True)
class _Way:
    """One way to apply: what the value must match, and what is then evaluated."""

    needs: tuple[Expr, ...] = ()
    names: frozenset[str] = frozenset()
    languages: tuple[Strings, ...] = ()
    every_name: bool = False
    items: int = 0
    every_item: bool = False
    contained: tuple[Expr, ...] = ()

    def joined(self, other: _Way) -> _Way:
        return _Way(
            (*self.needs, *other.needs),
            self.names | other.names,
            (*self.languages, *other.languages),
            self.every_name or other.every_name,
            max(self.items, other.items),
            self.every_item or other.every_item,
            (*self.contained, *other.contained),
        )


def constraint(loader: Loader, place: Place, scope: Scope) -> Expr:
    """What the unevaluated keywords of a schema ask for."""
    space = loader.space
    ways = _Ways(loader).of(place, scope, own=False)
    return space.any_of(
        space.all_of((*way.needs, _rest(loader, place, scope, way))) for way in dict.fromkeys(ways)
    )


def _rest(loader: Loader, place: Place, scope: Scope, way: _Way) -> Expr:
    space, schema = loader.space, place.schema
    everything = space.normal(space.anything)
    objects, arrays = everything.objects, everything.arrays
    if "unevaluatedProperties" in schema and not way.every_name:
        value = loader.schema(place.child("unevaluatedProperties"), scope)
        evaluated = [*way.languages]
        if way.names:
            evaluated.append(Strings(of_words(sorted(way.names))))
        shape = ObjectShape(
            tuple((n, space.anything) for n in sorted(way.names)),
            _split(space.anything, value, evaluated),
        )
        objects = (shape,)
    if "unevaluatedItems" in schema and not way.every_item:
        value = loader.schema(place.child("unevaluatedItems"), scope)
        rest = space.any_of((value, *way.contained))
        shaped = array(space, ArrayShape((space.anything,) * way.items, rest))
        arrays = () if shaped is None else (shaped,)
    return space.exact(
        replace(Values(True, True, True, everything.numbers, everything.strings),
                arrays=arrays, objects=objects)
    )  # fmt: skip


def _split(
    inside: Expr, outside: Expr, languages: list[Strings]
) -> tuple[tuple[Strings, Expr], ...]:
    left, classes = [EVERY_STRING], []
    for language in languages:
        classes += [(both, inside) for p in left if not (both := p.intersection(language)).is_empty]
        left = [
            both
            for p in left
            for c in language.complement()
            if not (both := p.intersection(c)).is_empty
        ]
    return (*classes, *((p, outside) for p in left))


class _Ways:
    def __init__(self, loader: Loader) -> None:
        self.loader = loader
        self.open: set[int] = set()

    def of(self, place: Place, scope: Scope, *, own: bool = True) -> list[_Way]:
        """Every way for a schema to apply. `own`: with its own unevaluated keywords."""
        schema: Any = place.schema
        if not isinstance(schema, dict):
            return [_Way()]
        if id(schema) in self.open:
            raise SchemaError(place.pointer, "unevaluated keywords over a reference to itself")
        self.open.add(id(schema))
        groups = [[self._alone(place, scope, own=own)], *self._applied(place, scope)]
        self.open.discard(id(schema))
        ways = groups[0]
        for group in groups[1:]:
            ways = list(dict.fromkeys(a.joined(b) for a, b in product(ways, group)))
            if len(ways) > _MOST_WAYS:
                raise SchemaTooLarge(
                    place.pointer,
                    f"there are more than {_MOST_WAYS} ways for what is unevaluated to come about",
                    "use fewer anyOf branches beside unevaluatedProperties or unevaluatedItems",
                )
        return ways

    def _alone(self, place: Place, scope: Scope, *, own: bool) -> _Way:
        schema = place.schema
        prefix = schema.get("prefixItems", schema.get("items"))
        listed = isinstance(prefix, list)
        following = "items" if "prefixItems" in schema else "additionalItems"
        every_item = (following in schema) if listed else "items" in schema
        contained: tuple[Expr, ...] = ()
        if "contains" in schema:
            contained = (self.loader.schema(place.child("contains"), scope),)
        return _Way(
            names=frozenset(schema.get("properties", ())),
            languages=tuple(
                pattern_strings(p, f"{place.pointer}/patternProperties/{escaped(p)}")
                for p in schema.get("patternProperties", ())
            ),
            every_name="additionalProperties" in schema
            or (own and "unevaluatedProperties" in schema),
            items=len(prefix) if listed else 0,
            every_item=every_item or (own and "unevaluatedItems" in schema),
            contained=contained,
        )

    def _applied(self, place: Place, scope: Scope) -> list[list[_Way]]:
        """The ways of each keyword that applies schemas to the same value."""
        loader, schema = self.loader, place.schema
        groups: list[list[_Way]] = []
        for keyword in ("$ref", "$dynamicRef", "$recursiveRef"):
            if isinstance(schema.get(keyword), str):
                groups.append(self.needed(*loader.target(place, keyword, scope)))
        for i in range(len(schema.get("allOf", ()))):
            groups.append(self.needed(place.child("allOf", i), scope))
        for keyword in ("anyOf", "oneOf"):
            if keyword in schema:
                groups.append(self.branches(place, keyword, scope))
        if "if" in schema:
            groups.append(self.conditional(place, scope))
        for name, child in keywords.dependent_schemas(place):
            absent = _Way((loader.absent(name),))
            present = _Way((loader.present(name),))
            groups.append([absent, *(present.joined(w) for w in self.needed(child, scope))])
        return groups

    def needed(self, place: Place, scope: Scope) -> list[_Way]:
        from agentrt.schema.load.loader import entered

        needs = _Way((self.loader.schema(place, scope),))
        return [needs.joined(w) for w in self.of(place, entered(scope, place.resource))]

    def branches(self, place: Place, keyword: str, scope: Scope) -> list[_Way]:
        count = len(place.schema[keyword])
        each = [self.needed(place.child(keyword, i), scope) for i in range(count)]
        if keyword == "oneOf":
            return [way for ways in each for way in ways]
        if count > 12:
            raise SchemaTooLarge(
                place.pointer, "anyOf with more than 12 branches beside an unevaluated keyword"
            )
        out: list[_Way] = []
        for size in range(1, count + 1):
            for chosen in combinations(each, size):
                for ways in product(*chosen):
                    way = _Way()
                    for w in ways:
                        way = way.joined(w)
                    out.append(way)
        return out

    def conditional(self, place: Place, scope: Scope) -> list[_Way]:
        space = self.loader.space
        condition = self.loader.schema(place.child("if"), scope)
        holds = self.needed(place.child("if"), scope)
        fails = [_Way((space.negation(condition),))]
        for keyword, ways in (("then", holds), ("else", fails)):
            if keyword in place.schema:
                more = self.needed(place.child(keyword), scope)
                ways[:] = [a.joined(b) for a, b in product(ways, more)]
        return [*holds, *fails]
