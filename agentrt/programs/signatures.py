"""What a function takes, as a type that Pydantic validates: from its signature and docstring."""

from __future__ import annotations

import functools
import inspect
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, NotRequired, get_type_hints

from pydantic import ConfigDict, Field
from pydantic.fields import FieldInfo
from typing_extensions import TypedDict

from agentrt.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Callable

_HERE = "agentrt.programs."
_KINDS = {
    inspect.Parameter.VAR_POSITIONAL: "takes any number of arguments (*{name})",
    inspect.Parameter.VAR_KEYWORD: "takes arguments of any name (**{name})",
    inspect.Parameter.POSITIONAL_ONLY: "takes {name} by position only",
}


@dataclass(frozen=True, slots=True)
class Signature:
    """A function's arguments: `type` is a TypedDict of them, `defaults` what Field() gave some.

    `summary` is the docstring without its sections.
    """

    type: Any
    summary: str
    defaults: dict[str, FieldInfo] = field(default_factory=dict[str, FieldInfo])


def signature_of(function: Callable[..., Any], name: str) -> Signature:
    """Reads a function. Raises InvalidRequest for a signature that a model cannot be asked to fill.

    The docstring may be in Google's, numpydoc's or Sphinx's style, or in none.
    """
    bound = function.keywords if isinstance(function, functools.partial) else {}
    hints = _hints(function, name)
    summary, notes = _docstring(function)
    members: dict[str, Any] = {}
    defaults: dict[str, FieldInfo] = {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name in bound:
            continue
        if parameter.kind in _KINDS:
            how = _KINDS[parameter.kind].format(name=parameter.name)
            raise InvalidRequest(f"the tool {name} {how}; a model names every argument it gives")
        if parameter.name not in hints:
            raise InvalidRequest(
                f"the parameter {parameter.name} of the tool {name} has no type; annotate it"
            )
        members[parameter.name] = _member(parameter, hints[parameter.name], notes)
        if isinstance(parameter.default, FieldInfo) and not parameter.default.is_required():
            defaults[parameter.name] = parameter.default
    # The functional form, for names that are no attribute of a class body; 3.11's own TypedDict is
    # not one that Pydantic takes.
    made: Any = TypedDict(f"{name}_arguments", members)  # pyright: ignore[reportGeneralTypeIssues, reportArgumentType]
    made.__pydantic_config__ = ConfigDict(extra="forbid", arbitrary_types_allowed=False)
    return Signature(made, summary, defaults)


def _hints(function: Callable[..., Any], name: str) -> dict[str, Any]:
    plain = inspect.unwrap(_whole(function))
    readable = plain if inspect.isroutine(plain) else type(plain).__call__
    for names in (None, _names_of_caller()):
        try:
            return get_type_hints(readable, localns=names, include_extras=True)
        except NameError as error:
            missing = error
    raise InvalidRequest(
        f"a type in the signature of the tool {name} cannot be found: {missing}; define it in the "
        "module, or where the tool is made"
    )


def _names_of_caller() -> dict[str, Any]:
    """What is defined where the tool is made: types may be local to a function, as in tests."""
    frame = inspect.currentframe()
    while frame is not None and str(frame.f_globals.get("__name__")).startswith(_HERE):
        frame = frame.f_back
    return dict(frame.f_locals) if frame is not None else {}


def _whole(function: Callable[..., Any]) -> Callable[..., Any]:
    return function.func if isinstance(function, functools.partial) else function


def _docstring(function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """The text before the sections, and what is said of each argument."""
    import docstring_parser

    parsed = docstring_parser.parse(inspect.getdoc(_whole(function)) or "")
    parts = [part.strip() for part in (parsed.short_description, parsed.long_description) if part]
    notes = {each.arg_name: " ".join((each.description or "").split()) for each in parsed.params}
    return "\n\n".join(parts), notes


def _member(parameter: inspect.Parameter, hint: Any, notes: dict[str, str]) -> Any:
    """The type of an argument with its description; one with a default may be left out."""
    default = parameter.default
    if isinstance(default, FieldInfo):
        hint = Annotated[hint, default]
    note = notes.get(parameter.name)
    if note and not _is_described(hint):
        hint = Annotated[hint, Field(description=note)]
    is_required = default is inspect.Parameter.empty or (
        isinstance(default, FieldInfo) and default.is_required()
    )
    return hint if is_required else NotRequired[hint]


def _is_described(hint: Any) -> bool:
    notes = getattr(hint, "__metadata__", ())
    return any(isinstance(note, FieldInfo) and note.description for note in notes)
