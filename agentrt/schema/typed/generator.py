"""Pydantic's schema generator, with what its validator asks beyond the usual schema."""

from __future__ import annotations

import json
from contextlib import contextmanager
from enum import Enum
from typing import TYPE_CHECKING, Any, cast

from pydantic import ByteSize
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import SchemaValidator, ValidationError

from agentrt.errors import SchemaError
from agentrt.schema.load.contents import MARK
from agentrt.schema.load.formats import DATE
from agentrt.schema.load.resources import escaped
from agentrt.schema.typed import texts
from agentrt.schema.typed.aliases import PathTree, path_of
from agentrt.schema.typed.dates import BOUNDS, bound_patterns, zone_of
from agentrt.schema.typed.decimals import decimal_schema

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping, Sequence

    from pydantic_core import CoreSchema, core_schema

# years that are past, or to come, whenever this runs
_NOW = {"past": "^(1[0-9]{3}|200[0-9])-", "future": "^[3-9][0-9]{3}-"}
# seconds that a timedelta surely holds
_TIMEDELTAS = {"minimum": -1e13, "maximum": 1e13}
# what is one thing to a set or to a dict
_HASHABLE: JsonSchemaValue = {"type": ["null", "boolean", "number", "string"]}
# Pydantic's own validators that ask the machine they run on
_UNKNOWN_BEFORE = {
    "validate_file": ("whether a file exists", "use pathlib.Path"),
    "validate_directory": ("whether a folder exists", "use pathlib.Path"),
    "validate_new": ("whether a path is free", "use pathlib.Path"),
    "validate_socket": ("whether a socket exists", "use pathlib.Path"),
    "import_string": ("whether a name can be imported", "use str, or a Literal of such names"),
    "pattern_bytes_validator": ("a pattern of bytes", "use Pattern[str]"),
}


