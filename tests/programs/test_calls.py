"""Calls of tools: written by the model, run, told to it; approval, failure, budgets, templates."""

from __future__ import annotations

import asyncio
import json
import math
from typing import TYPE_CHECKING, Annotated, Any

import anyio
import pytest
from pydantic import AfterValidator

from agentrt import (
    Budget,
    BudgetExhausted,
    CancelledBranch,
    InvalidRequest,
    Message,
    Retry,
    Runtime,
    State,
    ToolDenied,
    ToolFailed,
    call_tools,
    program,
    tool,
)
from agentrt.testing import ScriptedModel
from agentrt.trace import SpanKind, SpanStatus
from tests.programs.talking import answering
from tests.trace.sinks import listening

if TYPE_CHECKING:
    pass

pytestmark = pytest.mark.anyio


@tool
def add(a: int, b: int = 2) -> int:
    """Adds."""
    return a + b


@tool
async def find(query: str) -> str:
    """Finds."""
    raise KeyError(query)


@tool(on_error="raise")
async def strict(query: str) -> str:
    """Finds or fails."""
    raise LookupError(query)


ADD = '{"name":"add","arguments":{"a":1}}'
FIND = '{"name":"find","arguments":{"query":"x"}}'


async def test_a_call_is_written_run_and_told() -> None:
    async with answering({"1 + 2?": ADD, "tool: 3": "It is 3."}):
        s = State()
        s.user("1 + 2?")
        [done] = await call_tools(s, [add, find], name="call")
        assert (done.call.name, done.call.arguments, done.value, done.text, done.ok) == (
            "add",
            '{"a":1}',
            3,
            "3",
            True,
        )
        assert s.transcript.messages == (
            Message("user", "1 + 2?"),
            Message("assistant", ADD),
            Message("tool", "3", tool_call_id="call00001", name="add"),
        )
        assert s["call"] == {"name": "add", "arguments": {"a": 1}}
        assert await s.gen() == "It is 3."


async def test_the_result_goes_on_from_what_was_computed() -> None:
    async with answering({"1 + 2?": ADD, "tool: 3": "3"}):
        s = State()
        s.user("1 + 2?")
        await call_tools(s, [add])
        await s.gen(name="answer")
        usage = s.result("answer").completion.usage
        shown = len("\ntool: 3\nassistant: ")
        assert usage.computed_tokens <= shown + len("}}")  # the end of the call, and what is new


async def test_only_a_call_that_can_be_made_can_be_written() -> None:
    async with Runtime(ScriptedModel.babbling()):
        s = State()
        s.user("?")
        [done] = await call_tools(s, [add, find], max_tokens=80)
        assert done.call.name in ("add", "find")


async def test_the_ids_of_calls_differ_within_a_state() -> None:
    async with answering({"?": ADD, "tool: 3": ADD}):
        s = State()
        s.user("1 + 2?")
        before = s.transcript
        ids = [done.call.id for _ in range(2) for done in await call_tools(s, [add])]
        fork = s.copy()
        s.rewind(before)
        ids += [done.call.id for done in await call_tools(s, [add])]
        assert ids == ["call00001", "call00002", "call00003"]
        [done] = await call_tools(fork, [add])
        assert done.call.id == "call00003"  # of a branch: from where it began
        s.adopt(fork)
        [done] = await call_tools(s, [add])
        assert done.call.id == "call00004"


async def test_several_calls_run_at_once_up_to_the_cap() -> None:
    there = anyio.Event()
    seen: list[str] = []

    @tool
    async def meet(who: str) -> str:
        seen.append(who)
        if len(seen) == 2:
            there.set()
        await there.wait()  # a hang, were the calls not at once
        return who

    def asked(*names: str) -> str:
        return "[" + ",".join(f'{{"name":"meet","arguments":{{"who":"{n}"}}}}' for n in names) + "]"

    async with answering({"?": asked("a", "b", "c")}):
        s = State()
        s.user("?")
        done = await call_tools(s, [meet], most=2, max_tokens=200)
        assert [each.text for each in done] == ["a", "b"]
        assert [each.call.id for each in done] == ["call00001", "call00002"]
        assert s.text_so_far.endswith("\nmeet: a\nmeet: b")


