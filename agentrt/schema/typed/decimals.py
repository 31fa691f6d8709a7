"""Decimals as JSON numbers: their digits as powers of ten that a number is a multiple of."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

from agentrt.errors import SchemaError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic.json_schema import JsonSchemaValue

_KEYWORDS = {
    "ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum", "lt": "exclusiveMaximum",
    "multiple_of": "multipleOf",
}  # fmt: skip


def decimal_schema(limits: Mapping[str, Any]) -> JsonSchemaValue:
    """The numbers that a core schema of decimals takes. Raises SchemaError for a bound that no
    JSON number of this process says exactly."""
    number: JsonSchemaValue = {"type": "number"}
    for key, keyword in _KEYWORDS.items():
        if limits.get(key) is not None:
            number[keyword] = _exact(limits[key])
    digits, places = limits.get("max_digits"), limits.get("decimal_places")
    if digits is None:
        return number if places is None else {"allOf": [number, _places(places)]}
    if places is None:
        # one more place after the point is one fewer before it
        return {"allOf": [number, {"anyOf": [_fitting(digits - n, n) for n in range(digits + 1)]}]}
    return {"allOf": [number, _fitting(max(digits - places, 0), min(places, digits))]}


def _exact(given: Any) -> int | float:
    value = Decimal(given)
    if value == value.to_integral_value():
        return int(value)
    if Decimal(repr(float(value))) != value:
        raise SchemaError("", f"{value} has more digits than a JSON number keeps", "round it")
    return float(value)


def _places(count: int) -> JsonSchemaValue:
    return {"multipleOf": float(f"1e-{count}") if count else 1}


def _fitting(whole: int, places: int) -> JsonSchemaValue:
    """So many digits before and after the point; without any before it, 0 is one too many."""
    most = 10**whole
    found = {"exclusiveMinimum": -most, "exclusiveMaximum": most, **_places(places)}
    return found if whole else {**found, "not": {"const": 0}}