class Strict(GenerateJsonSchema):
    """The schema of what a type validates from JSON, and of nothing that it would refuse."""

    def generate_inner(self, schema: Any) -> JsonSchemaValue:
        function: Any = schema.get("function")
        validator = function.get("function") if isinstance(function, dict) else None
        name = getattr(validator, "__name__", "")
        if name in _UNKNOWN_BEFORE and validator.__module__.startswith("pydantic."):
            why, suggestion = _UNKNOWN_BEFORE[name]
            raise SchemaError("", f"{why} is not known from JSON", suggestion)
        return super().generate_inner(schema)

    def _named_required_fields_schema(
        self, named_required_fields: Sequence[tuple[str, bool, Any]]
    ) -> JsonSchemaValue:
        """Fields one by one, so that an error says which; those that are read by a path, nested."""
        properties: dict[str, JsonSchemaValue] = {}
        required: list[str] = []
        paths: dict[str, PathTree] = {}
        for each in named_required_fields:
            name, is_required, field = each
            path = None if self._config.validate_by_name else path_of(field.get("validation_alias"))
            with _within(name):
                found = super()._named_required_fields_schema([each])
            if path is None:
                properties |= found["properties"]
                required += found.get("required", ())
                continue
            for schema in found["properties"].values():
                tree = paths.setdefault(str(path[0]), PathTree())
                tree.add(path[1:], schema, required=is_required)
        for head, tree in paths.items():
            if head in properties:
                tree.add((), properties[head], required=head in required)
            with _within(head):
                properties[head] = tree.as_schema()
            if tree.required and head not in required:
                required.append(head)
        needed = {"required": required} if required else {}
        return {"type": "object", "properties": properties, **needed}

    def decimal_schema(self, schema: core_schema.DecimalSchema) -> JsonSchemaValue:
        """A JSON number with the digits that may be."""
        return decimal_schema(cast("dict[str, Any]", schema))

    def date_schema(self, schema: core_schema.DateSchema) -> JsonSchemaValue:
        """Dates of years 1 to 9999, as Python has them; in order as texts."""
        found = super().date_schema(schema)
        return _with_patterns(found, [*_now(schema), *bound_patterns(_limits(schema))])

    def datetime_schema(self, schema: core_schema.DatetimeSchema) -> JsonSchemaValue:
        """To microseconds. Moments without a zone, and those with bounds, which are in order as
        texts in whole seconds, of UTC if with a zone."""
        limits = _limits(schema)
        zone = zone_of(limits)
        found = {**super().datetime_schema(schema), "pattern": f"^{texts.MICROSECONDS}$"}
        if zone == "naive" or schema.get("tz_constraint") == "naive":
            fraction = "" if zone else texts.FRACTION
            text = rf"{DATE}T{texts.CLOCK}{fraction}"
            found = {"type": "string", "pattern": f"^{text}$"}
        elif zone == "aware":
            found["pattern"] = rf"^{DATE}T{texts.CLOCK}Z$"
        return _with_patterns(found, [*_now(schema), *bound_patterns(limits)])

    def time_schema(self, schema: core_schema.TimeSchema) -> JsonSchemaValue:
        limits = _limits(schema)
        if zone_of(limits):
            found: JsonSchemaValue = {"type": "string", "pattern": f"^{texts.CLOCK}$"}
            return _with_patterns(found, bound_patterns(limits))
        return {**super().time_schema(schema), "pattern": f"^{texts.MICROSECONDS}$"}

    def timedelta_schema(self, schema: core_schema.TimedeltaSchema) -> JsonSchemaValue:
        """A duration; with bounds, its seconds as a number."""
        limits = _limits(schema)
        keywords = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum",
                    "lt": "exclusiveMaximum"}  # fmt: skip
        given = {b: limits[b] for b in BOUNDS if limits.get(b) is not None}
        if given:
            if schema.get("strict", self._config.strict):
                raise SchemaError(
                    "", "bounds on durations are of numbers, which strict does not read",
                    "leave strict or the bounds out",
                )  # fmt: skip
            bounds = {keywords[b]: bound.total_seconds() for b, bound in given.items()}
            return {"type": "number", "multipleOf": 0.001, **_TIMEDELTAS, **bounds}
        found = super().timedelta_schema(schema)
        if found.get("type") == "string":
            found = {**found, "pattern": texts.TIMEDELTA, "minLength": 3}
        return found

    def dict_schema(self, schema: core_schema.DictSchema) -> JsonSchemaValue:
        return self._with_keys(schema, super().dict_schema(schema))

    def ordered_dict_schema(self, schema: core_schema.OrderedDictSchema) -> JsonSchemaValue:
        return self._with_keys(schema, super().ordered_dict_schema(schema))

    def frozendict_schema(self, schema: core_schema.FrozenDictSchema) -> JsonSchemaValue:
        return self._with_keys(schema, super().frozendict_schema(schema))

    def counter_schema(self, schema: core_schema.CounterSchema) -> JsonSchemaValue:
        return self._with_keys(schema, super().counter_schema(schema))

    def _with_keys(self, schema: Mapping[str, Any], found: JsonSchemaValue) -> JsonSchemaValue:
        if "patternProperties" in found:
            return {**found, "additionalProperties": False}
        keys = schema.get("keys_schema")
        return found if keys is None else {**found, "propertyNames": self._keys(keys)}

    def _keys(self, keys: Any) -> JsonSchemaValue:
        """The strings that keys are read from: those of other types are written as such."""
        match keys["type"]:
            case "nullable":  # no key is read as None
                return self._keys(keys["schema"])
            case "union":
                choices = [c[0] if isinstance(c, tuple) else c for c in keys["choices"]]
                return {"anyOf": [self._keys(choice) for choice in choices]}
            case "literal" | "enum":
                return {"enum": _keys_read(keys)}
            case _:
                return _as_key(self.generate_inner(keys))

    def set_schema(self, schema: core_schema.SetSchema) -> JsonSchemaValue:
        return _hashable_items(super().set_schema(schema))

    def frozenset_schema(self, schema: core_schema.FrozenSetSchema) -> JsonSchemaValue:
        return _hashable_items(super().frozenset_schema(schema))

    def custom_error_schema(self, schema: core_schema.CustomErrorSchema) -> JsonSchemaValue:
        if schema.get("custom_error_type") == "is_hashable":
            return dict(_HASHABLE)
        return super().custom_error_schema(schema)

    def is_subclass_schema(self, schema: core_schema.IsSubclassSchema) -> JsonSchemaValue:
        raise SchemaError("", f"a class ({schema['cls']!r}) is not read from JSON", "use a Literal")

    def enum_schema(self, schema: core_schema.EnumSchema) -> JsonSchemaValue:
        return _only_read(schema, super().enum_schema(schema))

    def literal_schema(self, schema: core_schema.LiteralSchema) -> JsonSchemaValue:
        return _only_read(schema, super().literal_schema(schema))

    def str_schema(self, schema: core_schema.StringSchema) -> JsonSchemaValue:
        found = super().str_schema(schema)
        pattern = found.get("pattern")
        if pattern == ByteSize.byte_string_pattern:
            found["pattern"] = texts.byte_size_pattern()
        elif isinstance(pattern, str):
            found["pattern"] = texts.ecma_pattern(pattern)
        if schema.get("strip_whitespace", self._config.str_strip_whitespace):
            return _with_patterns(found, [texts.STRIPPED])
        return found

    def complex_schema(self, schema: core_schema.ComplexSchema) -> JsonSchemaValue:
        del schema
        return {"type": "string", "pattern": texts.COMPLEX}

    def bytes_schema(self, schema: core_schema.BytesSchema) -> JsonSchemaValue:
        """UTF-8, or as the configuration says; lengths count bytes, of ASCII text characters."""
        found = super().bytes_schema(schema)
        lengths = (schema.get("min_length") or 0, schema.get("max_length"))
        written = self._config.val_json_bytes
        if written == "hex":
            return {"type": "string", "pattern": texts.hex_pattern(*lengths)}
        if written == "base64":
            lo, hi = lengths
            return {"type": "string", "pattern": texts.base64_pattern(url=True, lo=lo, hi=hi)}
        if lengths != (0, None):
            found["pattern"] = r"^[\x00-\x7f]*$"
        return {**found, "contentMediaType": "application/octet-stream"}

    def url_schema(self, schema: core_schema.UrlSchema) -> JsonSchemaValue:
        schemes = schema.get("allowed_schemes") or ["http", "https"]
        found: JsonSchemaValue = {"type": "string", "pattern": texts.url_pattern(schemes)}
        most = schema.get("max_length")
        return found if most is None else {**found, "maxLength": most}

    def multi_host_url_schema(self, schema: core_schema.MultiHostUrlSchema) -> JsonSchemaValue:
        """Of one host."""
        return self.url_schema(cast("core_schema.UrlSchema", schema))

    def json_schema(self, schema: core_schema.JsonSchema) -> JsonSchemaValue:
        return {**super().json_schema(schema), MARK: True}


