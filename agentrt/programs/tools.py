"""Tools: functions that a model may call, with arguments that always fit."""

from __future__ import annotations

import functools
import inspect
import json
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, Literal, ParamSpec, TypeVar, cast, get_type_hints, overload

import anyio
import anyio.lowlevel
from pydantic import PydanticUserError, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError, to_json

from agentrt.errors import InvalidRequest
from agentrt.programs.arguments import (
    check_function,
    check_hook,
    check_name,
    check_number,
    check_text,
    check_word,
    wrong,
)
from agentrt.programs.describe import describe
from agentrt.programs.signatures import signature_of
from agentrt.runtime.checks import meant
from agentrt.schema import schema_of
from agentrt.threads import in_thread

P = ParamSpec("P")
T = TypeVar("T")

OnError = Literal["model", "raise"]
MOST_THREADS = 40
"""Sync tools that run at the same time in one event loop; those left behind do not count."""

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_limiter: anyio.lowlevel.RunVar[anyio.CapacityLimiter] = anyio.lowlevel.RunVar("agentrt_tools")

Approve = Callable[["Tool[..., Any]", dict[str, Any]], Any]
"""Asked before a call with the tool and a copy of its arguments, sync (then in a thread) or async:
True lets it run; False, or a text that says why, does not."""


class Tool(Generic[P, T]):
    """A function as a tool; made by :func:`tool`. Calling it calls the function.

    `schema` is the JSON schema of its arguments, `arguments` the type that they validate as.
    """

    def __init__(
        self,
        function: Callable[P, T],
        *,
        name: str | None = None,
        description: str | None = None,
        timeout: float | None = None,
        on_error: OnError = "model",
        approve: Approve | None = None,
    ) -> None:
        check_function("function", function, "a function, sync or async")
        if name is not None:
            check_name("name", name)
        if description is not None:
            check_text("description", description)
        if timeout is not None:
            check_number("timeout", timeout, "seconds, more than 0, or None for no limit")
        if timeout == 0:
            raise wrong("timeout", timeout, "seconds, more than 0, or None for no limit")
        check_word("on_error", on_error, ("model", "raise"))
        check_hook("approve", approve, "the tool and its arguments")
        self.name = name or getattr(function, "__name__", type(function).__name__)
        if inspect.isasyncgenfunction(inspect.unwrap(function)):
            raise InvalidRequest(
                f"the tool {self.name} is an async generator, which gives a model nothing to read; "
                "return a list of what it yields"
            )
        signature = signature_of(function, self.name)
        functools.update_wrapper(self, function)
        self.description = signature.summary if description is None else description
        self.arguments = signature.type
        self.schema: dict[str, Any] = schema_of(signature.type)
        self.timeout = timeout
        self.on_error: OnError = on_error
        self.approve = approve
        self._function = function
        self._defaults = signature.defaults
        self._adapter: TypeAdapter[dict[str, Any]] = TypeAdapter(signature.type)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<tool {self.name}>"

    async def call(self, arguments: Mapping[str, Any] | str) -> str:
        """Validates the arguments (a mapping, or JSON text), calls the function, gives its text.

        Raises InvalidRequest for arguments that do not fit, TimeoutError past the tool's `timeout`,
        and whatever the function raises.
        """
        return as_text(await self.run(self.validated(arguments)))

    def validated(self, arguments: Mapping[str, Any] | str) -> dict[str, Any]:
        """The arguments as the function's own types. Raises InvalidRequest."""
        try:
            if isinstance(arguments, str):
                return self._adapter.validate_json(arguments)
            return self._adapter.validate_python(dict(arguments))
        except ValidationError as error:
            wrong = "; ".join(
                f"{'.'.join(map(str, each['loc'])) or 'arguments'}: {each['msg']}"
                for each in error.errors()
            )
            raise InvalidRequest(
                f"the arguments do not fit the tool {self.name}: {wrong}"
            ) from error

    async def run(self, arguments: dict[str, Any]) -> Any:
        """Calls the function with validated arguments; a sync one in a thread.

        A thread cannot be stopped: where its caller is cancelled or out of time, it is left to end
        by itself and what it returns is dropped.
        """
        given = {
            **{name: each.get_default(call_default_factory=True, validated_data=arguments)
               for name, each in self._defaults.items()},
            **arguments,
        }  # fmt: skip
        call = functools.partial(cast("Callable[..., Any]", self._function), **given)
        with anyio.fail_after(self.timeout):
            return await called(call)

    def returned(self, text: str) -> Any:
        """The value whose text (`as_text`) this is, by the function's return type; else the text.

        For results that come from a record.
        """
        kind = get_type_hints(self).get("return", Any)
        if kind is str:
            return text
        try:
            return TypeAdapter[Any](kind).validate_json(text)
        except (ValidationError, PydanticUserError):
            return text


