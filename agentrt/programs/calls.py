"""Tool calls: the model writes them, they are run, and both become part of what was said."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, Unpack

import anyio
from pydantic import Field, TypeAdapter
from typing_extensions import TypeAliasType, TypedDict

from agentrt.errors import (
    BudgetExhausted,
    EngineClosed,
    EngineFailed,
    IntegrityError,
    InvalidRequest,
    ReplayDrift,
    Retry,
    ToolDenied,
    ToolFailed,
    UnsatisfiableSchema,
)
from agentrt.messages import ToolCall
from agentrt.programs.arguments import check_count, check_word
from agentrt.programs.budget import out_of_time, seconds_left
from agentrt.programs.combine import gather, uncancelled
from agentrt.programs.others import Offer, offers_of
from agentrt.programs.tools import AnyTool, Tool, as_text, as_tools, called
from agentrt.programs.turns import say, say_calls, say_results
from agentrt.trace import SpanKind, attributes, span

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentrt.programs.options import GenOptions
    from agentrt.programs.state import State

Choose = Literal["written", "likeliest"]
_NOT_FOR_THE_MODEL = (BudgetExhausted, EngineClosed, EngineFailed, IntegrityError, ReplayDrift)


@dataclass(frozen=True, slots=True)
class ToolResult:
    """A call and what came of it: `text` is what the model was told, `value` what was returned.

    `error` is what the tool raised, or the ToolDenied of a call that was not approved.
    """

    call: ToolCall
    text: str
    value: Any = None
    error: Exception | None = None

    @property
    def ok(self) -> bool:
        return self.error is None


@dataclass(frozen=True, slots=True)
class _Asked:
    """A call that the model wrote, with its arguments as the function's own types."""

    call: ToolCall
    tool: Tool[..., Any]
    arguments: dict[str, Any]


async def call_tools(
    s: State,
    tools: Sequence[AnyTool],
    *,
    most: int = 1,
    choose: Choose = "written",
    made: Sequence[ToolCall] | None = None,
    **options: Unpack[GenOptions],
) -> list[ToolResult]:
    """Lets the model call tools: it writes the calls, they run, and it is told what they gave.

        s.system("Answer with the help of tools.\\n" + describe_tools([search, calculate]))
        s.user(question)
        [found] = await call_tools(s, [search, calculate])

    Decoding is constrained to the tools' names and schemas, so every call is one that can be made.
    With `most` above 1 the model may write up to that many, which run at the same time.
    `choose="likeliest"` scores the names instead of writing one, which suits small models; it makes
    one call. Where the calls `made` so far are given, no call is written that is equal to one of
    them or to another; a tool of which all calls were made is not named, and where that is so of
    every tool it raises UnsatisfiableSchema. `options` are those of `State.gen`.

    What a tool raises is told to the model, or passed up as ToolFailed if the tool says so; a call
    that its `approve` hook denies likewise, as ToolDenied. Tools run within the budgets' seconds.
    After an exception the state is as it was before.
    """
    known = as_tools(tools)
    check_count("most", most, 1)
    check_word("choose", choose, ("written", "likeliest"))
    if choose == "likeliest" and most > 1:
        raise InvalidRequest('choose="likeliest" makes one call at a time; leave out most')
    before = s.transcript
    offers = await offers_of(s.runtime, known, made or ())
    if not offers:
        raise UnsatisfiableSchema("", "every call of these tools was made", "leave out made")
    with s.restored_on_error():
        if choose == "likeliest":
            asked = await _likeliest(s, offers, options)
        else:
            kind = _call_type(offers, most, made is not None)
            asked = await _written(s, known, kind, options)
        say_calls(s, before, [each.call for each in asked])
        results = await _run(s, asked)
        say_results(s, [(each.call, each.text) for each in results])
        return results


