"""A program's signature as command-line arguments: required ones by place, others as options."""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, Literal, get_args, get_origin, get_type_hints

from pydantic import TypeAdapter, ValidationError

from agentrt.errors import InvalidRequest


def add_arguments(parser: argparse.ArgumentParser, function: Callable[..., Any]) -> list[str]:
    """Adds one argument for each parameter of `function`; returns their names.

    Values are read by the parameter's type, as text or, for objects and lists, as JSON. A flag is
    `--name` or `--no-name`, a list takes several values.
    """
    hints = get_type_hints(inspect.unwrap(function))
    names: list[str] = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise InvalidRequest(
                f"{parameter} of {function!r} cannot be given on a command line; call the program "
                "from Python"
            )
        _add(parser, parameter, hints.get(parameter.name, str))
        names.append(parameter.name)
    return names


def _add(parser: argparse.ArgumentParser, parameter: inspect.Parameter, hint: Any) -> None:
    is_required = parameter.default is inspect.Parameter.empty
    by_place = is_required and parameter.kind is not parameter.KEYWORD_ONLY and hint is not bool
    option = f"--{parameter.name.replace('_', '-')}"
    how: dict[str, Any] = {"metavar": parameter.name if by_place else parameter.name.upper()}
    if not is_required:
        how |= {"default": parameter.default, "help": f"{parameter.default!r} unless given"}
    if hint is bool:
        how = {**how, "action": argparse.BooleanOptionalAction}
        del how["metavar"]
    elif get_origin(hint) in (list, tuple, set, Sequence) and (inner := get_args(hint)):
        how |= {"type": reader(inner[0]), "nargs": "*"}
    else:
        how["type"] = reader(hint)
        how |= {"metavar": "{" + ",".join(words) + "}"} if (words := _words(hint)) else {}
    if by_place:
        parser.add_argument(parameter.name, **how)
    else:
        parser.add_argument(option, dest=parameter.name, required=is_required, **how)


def reader(hint: Any) -> Callable[[str], Any]:
    """Reads a text as a value of a type; what argparse calls, and words its errors."""
    adapter: TypeAdapter[Any] = TypeAdapter(hint)

    def read(text: str) -> Any:
        try:
            return adapter.validate_strings(text)
        except ValidationError as as_text:
            try:
                return adapter.validate_json(text)
            except ValidationError as as_json:
                error = as_json if text.lstrip().startswith(("{", "[")) else as_text
                first = error.errors()[0]
                where = "/".join(map(str, first["loc"]))
                raise argparse.ArgumentTypeError(
                    f"{text!r}: {where + ': ' if where else ''}{first['msg']}"
                ) from None

    return read


def _words(hint: Any) -> list[str]:
    if get_origin(hint) is Literal:
        return [str(value) for value in get_args(hint)]
    if isinstance(hint, type) and issubclass(hint, Enum):
        return [str(each.value) for each in hint]
    return []