async def test_what_a_tool_raises_is_told_to_the_model() -> None:
    @tool
    def again() -> str:
        raise Retry("Say which one.")

    @tool(timeout=1e-3)
    async def slow() -> str:
        await anyio.sleep_forever()
        return ""

    answers = {
        "1": FIND,
        "2": '{"name":"again","arguments":{}}',
        "3": '{"name":"slow","arguments":{}}',
    }
    async with answering(answers):
        told: list[str] = []
        for question in answers:
            s = State()
            s.user(question)
            [done] = await call_tools(s, [find, again, slow])
            assert not done.ok
            told.append(done.text)
        assert told == [
            "Error: KeyError: 'x'",
            "Say which one.",
            "Error: no answer within 0.001 seconds",
        ]


async def test_what_a_tool_raises_goes_up_where_it_is_to() -> None:
    async with answering({"?": '{"name":"strict","arguments":{"query":"x"}}'}):
        s = State()
        s.user("?")
        with pytest.raises(ToolFailed, match=r"strict.*LookupError: x") as caught:
            await call_tools(s, [strict])
        assert isinstance(caught.value.__cause__, LookupError)
        assert caught.value.tool == "strict"
        assert s.text_so_far == "?"


@pytest.mark.parametrize("is_async", [True, False])
@pytest.mark.parametrize(
    ("verdict", "told"),
    [
        (True, "3"),
        (False, "Not allowed: the call was not approved"),
        ("no sums", "Not allowed: no sums"),
    ],
)
async def test_a_call_is_asked_about_first(is_async: bool, verdict: bool | str, told: str) -> None:
    asked: list[tuple[str, dict[str, Any]]] = []

    def approve(which: Any, arguments: dict[str, Any]) -> bool | str:
        asked.append((which.name, arguments))
        return verdict

    async def approve_async(which: Any, arguments: dict[str, Any]) -> bool | str:
        return approve(which, arguments)

    careful = tool(name="add", approve=approve_async if is_async else approve)(add)
    async with answering({"?": ADD}):
        s = State()
        s.user("?")
        [done] = await call_tools(s, [careful])
        assert asked == [("add", {"a": 1})]
        assert done.text == told
        assert done.ok is (verdict is True)


async def test_a_denial_goes_up_where_it_is_to() -> None:
    careful = tool(name="add", on_error="raise", approve=lambda *_: "no sums")(add)
    async with answering({"?": ADD}):
        s = State()
        s.user("?")
        with pytest.raises(ToolDenied, match="no sums"):
            await call_tools(s, [careful])


async def test_names_by_likelihood() -> None:
    async with answering({"?": '{"name":"add","arguments":{"a":5}}'}):
        s = State()
        s.user("?")
        [done] = await call_tools(s, [find, add], choose="likeliest")
        assert (done.call.name, done.text) == ("add", "7")
        assert s.transcript.messages[1].content == '{"name":"add","arguments":{"a":5}}'


async def test_a_field_that_a_validator_refuses_is_asked_for_again() -> None:
    def even(x: int) -> int:
        if x % 2:
            raise ValueError("must be even")
        return x

    @tool
    def half(x: Annotated[int, AfterValidator(even)], note: str = "") -> int:
        return x // 2

    async with answering({"?": '{"name":"half","arguments":{"x":7}}'}):
        s = State()
        s.user("?")
        [done] = await call_tools(s, [half, add], name="call")
        assert [each.pointer for each in s.result("call").attempts] == ["/arguments/x"]
        assert json.loads(done.call.arguments) == {"x": 2 * done.value}


async def test_calls_in_a_plain_text() -> None:
    async with answering({"Call: ": ADD, "Result: 3\n": "done"}):
        s = State()
        s.text("Call: ")
        await call_tools(s, [add])
        assert s.text_so_far == f"Call: {ADD}\nResult: 3\n"
        assert await s.gen() == "done"


