"""Python types to JSON schemas, and generated text back to objects.

The schema is Pydantic's own (of what it validates), made stricter where Pydantic's validator asks
for more than its schema says: a Decimal's digits, the range of dates, what a URL's scheme may be.
"""

from __future__ import annotations

from typing import Any, cast

from pydantic import PydanticUserError, TypeAdapter
from pydantic.errors import PydanticInvalidForJsonSchema, PydanticSchemaGenerationError

from agentrt.errors import SchemaError
from agentrt.schema.copying.marks import schema_from, source_of, without_source
from agentrt.schema.typed.generator import Strict
from agentrt.schema.typed.texts import BINARY, LANGUAGES


def schema_of(kind: Any) -> dict[str, Any]:
    """The JSON schema (2020-12) of the values that a type validates from JSON.

    Anything `pydantic.TypeAdapter` takes. Keys that the type would ignore are not among them.
    Raises SchemaError for a type that JSON cannot describe, or of which it does not tell enough.
    """
    source = source_of(kind)
    if source is not None:
        return schema_from(schema_of(without_source(kind)), source.text, every=source.every)
    try:
        found = adapter(kind).json_schema(mode="validation", schema_generator=Strict)
    except (PydanticInvalidForJsonSchema, PydanticUserError, ImportError) as error:
        first = str(error).splitlines()[0]
        if isinstance(error, PydanticSchemaGenerationError):  # its advice is for fields of models
            raise SchemaError(
                "",
                f"{kind!r} is no type that Pydantic describes",
                "make it a BaseModel, a dataclass or a TypedDict, or give int, list[str], "
                "a Literal or the like",
            ) from None
        raise SchemaError("", f"{kind!r} has no JSON schema: {first}") from None
    return _as_generated(found)


def _as_generated(schema: Any) -> Any:
    """The schema with the languages of the formats that are Pydantic's own, and with objects that
    have no keys but their own where the type would ignore others."""
    if isinstance(schema, list):
        return [_as_generated(s) for s in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    known = cast("dict[str, Any]", schema)
    out = {key: _as_generated(value) for key, value in known.items()}
    if out.get("type") == "object" and "properties" in out and "patternProperties" not in out:
        out.setdefault("additionalProperties", False)
    counted = {"object": "Properties", "array": "Items"}.get(str(out.get("type")))
    for end in ("min", "max"):
        # bounds that a function checks are said in the word for texts, whatever they are of
        if counted and f"{end}Length" in out:
            out[f"{end}{counted}"] = out.pop(f"{end}Length")
    languages = BINARY if "contentMediaType" in out else LANGUAGES
    language = languages.get(str(out.get("format")))
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
