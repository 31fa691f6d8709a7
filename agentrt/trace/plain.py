"""Any value as a JSON value: attributes are, and what is not by somebody's mistake becomes one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence, Set, ValuesView
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from collections.abc import Iterable

    from agentrt.trace.spans import Value

_NUMBERS = {int, float, bool, type(None)}
_BYTES = bytes | bytearray | memoryview


def as_json(value: object) -> str:
    """Any value as JSON text; what JSON has no form for as `plain` says it."""
    try:
        text = _ENCODER.encode(value)
    except TypeError:  # a key that is none
        text = _ENCODER.encode(plain(value))
    return escaped(text)


def escaped(text: str) -> str:
    r"""A text with each half of a character that stands alone, which no encoding has, as \udXXX."""
    if text.isascii():
        return text
    return text.encode("utf-8", "backslashreplace").decode()


def plain(value: object) -> Value:
    """A value of plain dicts, lists, texts and numbers alone; bytes as the text they are, what JSON
    has no form for by its repr. A record that is a little off is better than none."""
    if type(value) in _NUMBERS:
        return cast("Value", value)
    if isinstance(value, str):
        return str.__str__(value)  # str() of an enum would be its name
    if isinstance(value, int):
        return int.__index__(value)
    if isinstance(value, float):
        return float.__float__(value)
    if isinstance(value, _BYTES):
        return bytes(value).decode("utf-8", "replace")
    if isinstance(value, Mapping):
        pairs = cast("Mapping[object, object]", value).items()
        return {_key(key): plain(inner) for key, inner in pairs}
    if isinstance(value, Sequence | Set | ValuesView):
        values = list(cast("Iterable[object]", value))
        return cast("list[Value]", values) if are_numbers(values) else [*map(plain, values)]
    return _described(value)


def are_numbers(values: Sequence[object]) -> bool:
    """Whether there is no text in them, and nothing that could turn into one."""
    return all(type(value) in _NUMBERS for value in values)


def is_plain(value: object) -> bool:
    """Whether a value is one of JSON as it is, with nothing in it that has to be described."""
    if isinstance(value, Mapping):
        pairs = cast("Mapping[object, object]", value).items()
        return all(isinstance(key, str) and is_plain(inner) for key, inner in pairs)
    if isinstance(value, list | tuple):
        return all(map(is_plain, cast("Sequence[object]", value)))
    return value is None or isinstance(value, str | int | float)


def _key(key: object) -> str:
    if isinstance(key, str):
        return str.__str__(key)
    described = plain(key)
    return described if isinstance(described, str) else str(described)


def _described(value: object) -> str:
    try:
        return repr(value)
    except Exception as error:
        return f"[not recorded: its repr raised {type(error).__name__}]"


_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=plain)