async def test_tools_end_with_the_budget_and_say_so() -> None:
    ended: list[bool] = []
    ready = False

    @tool
    async def wait() -> None:
        try:
            await anyio.sleep(0 if not ready else math.inf)
        finally:
            ended.append(ready)

    async with answering({"?": '{"name":"wait","arguments":{}}'}):
        s = State()
        s.user("?")
        await call_tools(s.copy(), [wait])  # what is worked out once takes none of the seconds
        ended, ready = [], True
        with pytest.raises(BudgetExhausted, match="seconds"), Budget(seconds=0.2):
            await call_tools(s, [wait])
        assert ended == [True]
        assert s.text_so_far == "?"


async def test_a_budget_that_a_tool_exhausts_is_not_told_to_the_model() -> None:
    @tool
    async def think() -> str:
        inner = State()
        inner.user("again?")
        return await inner.gen(max_tokens=5)

    async with answering({"?": '{"name":"think","arguments":{}}'}):
        s = State()
        s.user("?")
        with pytest.raises(BudgetExhausted, match="calls"), Budget(calls=1):
            await call_tools(s, [think])


async def test_cancelling_stops_the_tools() -> None:
    running, ended = anyio.Event(), anyio.Event()

    @tool
    async def wait() -> None:
        running.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()

    async with answering({"?": '{"name":"wait","arguments":{}}'}) as runtime:
        s = State()
        s.user("?")
        async with anyio.create_task_group() as group:
            group.start_soon(call_tools, s, [wait])
            await running.wait()
            group.cancel_scope.cancel()
        assert ended.is_set()
        assert s.text_so_far == "?"
        await runtime.check_integrity()


@pytest.mark.parametrize("wrong", [{"most": 0}, {"choose": "likeliest", "most": 2}])
async def test_options_that_make_no_sense(wrong: dict[str, Any]) -> None:
    async with answering({}):
        s = State()
        s.user("?")
        with pytest.raises(InvalidRequest, match="most"):
            await call_tools(s, [add], **wrong)


async def test_calls_are_recorded() -> None:
    @program
    async def ask(s: State) -> None:
        s.user("?")
        await call_tools(s, [add, find, strict], most=3)

    third = '{"name":"strict","arguments":{"query":"y"}}'
    with listening() as spans:
        async with answering({"?": f"[{ADD},{FIND},{third}]"}):
            with pytest.raises(ToolFailed):
                await ask()
    [whole] = [span for span in spans.spans if span.kind is SpanKind.PROGRAM]
    found = {span.name: span for span in spans.spans if span.kind is SpanKind.TOOL}
    assert {span.parent for span in found.values()} == {whole}
    assert found["add"].attributes["gen_ai.tool.call.arguments"] == '{"a":1}'
    assert found["add"].attributes["gen_ai.operation.name"] == "execute_tool"
    assert found["find"].status is SpanStatus.ERROR
    assert found["find"].attributes["error.type"] == "KeyError"
    assert found["strict"].status is SpanStatus.ERROR


async def test_a_failed_call_leaves_no_named_result() -> None:
    async with answering({"?": '{"name":"strict","arguments":{"query":"x"}}'}):
        s = State()
        s.user("?")
        with pytest.raises(ToolFailed):
            await call_tools(s, [strict], name="call")
        assert (s.text_so_far, s.results) == ("?", {})


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_tool_that_ends_cancelled_has_failed() -> None:
    @tool
    async def gone() -> str:
        raise asyncio.CancelledError

    async with answering({"?": '{"name":"gone","arguments":{}}'}):
        s = State()
        s.user("?")
        [result] = await call_tools(s, [gone])
        assert isinstance(result.error, CancelledBranch)
        assert "cancelled from within" in result.text


async def test_half_a_surrogate_pair_in_a_result_does_not_end_the_program() -> None:
    @tool
    async def broken() -> str:
        return "x\ud83d"

    async with answering({"?": '{"name":"broken","arguments":{}}', "x\ufffd": "Seen."}):
        s = State()
        s.user("?")
        await call_tools(s, [broken])
        assert await s.gen() == "Seen."


async def test_who_approves_a_call_cannot_change_it() -> None:
    def approve(_: Any, arguments: dict[str, Any]) -> bool:
        arguments["a"] = 40
        return True

    careful = tool(name="add", approve=approve)(add)
    async with answering({"?": ADD}):
        s = State()
        s.user("?")
        [done] = await call_tools(s, [careful])
        assert done.value == 3
