"""The keywords that say something of a value themselves, by kind of value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeGuard

from agentrt.errors import SchemaError
from agentrt.schema.algebra import consts
from agentrt.schema.algebra.combine import array, tidy_object
from agentrt.schema.algebra.shapes import (
    NUMBERS,
    STRINGS,
    ArrayShape,
    Contains,
    ObjectShape,
    Values,
)
from agentrt.schema.copying.marks import MARK
from agentrt.schema.load import contents, formats
from agentrt.schema.load.patterns import pattern_strings
from agentrt.schema.load.resources import Place, escaped
from agentrt.schema.values.numbers import INTEGERS, Numbers
from agentrt.schema.values.strings import EVERY_STRING, Strings

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from fractions import Fraction

    from agentrt.schema.algebra.space import Expr
    from agentrt.schema.load.loader import Loader, Scope

_TYPES = {"null", "boolean", "integer", "number", "string", "array", "object"}
_COPIED = {"string", "number", "integer"}
_NUMERIC = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_STRING = ("minLength", "maxLength", "pattern", "format", contents.MARK)
_ARRAY = (
    "items", "additionalItems", "prefixItems", "minItems", "maxItems", "uniqueItems", "contains",
)  # fmt: skip
_OBJECT = (
    "properties", "patternProperties", "additionalProperties", "propertyNames", "required",
    "minProperties", "maxProperties", "dependentRequired", "dependencies",
)  # fmt: skip


def own_constraints(loader: Loader, place: Place, scope: Scope) -> list[Expr]:
    """What the keywords of this schema itself ask for, each kind of value apart."""
    schema, space = place.schema, loader.space
    kinds = _types(place)
    everything = space.normal(space.anything)
    numbers, strings = NUMBERS, STRINGS
    arrays, objects = everything.arrays, everything.objects
    if "number" not in kinds:
        numbers = (INTEGERS,) if "integer" in kinds else ()
    is_copied = schema.get(MARK) is True
    if numbers and (is_copied or any(k in schema for k in _NUMERIC)):
        limited = _numbers(place)
        if is_copied:
            limited = limited.intersection(loader.passage(place).numbers)
        numbers = tuple(x for n in numbers if not (x := n.intersection(limited)).is_empty)
    if is_copied or any(k in schema for k in _STRING):
        strings = tuple(_strings(loader, place, scope)) if "string" in kinds else ()
        strings = tuple(s for s in strings if not s.is_empty)
    if any(k in schema for k in _ARRAY):
        shaped = _array(loader, place, scope)
        arrays = () if shaped is None else (shaped,)
    if any(k in schema for k in _OBJECT):
        shape = _object(loader, place, scope)
        objects = () if shape is None else (shape,)
    if is_copied and not (numbers or strings or kinds - _COPIED):
        space.why_empty[place.pointer] = (
            "the text has nothing that could be copied here, from word to word and no longer than "
            "maxLength, or 80 characters"
        )
    values = Values(
        "null" in kinds,
        "boolean" in kinds,
        "boolean" in kinds,
        numbers,
        strings if "string" in kinds else (),
        arrays if "array" in kinds else (),
        objects if "object" in kinds else (),
    )
    parts = [] if values == everything else [space.exact(values, place.pointer)]
    if "const" in schema:
        parts.append(consts.one_of(space, [schema["const"]], f"{place.pointer}/const"))
    if "enum" in schema:
        listed = _expect(place, "enum", list)
        parts.append(consts.one_of(space, listed, f"{place.pointer}/enum"))
    return parts


def _expect(place: Place, keyword: str, *kinds: type) -> Any:
    value = place.schema[keyword]
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        wanted = " or ".join(k.__name__ for k in kinds)
        raise SchemaError(
            f"{place.pointer}/{keyword}", f"{keyword} is {value!r:.60}, which is no {wanted}"
        )
    return value


def _types(place: Place) -> set[str]:
    if "type" not in place.schema:
        return _TYPES
    given = _expect(place, "type", str, list)
    listed = [given] if isinstance(given, str) else given
    unknown = [t for t in listed if not isinstance(t, str) or t not in _TYPES | {"any"}]
    if unknown:
        raise SchemaError(
            f"{place.pointer}/type", f"unknown type {unknown[0]!r}", f"one of {sorted(_TYPES)}"
        )
    return _TYPES if "any" in listed else set(listed)


def _number(place: Place, keyword: str) -> Fraction:
    return consts.as_fraction(_expect(place, keyword, int, float), f"{place.pointer}/{keyword}")


def _count(place: Place, keyword: str) -> int | None:
    if keyword not in place.schema:
        return None
    value = _number(place, keyword)
    if value.denominator != 1 or value < 0:
        raise SchemaError(f"{place.pointer}/{keyword}", f"{keyword} counts: {value} is no count")
    return int(value)


def _numbers(place: Place) -> Numbers:
    schema = place.schema
    found = Numbers()
    for keyword, strict in (("minimum", False), ("exclusiveMinimum", True)):
        if keyword in schema and not isinstance(schema[keyword], bool):
            # draft 4 has exclusiveMinimum: true beside minimum
            is_open = strict or schema.get("exclusiveMinimum") is True
            found = found.intersection(Numbers(lo=_number(place, keyword), lo_open=is_open))
    for keyword, strict in (("maximum", False), ("exclusiveMaximum", True)):
        if keyword in schema and not isinstance(schema[keyword], bool):
            is_open = strict or schema.get("exclusiveMaximum") is True
            found = found.intersection(Numbers(hi=_number(place, keyword), hi_open=is_open))
    if "multipleOf" in schema:
        step = _number(place, "multipleOf")
        if step <= 0:
            raise SchemaError(f"{place.pointer}/multipleOf", "multipleOf is above zero")
        found = found.intersection(Numbers(multiple=step))
    return found


def _strings(loader: Loader, place: Place, scope: Scope) -> list[Strings]:
    schema = place.schema
    found = Strings(None, _count(place, "minLength") or 0, _count(place, "maxLength"))
    if "pattern" in schema:
        pattern = _expect(place, "pattern", str)
        found = found.intersection(pattern_strings(pattern, f"{place.pointer}/pattern"))
    if "format" in schema and loader.options.formats == "assert":
        known = formats.strings(schema["format"], f"{place.pointer}/format")
        if known is not None:
            found = found.intersection(known)
    if schema.get(contents.MARK) is True:
        found = found.intersection(contents.content_strings(loader, place, scope))
    return [_copied(loader, place, found) if schema.get(MARK) is True else found]


def _copied(loader: Loader, place: Place, asked: Strings) -> Strings:
    """What is asked for, as far as it is there to be copied.

    Dates are written in many ways: where none is recognised, any may be given.
    """
    passage = loader.passage(place)
    if place.schema.get("format") == "date":
        named = asked.intersection(passage.dates)
        return asked if named.is_empty else named
    spans = passage.spans(asked.lo, asked.hi)
    return spans if asked.dfa is None else asked.intersection(spans)


def _array(loader: Loader, place: Place, scope: Scope) -> ArrayShape | None:
    schema, space = place.schema, loader.space
    prefix: tuple[Expr, ...] = ()
    rest = space.anything
    ordered = "prefixItems" if "prefixItems" in schema else "items"
    if isinstance(schema.get(ordered), list):
        listed = schema[ordered]
        prefix = tuple(loader.schema(place.child(ordered, i), scope) for i in range(len(listed)))
        following = "items" if ordered == "prefixItems" else "additionalItems"
        if following in schema:
            rest = loader.schema(place.child(following), scope)
    elif "items" in schema:
        rest = loader.schema(place.child("items"), scope)
    contains: tuple[Contains, ...] = ()
    if "contains" in schema:
        least = _count(place, "minContains")
        item = loader.schema(place.child("contains"), scope)
        lo = 1 if least is None else least
        contains = (Contains(item, 0, lo, _count(place, "maxContains")),)
    unique = schema.get("uniqueItems", False)
    if not isinstance(unique, bool):
        raise SchemaError(f"{place.pointer}/uniqueItems", "uniqueItems is true or false")
    lo, hi = _count(place, "minItems") or 0, _count(place, "maxItems")
    return array(space, ArrayShape(prefix, rest, lo, hi, contains, unique))


def _object(loader: Loader, place: Place, scope: Scope) -> ObjectShape | None:
    space = loader.space
    classes = _classes(loader, place, scope)
    named = {
        name: space.all_of([value, *_patterned(loader, place, name, scope)])
        for name, value in _named(loader, place, scope).items()
    }
    if "propertyNames" in place.schema:
        allowed = space.normal(loader.schema(place.child("propertyNames"), scope)).strings
        classes = tuple(
            (both, value)
            for names, value in classes
            for a in _disjoint(allowed)
            if not (both := names.intersection(a)).is_empty
        )
        refused = _refused(allowed)
        classes += tuple((names, space.nothing) for names in refused)
        for name in named:
            if not any(a.contains(name) for a in allowed):
                named[name] = space.nothing
    required = _required(place)
    lo, hi = _count(place, "minProperties") or 0, _count(place, "maxProperties")
    shape = ObjectShape(tuple(named.items()), classes, required, lo, hi, frozenset(_implied(place)))
    return tidy_object(space, shape)


def _disjoint(parts: tuple[Strings, ...]) -> list[Strings]:
    out: list[Strings] = []
    for part in parts:
        pieces = [part]
        for earlier in out:
            pieces = [
                both
                for piece in pieces
                for c in earlier.complement()
                if not (both := piece.intersection(c)).is_empty
            ]
        out += pieces
    return out


def _refused(parts: tuple[Strings, ...]) -> list[Strings]:
    pieces = [EVERY_STRING]
    for part in parts:
        pieces = [
            both
            for piece in pieces
            for c in part.complement()
            if not (both := piece.intersection(c)).is_empty
        ]
    return pieces


def _named(loader: Loader, place: Place, scope: Scope) -> dict[str, Expr]:
    if "properties" not in place.schema:
        return {}
    _expect(place, "properties", dict)
    return {
        name: loader.schema(place.child("properties", name), scope)
        for name in place.schema["properties"]
    }


def _patterned(loader: Loader, place: Place, name: str, scope: Scope) -> Iterator[Expr]:
    for pattern in place.schema.get("patternProperties", ()):
        pointer = f"{place.pointer}/patternProperties/{escaped(pattern)}"
        if pattern_strings(pattern, pointer).contains(name):
            yield loader.schema(place.child("patternProperties", pattern), scope)


def _classes(loader: Loader, place: Place, scope: Scope) -> tuple[tuple[Strings, Expr], ...]:
    """The names not under `properties`, by which of the patterns they match."""
    space, schema = loader.space, place.schema
    others = space.anything
    if "additionalProperties" in schema:
        others = loader.schema(place.child("additionalProperties"), scope)
    patterns = schema.get("patternProperties", {})
    if not isinstance(patterns, dict):
        raise SchemaError(f"{place.pointer}/patternProperties", "patternProperties is an object")
    # None marks the names that no pattern matches, so far
    cells: list[tuple[Strings, Expr | None]] = [(EVERY_STRING, None)]
    for pattern in patterns:
        pointer = f"{place.pointer}/patternProperties/{escaped(pattern)}"
        names = pattern_strings(pattern, pointer)
        value = loader.schema(place.child("patternProperties", pattern), scope)
        refined: list[tuple[Strings, Expr | None]] = []
        for cell, known in cells:
            inside = cell.intersection(names)
            if not inside.is_empty:
                both = value if known is None else space.all_of((known, value))
                refined.append((inside, both))
            refined += [
                (left, known)
                for c in names.complement()
                if not (left := cell.intersection(c)).is_empty
            ]
        cells = refined
    return tuple((names, others if value is None else value) for names, value in cells)


def _required(place: Place) -> frozenset[str]:
    given = place.schema.get("required", [])
    # draft 3 and the like put a boolean here, inside the property it speaks of
    if not _are_names(given):
        raise SchemaError(
            f"{place.pointer}/required",
            f"required is a list of property names, not {given!r:.60}",
            "list the names in the object's own `required`",
        )
    return frozenset(given)


def _implied(place: Place) -> Iterator[tuple[str, frozenset[str]]]:
    for keyword in ("dependentRequired", "dependencies"):
        for name, others in _dependent(place, keyword):
            if _are_names(others):
                yield name, frozenset(others)
            elif isinstance(others, str):
                yield name, frozenset({others})
            elif keyword == "dependentRequired" or not isinstance(others, dict | bool):
                raise SchemaError(
                    f"{place.pointer}/{keyword}/{escaped(name)}",
                    f"a list of property names is wanted, not {others!r:.60}",
                )


def _are_names(given: object) -> TypeGuard[list[str]]:
    return isinstance(given, list) and all(isinstance(name, str) for name in given)


def _dependent(place: Place, keyword: str) -> Iterable[tuple[str, Any]]:
    given = place.schema.get(keyword, {})
    if not isinstance(given, dict):
        raise SchemaError(f"{place.pointer}/{keyword}", f"{keyword} is an object")
    return given.items()


def dependent_schemas(place: Place) -> Iterator[tuple[str, Place]]:
    """Each property name with the schema that its presence brings."""
    for keyword in ("dependentSchemas", "dependencies"):
        for name, schema in _dependent(place, keyword):
            if keyword == "dependentSchemas" or isinstance(schema, dict | bool):
                yield name, place.child(keyword, name)
