"""Python types to JSON schemas, and generated text back to objects.

The schema is Pydantic's own (of what it validates), made stricter where Pydantic's validator asks
for more than its schema says: a Decimal's digits, the range of dates, what a URL's scheme may be.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from pydantic import PydanticUserError, TypeAdapter
from pydantic.errors import PydanticInvalidForJsonSchema
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue

from agentrt.errors import SchemaError
from agentrt.schema.copying.marks import schema_from, source_of, without_source
from agentrt.schema.dates import Bound, date_pattern

if TYPE_CHECKING:
    from pydantic_core import core_schema

# years 1 to 9999, as Python's dates have them
_DATE_RANGE = r"^(?!0000)"
_MICROSECONDS = r"^(?!0000)[^.]*(\.[0-9]{1,6})?[^.]*$"
_DAY = r"(?!0000)[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])"
_CLOCK = r"([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,6})?"
# years that are past, or to come, whenever this runs
_NOW = {"past": "^(1[0-9]{3}|200[0-9])-", "future": "^[3-9][0-9]{3}-"}
_KEYS: dict[str, JsonSchemaValue] = {
    "integer": {"pattern": "^(0|-?[1-9][0-9]{0,15})$"},
    "number": {"pattern": r"^-?(0|[1-9][0-9]{0,15})(\.[0-9]{1,15})?$"},
    "boolean": {"enum": ["true", "false"]},
}
# a plain ISO 8601 duration that fits a timedelta, as Pydantic reads it
_TIMEDELTA = r"^P([0-9]{1,6}D)?(T[0-9]{1,5}S)?$"


def schema_of(kind: Any) -> dict[str, Any]:
    """The JSON schema (2020-12) of the values that a type validates from JSON.

    Anything `pydantic.TypeAdapter` takes. Keys that the type would ignore are not among them.
    Raises SchemaError for a type that JSON cannot describe.
    """
    source = source_of(kind)
    if source is not None:
        return schema_from(schema_of(without_source(kind)), source.text, every=source.every)
    try:
        found = adapter(kind).json_schema(mode="validation", schema_generator=_Strict)
    except (PydanticInvalidForJsonSchema, PydanticUserError) as error:
        first = str(error).splitlines()[0]
        raise SchemaError("", f"{kind!r} has no JSON schema: {first}") from None
    return _as_generated(found)


_HEX = "[0-9a-f]"
_LANGUAGES: dict[str, JsonSchemaValue] = {
    "ipvanyaddress": {"anyOf": [{"format": "ipv4"}, {"format": "ipv6"}]},
    "ipvanyinterface": {"anyOf": [{"format": "ipv4"}, {"format": "ipv6"}]},
    "ipvanynetwork": {"anyOf": [{"format": "ipv4"}, {"format": "ipv6"}]},
    "base64": {"pattern": "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"},
    "base64url": {"pattern": "^([A-Za-z0-9_-]{4})*([A-Za-z0-9_-]{2}==|[A-Za-z0-9_-]{3}=)?$"},
    **{
        f"uuid{n}": {
            "pattern": f"^{_HEX}{{8}}-{_HEX}{{4}}-{n}{_HEX}{{3}}-[89ab]{_HEX}{{3}}-{_HEX}{{12}}$"
        }
        for n in range(1, 9)
    },
}


def _as_generated(schema: Any) -> Any:
    """The schema with the languages of the formats that are Pydantic's own, and with objects that
    have no keys but their own where the type would ignore others."""
    if isinstance(schema, list):
        return [_as_generated(s) for s in schema]
    if not isinstance(schema, dict):
        return schema
    out = {key: _as_generated(value) for key, value in schema.items()}
    if out.get("type") == "object" and "properties" in out and "patternProperties" not in out:
        out.setdefault("additionalProperties", False)
    language = _LANGUAGES.get(str(out.get("format")))
    if out.get("type") == "string" and language is not None:
        del out["format"]
        out = {"allOf": [out, language]}
    return out


def validate_text(kind: Any, text: str | bytes) -> Any:
    """The object that a generated text means. Raises pydantic.ValidationError where the type's own
    validators, which no schema tells, refuse it."""
    return adapter(kind).validate_json(text)


def adapter(kind: Any) -> TypeAdapter[Any]:
    """Pydantic's adapter of a type."""
    return TypeAdapter(kind)


_BOUNDS: tuple[Bound, ...] = ("gt", "ge", "lt", "le")


def _refuse_bounds(schema: Any) -> None:
    """With time zones and fractions, what is later is not what is greater as a text."""
    for bound in _BOUNDS:
        if schema.get(bound) is not None:
            raise PydanticInvalidForJsonSchema(
                f"a bound on times ({bound}) is not enforced; validate it afterwards, or bound a "
                "date"
            )