@contextmanager
def _within(name: str) -> Generator[None]:
    """Says of errors which field they are of."""
    try:
        yield
    except SchemaError as error:
        where = f"/properties/{escaped(name)}{error.pointer}"
        raise SchemaError(where, error.reason, error.suggestion) from None


def _limits(schema: CoreSchema) -> dict[str, Any]:
    return cast("dict[str, Any]", schema)


def _now(schema: Any) -> Iterator[str]:
    if "now_op" in schema:
        yield _NOW[schema["now_op"]]


def _with_patterns(found: JsonSchemaValue, patterns: list[str]) -> JsonSchemaValue:
    return {"allOf": [found, *({"pattern": p} for p in patterns)]} if patterns else found


def _hashable_items(found: JsonSchemaValue) -> JsonSchemaValue:
    return found if found["items"] else {**found, "items": dict(_HASHABLE)}


def _as_key(names: JsonSchemaValue) -> JsonSchemaValue:
    """The strings that keys of these values are written as."""
    parts = (names, *names.get("allOf", ()))
    if any(part.get("type") in ("integer", "number", "boolean") for part in parts):
        return {
            "type": "string",
            "contentMediaType": "application/json",
            "contentSchema": names,
            MARK: True,
        }
    for keyword in ("anyOf", "oneOf"):
        if keyword in names:
            return {**names, keyword: [_as_key(each) for each in names[keyword]]}
    return names


def _only_read(schema: CoreSchema, found: JsonSchemaValue) -> JsonSchemaValue:
    """Of an enum or a Literal, the values that are read back from JSON: no tuples, dates, bytes."""
    given = [found["const"]] if "const" in found else found["enum"]
    reader = SchemaValidator(schema)
    kept = [value for value in given if _is_read(reader, value)]
    if not kept:
        raise SchemaError(
            "", f"none of {given!r:.100} is read back from JSON", "give values that JSON has"
        )
    return found if "const" in found else {**found, "enum": kept}


def _keys_read(keys: Any) -> list[str]:
    """Of an enum or a Literal, the keys that are read as one of its values."""
    given = keys["expected"] if keys["type"] == "literal" else keys["members"]
    values = [each.value if isinstance(each, Enum) else each for each in given]
    texts = [v if isinstance(v, str) else json.dumps(v, default=str) for v in values]
    reader = SchemaValidator({"type": "dict", "keys_schema": keys})
    kept = [text for text in dict.fromkeys(texts) if _is_read(reader, {text: None})]
    if not kept:
        raise SchemaError("", f"none of {values!r:.100} is read from a key", "give keys of text")
    return kept


def _is_read(reader: SchemaValidator, value: Any) -> bool:
    try:
        reader.validate_json(json.dumps(value, allow_nan=False))
    except (ValueError, ValidationError):
        return False
    return True
