"""Calls that were made are not made again: by construction, whatever the model would write."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any, Literal

import pytest
from pydantic import AfterValidator, BaseModel, Field

from agentrt import State, ToolCall, UnsatisfiableSchema, call_tools, current_runtime, tool
from agentrt.programs import react
from agentrt.programs.others import offers_of
from agentrt.programs.tools import as_tools
from agentrt.schema import compile_schema

if TYPE_CHECKING:
    from tests.programs.conftest import Scripted

pytestmark = pytest.mark.anyio


def find(query: str, limit: int = 3, page: int = Field(default=1, ge=1)) -> str:
    """Finds pages."""
    return f"{limit} of {query} from page {page}"


def open_door(side: Literal["left", "right"]) -> str:
    return f"the {side} door leads nowhere"


def look() -> str:
    return "two doors"


def call(name: str, **arguments: Any) -> ToolCall:
    return ToolCall("call00001", name, compact(arguments))


def compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


@pytest.mark.parametrize(
    ("made", "again", "others"),
    [
        (
            [{"query": " a.b^(c)?\n/\\"}],
            [compact({"query": each}) for each in ("a.b^(c)?\n/\\", "  a.b^(c)?\n/\\\t")],
            ['{"query":"a-b"}', '{"query":"a.b^(c)"}'],
        ),
        (
            [{"query": "x"}],
            [
                '{"query":"x"}',
                '{"query":" x "}',
                '{"query":"x","limit":3}',
                '{"query":"x","limit":3,"page":1}',
            ],
            ['{"query":"y"}', '{"query":"x","limit":4}', '{"query":"x","page":2}'],
        ),
        (
            [{"query": "x", "limit": 3}, {"query": "y", "limit": 2}],
            ['{"query":"x"}', '{"query":"y","limit":2}', '{"query":"y","limit":2,"page":1}'],
            ['{"query":"y"}', '{"query":"y","limit":3}'],
        ),
    ],
)
async def test_what_is_left_out_is_what_its_default_gives(
    made: list[dict[str, Any]], again: list[str], others: list[str], scripted: Scripted
) -> None:
    async with scripted(""):
        calls = [call("find", **each) for each in made]
        (offer,) = await offers_of(current_runtime(), as_tools([find]), calls)
    grammar = compile_schema(offer.arguments)
    assert [text for text in [*again, *others] if grammar.matches(text)] == others


async def test_forty_calls_are_told_from_what_follows(scripted: Scripted) -> None:
    made = [{"query": f"q{i % 20}", "limit": i % 7, "page": 1 + i} for i in range(40)]
    async with scripted(""):
        calls = [call("find", **each) for each in made]
        (offer,) = await offers_of(current_runtime(), as_tools([find]), calls)
    grammar = compile_schema(offer.arguments)
    assert not any(grammar.matches(compact(each)) for each in made)
    assert all(grammar.matches(compact({**each, "page": 99})) for each in made)
    assert all(grammar.matches(compact({**each, "limit": 9})) for each in made)
    assert grammar.matches('{"query":"q3"}')


class Range(BaseModel):
    first: int
    last: int = 9


async def test_many_calls_with_objects_differ_from_the_last(scripted: Scripted) -> None:
    def pages(of: Range, book: str) -> str:
        return f"{book} {of}"

    made = [{"of": {"first": i, "last": 2 * i}, "book": "a"} for i in range(1, 30)]
    async with scripted(""):
        calls = [call("pages", **each) for each in made]
        (offer,) = await offers_of(current_runtime(), as_tools([pages]), calls)
    grammar = compile_schema(offer.arguments)
    assert [each for each in made if not grammar.matches(compact(each))] == made[-2:]


async def test_what_a_model_fills_up_is_the_same_call(scripted: Scripted) -> None:
    def pages(of: Range) -> str:
        return str(of)

    async with scripted('{"name":"pages","arguments":{"of":{"first":1}}}'):
        s = State()
        s.user("Go.")
        (found,) = await call_tools(s, [pages])
        assert found.call.arguments == '{"of":{"first":1,"last":9}}'
        (offer,) = await offers_of(s.runtime, as_tools([pages]), [found.call])
    grammar = compile_schema(offer.arguments)
    told = ['{"of":{"first":1}}', found.call.arguments, '{"of":{"first":1,"last":8}}']
    assert [text for text in told if grammar.matches(text)] == told[2:]


async def test_a_tool_of_which_all_calls_were_made_is_not_offered(scripted: Scripted) -> None:
    made = [call("look"), call("open_door", side="left")]
    async with scripted(""):
        tools = as_tools([look, open_door, find])
        offers = await offers_of(current_runtime(), tools, made)
        assert [offer.tool.name for offer in offers] == ["open_door", "find"]
        made.append(call("open_door", side="right"))
        offers = await offers_of(current_runtime(), tools, made)
        assert [offer.tool.name for offer in offers] == ["find"]


@pytest.mark.parametrize("choose", ["written", "likeliest"])
async def test_a_call_is_another_one_than_those_made(
    choose: Literal["written", "likeliest"], scripted: Scripted
) -> None:
    async with scripted('{"name":"open_door","arguments":{"side":"left"}}'):
        s = State()
        s.user("Go.")
        made: list[ToolCall] = []
        for side in ("left", "right"):
            (found,) = await call_tools(s, [open_door], choose=choose, made=made)
            assert found.text == f"the {side} door leads nowhere"
            made.append(found.call)
        said = s.text_so_far
        with pytest.raises(UnsatisfiableSchema, match="every call of these tools was made"):
            await call_tools(s, [open_door], choose=choose, made=made)
        assert s.text_so_far == said
        (again,) = await call_tools(s, [open_door], choose=choose)
        assert again.text == "the left door leads nowhere"


async def test_calls_made_at_once_differ(scripted: Scripted) -> None:
    twice = [{"name": "open_door", "arguments": {"side": "left"}}] * 2
    async with scripted(compact(twice)):
        s = State()
        s.user("Go.")
        both = await call_tools(s.copy(), [open_door], most=2)
        assert [each.call.arguments for each in both] == ['{"side":"left"}'] * 2
        both = await call_tools(s.copy(), [open_door], most=2, made=[])
        assert [each.call.arguments for each in both] == ['{"side":"left"}', '{"side":"right"}']


async def test_react_does_not_ask_what_it_knows(scripted: Scripted) -> None:
    def reply(prompt: str) -> str:
        before, _, begun = prompt.rpartition("assistant: ")
        if before.endswith("user: Call a tool.\n"):
            return '{"name":"open_door","arguments":{"side":"left"}}'
        if "Now the answer" in before.rpartition("user: ")[2]:
            return "nowhere"
        _, decided, chosen = begun.partition("\nNext: ")
        return "act".removeprefix(chosen) if decided else "I try a door."

    async with scripted(reply):
        found = await react("Where do the doors lead?", [open_door], turns=9)
        sides = [json.loads(turn.results[0].call.arguments)["side"] for turn in found.turns]
        assert sides == ["left", "right"]
        assert (found.answer, found.finished) == ("nowhere", False)
        found = await react("Where do the doors lead?", [open_door], turns=4, again=True)
        assert [turn.results[0].call.arguments for turn in found.turns] == ['{"side":"left"}'] * 4


async def test_a_field_that_is_refused_is_written_again_as_what_was_not_made(
    scripted: Scripted,
) -> None:
    def not_left(side: str) -> str:
        if side == "left":
            raise ValueError("it is locked")
        return side

    @tool(name="open_door")
    def opened(
        side: Annotated[Literal["left", "right", "middle"], AfterValidator(not_left)],
    ) -> str:
        return side

    async with scripted('{"name":"open_door","arguments":{"side":"left"}}'):
        s = State()
        s.user("Go.")
        (found,) = await call_tools(s, [opened], made=[call("open_door", side="middle")])
        assert found.text == "right"


async def test_a_long_text_is_told_apart_as_well(scripted: Scripted) -> None:
    text = "def f(x):\n    return x\n" * 1000
    async with scripted(""):
        (offer,) = await offers_of(current_runtime(), as_tools([find]), [call("find", query=text)])
    grammar = compile_schema(offer.arguments)
    assert not grammar.matches(compact({"query": text}))
    assert grammar.matches(compact({"query": text[1:]}))