class _Strict(GenerateJsonSchema):
    """Pydantic's generator, with what its validator asks beyond the usual schema."""

    def _get_alias_name(self, field: Any, name: str) -> str:
        """Pydantic's schema leaves out aliases that are paths, and asks for a key that its
        validator does not read."""
        alias = field.get("validation_alias")
        if isinstance(alias, list) and not self._config.validate_by_name:
            paths = cast("list[Any]", alias)
            if not any(isinstance(p, list) and len(cast("list[Any]", p)) == 1 for p in paths):
                raise PydanticInvalidForJsonSchema(
                    f"the alias of {name!r}, which is a path (AliasPath), is not enforced; let "
                    "AliasChoices name a key as well"
                )
        return super()._get_alias_name(field, name)

    def decimal_schema(self, schema: core_schema.DecimalSchema) -> JsonSchemaValue:
        """A JSON number or a string in plain decimal notation, with the digits that may be."""
        bounds = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum",
                  "lt": "exclusiveMaximum"}  # fmt: skip
        number: JsonSchemaValue = {"type": "number"}
        limits: dict[str, Any] = dict(schema)
        for key, keyword in bounds.items():
            if limits.get(key) is not None:
                number[keyword] = float(limits[key])
        places, digits = limits.get("decimal_places"), limits.get("max_digits")
        if limits.get("multiple_of") is not None:
            number["multipleOf"] = float(limits["multiple_of"])
        elif places is not None:
            number["multipleOf"] = float(f"1e-{places}") if places else 1
        if digits is not None:
            most = 10 ** (digits - (places or 0))
            if "maximum" not in number and "exclusiveMaximum" not in number:
                number["exclusiveMaximum"] = most
            if "minimum" not in number and "exclusiveMinimum" not in number:
                number["exclusiveMinimum"] = -most
            if places is None:
                number["multipleOf"] = 1
        return number

    def date_schema(self, schema: core_schema.DateSchema) -> JsonSchemaValue:
        """Dates are in order as texts, so their bounds are patterns."""
        found = {**super().date_schema(schema), "pattern": _DATE_RANGE}
        bounds: dict[str, Any] = dict(schema)
        patterns = [_NOW[schema["now_op"]]] if "now_op" in schema else []
        patterns += [date_pattern(b, bounds[b]) for b in _BOUNDS if bounds.get(b) is not None]
        return {"allOf": [found, *({"pattern": p} for p in patterns)]} if patterns else found

    def datetime_schema(self, schema: core_schema.DatetimeSchema) -> JsonSchemaValue:
        _refuse_bounds(schema)
        # no fraction beyond microseconds
        found = {**super().datetime_schema(schema), "pattern": _MICROSECONDS}
        if schema.get("tz_constraint") == "naive":
            found = {"type": "string", "pattern": rf"^{_DAY}T{_CLOCK}$"}
        return (
            {"allOf": [found, {"pattern": _NOW[schema["now_op"]]}]} if "now_op" in schema else found
        )

    def time_schema(self, schema: core_schema.TimeSchema) -> JsonSchemaValue:
        _refuse_bounds(schema)
        return {**super().time_schema(schema), "pattern": _MICROSECONDS.replace("(?!0000)", "")}

    def dict_schema(self, schema: core_schema.DictSchema) -> JsonSchemaValue:
        """Keys are strings of JSON: those of other types are written as such."""
        found = super().dict_schema(schema)
        if "patternProperties" in found:
            return {**found, "additionalProperties": False}
        keys = schema.get("keys_schema")
        if keys is not None and "propertyNames" not in found:
            names = self.generate_inner(keys)
            found["propertyNames"] = _KEYS.get(str(names.get("type")), names)
        return found

    def timedelta_schema(self, schema: core_schema.TimedeltaSchema) -> JsonSchemaValue:
        _refuse_bounds(schema)
        found = super().timedelta_schema(schema)
        if found.get("type") == "string":
            found = {**found, "pattern": _TIMEDELTA, "minLength": 3}
        return found

    def complex_schema(self, schema: core_schema.ComplexSchema) -> JsonSchemaValue:
        del schema
        part = r"[0-9]{1,9}(\.[0-9]{1,9})?"
        return {"type": "string", "pattern": rf"^-?{part}[+-]{part}j$"}

    def bytes_schema(self, schema: core_schema.BytesSchema) -> JsonSchemaValue:
        found = super().bytes_schema(schema)
        # lengths count bytes; of ASCII text they are characters
        if "minLength" in found or "maxLength" in found:
            found["pattern"] = r"^[\x00-\x7f]*$"
        return found

    def url_schema(self, schema: core_schema.UrlSchema) -> JsonSchemaValue:
        """URLs that every reader takes: a scheme that may be, a host name, a path of plain text."""
        schemes = schema.get("allowed_schemes") or ["http", "https"]
        most = schema.get("max_length")
        pattern = (
            rf"^({'|'.join(schemes)})://[a-z0-9]([a-z0-9-]{{0,20}}[a-z0-9])?"
            r"(\.[a-z]{2,10}){1,3}(:[1-9][0-9]{0,3})?(/[A-Za-z0-9._~-]*)*(\?[A-Za-z0-9=&._~-]*)?$"
        )
        found: JsonSchemaValue = {"type": "string", "pattern": pattern}
        if most is not None:
            found["maxLength"] = most
        return found

    def json_schema(self, schema: core_schema.JsonSchema) -> JsonSchemaValue:
        """Json[T] is a string of JSON: asked for where its language is plain."""
        del schema
        raise PydanticInvalidForJsonSchema(
            "JSON inside a JSON string (pydantic.Json) is not enforced; use the type itself"
        )