@overload
def tool(function: Callable[P, T], /) -> Tool[P, T]: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    timeout: float | None = None,
    on_error: OnError = "model",
    approve: Approve | None = None,
) -> Callable[[Callable[P, T]], Tool[P, T]]: ...
def tool(function: Callable[P, T] | None = None, /, **options: Any) -> Any:
    """Makes a tool of a function, sync or async.

        @tool
        async def search(query: str, limit: int = 3) -> list[str]:
            \"\"\"Finds pages of the encyclopaedia.

            Args:
                query: what to look for
            \"\"\"

    Its name, the docstring and the types of its arguments are what the model is told. With options:
    `timeout` is seconds a call may take; `on_error="raise"` passes what it raises up as ToolFailed,
    where by default the model is told; `approve` is asked before each call (see `Approve`).

    Raises InvalidRequest for arguments without types, or that have no names, and for options that
    make no sense.
    """
    if function is not None:
        return Tool(function)
    known = list(inspect.signature(Tool).parameters)[1:]
    for name in options:
        if name not in known:
            raise InvalidRequest(f"{name} is no option of a tool; {meant(name, known)}")
    return functools.partial(Tool, **options)


AnyTool = Tool[..., Any] | Callable[..., Any]


def as_tools(given: Sequence[AnyTool]) -> tuple[Tool[..., Any], ...]:
    """Functions and tools as tools. Raises InvalidRequest for none, or two of one name."""
    if not isinstance(given, Iterable) or isinstance(given, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise wrong("tools", given, "a list of functions or tools")
    tools = tuple(each if isinstance(each, Tool) else Tool(each) for each in given)
    names = [each.name for each in tools]
    if not names:
        raise InvalidRequest("no tools were given; give one or more")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InvalidRequest(f"several tools are named {', '.join(twice)}; use @tool(name=...)")
    return tools


async def called(function: Callable[..., Any], *args: Any) -> Any:
    """Calls a function, sync ones in a thread, and awaits what is to be awaited."""
    plain = function.func if isinstance(function, functools.partial) else function
    whole = plain if inspect.isroutine(plain) else getattr(plain, "__call__", plain)  # noqa: B004
    if inspect.iscoroutinefunction(whole):
        return await function(*args)
    async with _threads():
        # A thread that is left behind runs on, and no longer counts.
        result = await in_thread(functools.partial(function, *args), abandon=True)
    return await result if isinstance(result, Awaitable) else result


def _threads() -> anyio.CapacityLimiter:
    """How many sync tools run at once in this event loop."""
    try:
        return _limiter.get()
    except LookupError:
        limiter = anyio.CapacityLimiter(MOST_THREADS)
        _limiter.set(limiter)
        return limiter


def as_text(value: object) -> str:
    """What a tool returned, as a model reads it: text as it is, anything else as JSON.

    Half surrogate pairs, which are no Unicode, are read as U+FFFD.
    """
    text = value if isinstance(value, str) else _as_json(value)
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def steady_repr(value: object) -> str:
    """Its repr, less the address that objects without one of their own have in it: what a model
    is told, and so its answer, is then the same in every run."""
    return _ADDRESS.sub("", repr(value))


def _as_json(value: object) -> str:
    try:
        return to_json(value, fallback=steady_repr).decode()
    except PydanticSerializationError:  # such as half a surrogate pair in a text
        return json.dumps(value, default=steady_repr, ensure_ascii=False, separators=(",", ":"))


def describe_tools(tools: Sequence[AnyTool]) -> str:
    """What tools there are and how one is called, for the system prompt."""
    known = as_tools(tools)
    example = json.dumps({"name": "...", "arguments": {}}, separators=(",", ":"))
    lines = [f"Tools you can call, by writing JSON such as {example}:"]
    for each in known:
        lines.append(f"- {each.name}: {' '.join(each.description.split())}".rstrip(": "))
        lines += [f"  {line}" for line in describe(each.schema).splitlines()]
    return "\n".join(lines)