@lru_cache(maxsize=128)
def _call_type(offers: tuple[Offer, ...], most: int, apart: bool) -> Any:
    """The type of a call of one of these tools, or of a list of them, which differ if `apart`."""
    options = [
        TypedDict(f"{tool.name}_call", {"name": Literal[tool.name], "arguments": arguments})  # pyright: ignore
        for tool, arguments in offers
    ]
    one: Any = options[0]
    if len(options) > 1:
        one = Annotated[Union[tuple(options)], Field(discriminator="name")]  # noqa: UP007
    if most > 1:
        unique: dict[str, Any] = {"uniqueItems": True} if apart else {}
        one = Annotated[list[one], Field(min_length=1, max_length=most, json_schema_extra=unique)]
    named: Any = TypeAliasType  # called through Any: type checkers want aliases in modules only
    return named("tool_call", one)


async def _written(
    s: State, tools: tuple[Tool[..., Any], ...], kind: Any, options: GenOptions
) -> list[_Asked]:
    wanted = await s.gen(kind, **options)
    by_name = {each.name: each for each in tools}
    return [
        _asked(s, by_name[each["name"]], each["arguments"])
        for each in ([wanted] if isinstance(wanted, dict) else wanted)
    ]


async def _likeliest(s: State, offers: tuple[Offer, ...], options: GenOptions) -> list[_Asked]:
    """The name by likelihood, then its arguments; together the same text as one written whole."""
    say(s, '{"name":')
    heads = [f'"{each.tool.name}","arguments":' for each in offers]
    head = await s.select(heads) if len(heads) > 1 else heads[0]
    if len(heads) == 1:
        say(s, head)
    chosen, kind = offers[heads.index(head)]
    arguments = await s.gen(kind, **options)
    say(s, "}")
    return [_asked(s, chosen, arguments)]


def _asked(s: State, chosen: Tool[..., Any], arguments: dict[str, Any]) -> _Asked:
    text = TypeAdapter(chosen.arguments).dump_json(arguments).decode()
    return _Asked(ToolCall(s.new_call_id(), chosen.name, text), chosen, arguments)


async def _run(s: State, asked: list[_Asked]) -> list[ToolResult]:
    """Runs the calls at once, after all of them were asked about one by one."""
    with anyio.move_on_after(seconds_left()):
        denials = [await _denial(each) for each in asked]
        return await gather(*map(partial(_recorded, s), asked, denials))
    raise out_of_time()


async def _recorded(s: State, asked: _Asked, denial: str | None) -> ToolResult:
    call, chosen = asked.call, asked.tool
    described = {
        attributes.OPERATION_NAME: attributes.EXECUTE_TOOL,
        attributes.TOOL_NAME: call.name,
        attributes.TOOL_TYPE: "function",
        attributes.TOOL_DESCRIPTION: chosen.description,
        attributes.TOOL_CALL_ID: call.id,
        attributes.TOOL_CALL_ARGUMENTS: call.arguments,
    }
    try:
        with span(SpanKind.TOOL, call.name, described, parent=s.span) as current:
            if denial is not None:
                raise ToolDenied(call.name, call.arguments, denial)
            text = s.runtime.recorded_tool(call.name, call.arguments)
            if text is None:
                value = await uncancelled(chosen.run(asked.arguments))
                text = as_text(value)
            else:
                value = chosen.returned(text)
            current.set({attributes.TOOL_CALL_RESULT: text})
            return ToolResult(call, text, value)
    except _NOT_FOR_THE_MODEL:
        raise
    except Exception as error:
        if chosen.on_error == "model":
            return ToolResult(call, _told(error, chosen), error=error)
        if isinstance(error, ToolDenied):
            raise
        raise ToolFailed(call.name, call.arguments, error) from error


async def _denial(asked: _Asked) -> str | None:
    """Why a call may not run; None where it may."""
    if asked.tool.approve is None:
        return None
    given = deepcopy(asked.arguments)  # what runs is what was written, whatever it does to its own
    verdict = await called(asked.tool.approve, asked.tool, given)
    if isinstance(verdict, str):
        return verdict
    return None if verdict else "the call was not approved"


def _told(error: Exception, chosen: Tool[..., Any]) -> str:
    """An exception in words for the model."""
    if isinstance(error, ToolDenied):
        return f"Not allowed: {error.reason}"
    if isinstance(error, Retry):
        return error.reason
    if isinstance(error, TimeoutError) and not str(error):
        return f"Error: no answer within {chosen.timeout:g} seconds" if chosen.timeout else "Error"
    return f"Error: {type(error).__name__}: {error}"
