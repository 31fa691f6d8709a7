"""What a program is known by from one run to the next, and what type its results are of."""

from __future__ import annotations

import inspect
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeVar, get_args, get_origin, get_type_hints

from pydantic import PydanticUserError, TypeAdapter
from pydantic_core import to_json

from agentrt.errors import InvalidRequest, NoRuntime, SchemaError
from agentrt.programs.program import Program
from agentrt.programs.tools import steady_repr
from agentrt.runtime.runtime import current_runtime
from agentrt.schema import schema_of

if TYPE_CHECKING:
    from collections.abc import Callable


def identity_of(program: Callable[..., Any]) -> str:
    """Its name and source, what a `partial` binds, a program's options, and the model."""
    return repr((_described(program), _model()))


def results_of(program: Callable[..., Any]) -> TypeAdapter[Any]:
    """How its results become JSON and come back. Raises InvalidRequest where no type says so.

    Of `async def f(kind: type[T], ...) -> T` it is the type that a `partial` binds, as of
    `partial(extract, Invoice)`.
    """
    function = plain(program)
    name = getattr(program, "__qualname__", None) or getattr(function, "__qualname__", program)
    try:
        kind = _hint(function, "return")
        if isinstance(kind, TypeVar):
            kind = _bound_to(program, kind)
        return TypeAdapter(Any if isinstance(kind, dict) else kind)
    except KeyError:
        raise InvalidRequest(
            f"resume= keeps results by their type, and {name} has no return type; annotate it"
        ) from None
    except (NameError, PydanticUserError) as error:
        raise InvalidRequest(f"resume= cannot keep what {name} returns: {error}") from error


def plain(program: Callable[..., Any]) -> Any:
    """The function that does the work: of a program, its body."""
    while isinstance(program, partial):
        program = program.func
    function = inspect.unwrap(program)
    return function if inspect.isroutine(function) else type(function).__call__


def _described(value: object) -> Any:
    """A value that is no JSON, by what it does or looks like: the same in the next process."""
    if isinstance(value, partial):
        bound = to_json((value.args, value.keywords), fallback=_described).decode()
        return [_described(value.func), bound]
    if isinstance(value, Program):
        options = to_json(value.options, fallback=_described).decode()
        return [_described(plain(value)), options]
    if isinstance(value, type) or get_origin(value) is not None:
        return [steady_repr(value), _schema(value)]
    if not callable(value):
        return steady_repr(value)
    function = plain(value)
    try:
        source = inspect.getsource(function)
    except (OSError, TypeError):  # typed into an interpreter, or not a function
        source = ""
    return [function.__qualname__, source]


def _schema(kind: Any) -> Any:
    try:
        return schema_of(kind)
    except SchemaError:
        return None


def _model() -> str:
    try:
        return current_runtime().model_name
    except NoRuntime:
        return ""


def _hint(function: Any, name: str) -> Any:
    """One annotation alone: the types of the others may be there for type checkers only."""
    annotated = SimpleNamespace(__annotations__={name: function.__annotations__[name]})
    names = getattr(function, "__globals__", {})
    return get_type_hints(annotated, names, include_extras=True)[name]


def _bound_to(program: Callable[..., Any], variable: TypeVar) -> Any:
    """What a partial binds to the parameter that a type variable is the type of."""
    if isinstance(program, partial):
        function, signature = plain(program), inspect.signature(program.func)
        given = signature.bind_partial(*program.args, **program.keywords).arguments
        for name, value in given.items():
            if "type[" not in str(function.__annotations__.get(name)):
                continue
            if get_args(_hint(function, name)) == (variable,):
                return value
    raise KeyError(variable)
