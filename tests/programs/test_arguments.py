"""Arguments that make no sense: refused as our own errors that say what is wanted, and early."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

import agentrt
from agentrt import InvalidRequest, Retry, State, Tool, UsageError, call_tools, program, tool
from agentrt.programs import Chat, debate, react, self_consistency, tree_of_thoughts
from tests.programs.conftest import Scripted

pytestmark = pytest.mark.anyio

Call = Callable[[State], Awaitable[Any]]


async def double(x: int) -> int:
    return 2 * x


@tool
def add(a: int) -> int:
    return a


@program
async def echo(s: State, text: str) -> str:
    s.user(text)
    return await s.gen()


CALLS: dict[str, Call] = {
    "repairs='a'": lambda s: s.gen(int, repairs="a"),  # pyright: ignore
    "repairs=-1": lambda s: s.gen(int, repairs=-1),
    "retries=-1": lambda s: s.gen(retries=-1),
    "retries=None": lambda s: s.gen(retries=None),  # pyright: ignore
    "check=5": lambda s: s.gen(check=5),  # pyright: ignore
    "regex is of type int": lambda s: s.gen(regex=5),  # pyright: ignore
    "choices=5": lambda s: s.gen(choices=5),  # pyright: ignore
    "choices='abc'": lambda s: s.gen(choices="abc"),
    r"choices=\[5\]": lambda s: s.gen(choices=[5]),  # pyright: ignore
    r"choices=\[\]": lambda s: s.select([]),
    "valid Unicode": lambda s: s.gen(choices=["a", "\ud800"]),
    "texts that are valid Unicode": lambda s: s.select(["a", "\ud800"]),
    r"name=\[\]": lambda s: s.gen(name=[]),  # pyright: ignore
    "name=''": lambda s: s.select(["a", "b"], name=""),
    "timeout='a'": lambda s: s.gen(timeout="a"),  # pyright: ignore
    "priority='a'": lambda s: s.gen(priority="a"),  # pyright: ignore
    "limit='a'": lambda s: agentrt.map(double, [1], limit="a"),  # pyright: ignore
    "retries=1.5": lambda s: agentrt.map(double, [1], retries=1.5),  # pyright: ignore
    "resume=''": lambda s: agentrt.map(double, [1], resume=""),
    "resume=5": lambda s: agentrt.map(double, [1], resume=5),  # pyright: ignore
    r"resume='a.x00b.db'": lambda s: agentrt.map(double, [1], resume="a\0b.db"),
    r"resume=PosixPath.'a.x00b": lambda s: agentrt.map(double, [1], resume=Path("a\0b.db")),
    r"resume='a.ud800.db'": lambda s: agentrt.map(double, [1], resume="a\ud800.db"),
    "program returned a int": lambda s: agentrt.map(lambda x: x, [1], retries=1),  # pyright: ignore
    "inputs=5": lambda s: agentrt.map(double, 5),  # pyright: ignore
    "inputs='abc'": lambda s: agentrt.map(double, "abc"),  # pyright: ignore
    "program=5": lambda s: agentrt.map(5, [1]),  # pyright: ignore
    "limit=0": lambda s: s.each(echo.on, ["a"], limit=0),
    "choose='zz'": lambda s: call_tools(s, [add], choose="zz"),  # pyright: ignore
    "most=0": lambda s: call_tools(s, [add], most=0),
    "tools=5": lambda s: call_tools(s, 5),  # pyright: ignore
    "function=5": lambda s: call_tools(s, [5]),  # pyright: ignore
    "state=5": lambda s: echo.on(5, "x"),  # pyright: ignore
    "turns='a'": lambda s: react("?", [add], turns="a"),  # pyright: ignore
    "samples=0": lambda s: self_consistency("?", samples=0),
    "rounds=0": lambda s: debate("?", rounds=0),
    "beam=2.5": lambda s: tree_of_thoughts("?", depth=1, beam=2.5),  # pyright: ignore
}


@pytest.mark.parametrize("wrong", CALLS)
async def test_a_call_with_it_says_what_is_wanted(scripted: Scripted, wrong: str) -> None:
    async with scripted("1") as bound:
        s = State()
        s.user("?")
        with pytest.raises(InvalidRequest, match=wrong) as failure:
            await CALLS[wrong](s)
        assert bound.computed == 0
        assert s.text_so_far == "?"
        assert any(word in str(failure.value) for word in ("give", "wanted"))


async def test_states_forks_and_chats(scripted: Scripted) -> None:
    async with scripted("1"):
        with pytest.raises(InvalidRequest, match="origin=5; give a Runtime"):
            State(5)  # pyright: ignore
        for count in ("a", -1, True):
            with pytest.raises(InvalidRequest, match="count="):
                State().fork(count)  # pyright: ignore
        with pytest.raises(InvalidRequest, match="turns=-1"):
            Chat().forget(-1)


def test_programs_and_tools() -> None:
    async def nothing() -> None: ...

    async def keyword(*, s: State) -> None: ...

    for body in (nothing, keyword):
        with pytest.raises(InvalidRequest, match="takes no state"):
            program(body)  # pyright: ignore
    with pytest.raises(InvalidRequest, match="budget=5"):
        program(budget=5)(double)  # pyright: ignore
    with pytest.raises(InvalidRequest, match="timeout='a'"):
        Tool(add, timeout="a")  # pyright: ignore
    with pytest.raises(InvalidRequest, match="approve=5"):
        Tool(add, approve=5)  # pyright: ignore


async def test_choices_come_from_any_iterable(scripted: Scripted) -> None:
    async with scripted("b"):
        s = State()
        s.text("x")
        assert await s.copy().gen(choices=(each for each in "ab")) == "b"
        assert await s.copy().select(each for each in "ab") == "b"  # pyright: ignore


async def test_one_state_runs_one_program_at_a_time(scripted: Scripted) -> None:
    @program
    async def outer(s: State) -> list[str]:
        return [await echo.on(s, "one"), await echo.on(s, "two")]

    async with scripted("a"):
        s = State()
        with pytest.raises(UsageError, match="runs on this state already"):
            await agentrt.gather(echo.on(s, "left"), echo.on(s, "right"))
        assert await outer.on(State()) == ["a", "a"]


async def test_what_is_said_while_a_state_generates_is_not_lost_in_its_answer(
    scripted: Scripted,
) -> None:
    async with scripted("a"):
        s = State()
        s.user("?")
        with pytest.raises(InvalidRequest, match="while it generated"):
            await agentrt.gather(s.gen(), s.gen())


async def test_every_attempt_and_token_counts_where_an_answer_is_rejected(
    scripted: Scripted,
) -> None:
    async with scripted("a"):
        s = State()
        s.user("?")

        def check(_: str) -> None:
            raise Retry("no.")

        with pytest.raises(agentrt.AnswerRejected) as failure:
            await s.gen(check=check, retries=2)
        assert len(failure.value.attempts) == 3
        counted = s.usage.output_tokens
        async with s.stream() as stream:
            [_ async for _ in stream]
        assert counted == 3 * stream.result.completion.usage.output_tokens
        await anyio.lowlevel.checkpoint()
