"""Options that make no sense are refused where they are given, not by the first call they reach."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest

from agentrt import Budget, InvalidRequest, Runtime, State, extract, program, tool, vote
from agentrt.programs import (
    Chat,
    answer_from,
    best_of,
    branch_solve_merge,
    classify,
    debate,
    extract_long,
    judge_text,
    monte_carlo_search,
    multi_chain,
    plan_and_execute,
    proposed,
    react,
    reflexion,
    route,
    sampled,
    self_consistency,
    tree_of_thoughts,
    valued,
)
from agentrt.runtime.runtime import current_runtime
from agentrt.testing import ScriptedModel

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.programs.conftest import Scripted


async def greet(s: State, name: str) -> str:
    s.user(f"Greet {name}.")
    return await s.gen()


def add(a: int, b: int) -> int:
    return a + b


AT_ONCE: dict[str, Callable[[], Any]] = {
    "max_token is no sampling option; did you mean max_tokens?": (
        lambda: program(max_token=3)(greet)  # type: ignore[call-overload]
    ),
    "budgt is no sampling option; did you mean budget?": (
        lambda: program(budgt=Budget(calls=1))(greet)  # type: ignore[call-overload]
    ),
    "max_tokens=-3: it should be greater": lambda: program(max_tokens=-3)(greet),
    "timeout is no sampling option; there are": lambda: program(timeout=3)(greet),  # type: ignore[call-overload]
    "temprature is no sampling option; did you mean temperature?": (
        lambda: react.using(temprature=1)  # type: ignore[call-arg]
    ),
    "name is no sampling option": lambda: react.using(name="x"),  # type: ignore[call-arg]
    "timout is no option of a tool; did you mean timeout?": lambda: tool(timout=3),  # type: ignore[call-overload]
    "colour is no option of a tool; there are name, description": lambda: tool(colour=3),  # type: ignore[call-overload]
    "kv_token is no runtime option; did you mean kv_tokens?": lambda: Runtime(kv_token=3),
    "answers='abc'; give a list": lambda: vote("abc"),
    "answers=3; give a list": lambda: vote(3),  # type: ignore[arg-type]
    "key='x'; give a function of an answer, or None": lambda: vote([1], key="x"),  # type: ignore[arg-type]
    "cannot be counted (unhashable type: 'list'); give a key": lambda: vote([[1], [1]]),
    "temperature=-1: it should": lambda: sampled(temperature=-1),
    "regex is of type int": lambda: sampled(regex=1),  # type: ignore[arg-type]
    "max_tokens=0; give a whole number, 1 or more": lambda: proposed("x", max_tokens=0),
    "the scale is 1 to 1": lambda: valued(high=1),
    "reply=3; give a text": lambda: ScriptedModel.replying(3),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("said", AT_ONCE)
def test_options_are_refused_where_they_are_given(said: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        AT_ONCE[said]()
    assert said in str(caught.value)


def test_answers_may_come_from_any_iterable() -> None:
    assert vote(each % 2 for each in range(5)).winner == 0


@pytest.mark.asyncio
async def test_a_state_and_a_chat_refuse_defaults(scripted: Scripted) -> None:
    async with scripted("hi"):
        with pytest.raises(InvalidRequest, match="did you mean max_tokens"):
            State(max_token=3)  # type: ignore[call-arg]
        with pytest.raises(InvalidRequest, match="did you mean system"):
            Chat(sytem="x")  # type: ignore[call-arg]


@pytest.mark.asyncio
async def test_a_state_that_goes_on_takes_defaults_of_its_own(scripted: Scripted) -> None:
    async with scripted("a long answer"):
        first = State(max_tokens=3, seed=1)
        first.user("hi")
        assert await State(first).gen() == "a l"
        assert await State(first, max_tokens=6).gen() == "a long"

        async def drawn(**defaults: Any) -> int | None:
            state = State(first, temperature=1.0, **defaults)
            await state.gen(name="it")
            return state.result("it").completion.seed

        assert len({await drawn(), await drawn(seed=2), await drawn(seed=2)}) == 3


@pytest.mark.asyncio
async def test_every_keyword_of_a_call_is_near(scripted: Scripted) -> None:
    async with scripted("hi"):
        state = State()
        state.user("hi")
        with pytest.raises(InvalidRequest, match="did you mean timeout"):
            await state.gen(tiemout=3)  # type: ignore[call-overload]
        with pytest.raises(InvalidRequest, match="did you mean retries"):
            await state.gen(retires=3)  # type: ignore[call-overload]
        with pytest.raises(InvalidRequest, match="did you mean priority"):
            await current_runtime().generate("hi", prioriti=3)  # type: ignore[call-arg]


@pytest.mark.asyncio
async def test_an_extraction_is_refused_before_a_model_is_opened(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("extract", "long"):
        monkeypatch.setattr(sys.modules[f"agentrt.programs.{name}"], "ensure_runtime", None)
    with pytest.raises(InvalidRequest, match="did you mean examples"):
        await extract(int, "5", exmples=[])  # type: ignore[call-overload]
    with pytest.raises(InvalidRequest, match="did you mean overlap_tokens"):
        await extract_long(list[int], "5", overlap_token=3)  # type: ignore[call-overload]


Wrong: Any = "not a function"
BEFORE_ASKING: dict[str, Callable[[], Awaitable[Any]]] = {
    "agents='ab'; give one text or more, in a list": lambda: debate("q", "ab"),
    "dimensions='style'; give one text or more": lambda: judge_text("t", "style"),
    "the scale is 9 to 1": lambda: judge_text("t", ["style"], low=9, high=1),
    "labels='ab'; give one text or more": lambda: classify("t", "ab"),
    "passages='text'; give one text or more": lambda: answer_from("q", "text"),
    "passages=['a', ' ']; give texts that are not empty": lambda: answer_from("q", ["a", " "]),
    "parts='ab'; give one text or more": lambda: branch_solve_merge("t", "ab"),
    "routes['a']=3; give a Route": lambda: route("t", {"a": 3}),  # type: ignore[dict-item]
    "chains=0; give a whole number": lambda: multi_chain("q", chains=0),
    "judge='not a function'; give": lambda: best_of("q", judge=Wrong),
    "key='not a function'; give": lambda: self_consistency("q", key=Wrong),
    "check='not a function'; give": lambda: reflexion("q", check=Wrong),
    "execute='not a function'; give": lambda: plan_and_execute("q", execute=Wrong),
    "generate='not a function'; give": lambda: tree_of_thoughts("q", depth=1, generate=Wrong),
    "evaluate='not a function'; give": lambda: tree_of_thoughts("q", depth=1, evaluate=Wrong),
    "solved='not a function'; give": lambda: monte_carlo_search("q", depth=1, solved=Wrong),
}


@pytest.mark.asyncio
@pytest.mark.parametrize("said", BEFORE_ASKING)
async def test_programs_refuse_before_they_ask_anything(said: str, scripted: Scripted) -> None:
    async with scripted(refused_prompt):
        with pytest.raises(InvalidRequest) as caught:
            await BEFORE_ASKING[said]()
    assert said in str(caught.value)


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "ask",
    [
        lambda **how: self_consistency("q", **how),
        lambda **how: multi_chain("q", **how),
        lambda **how: debate("q", **how),
        lambda **how: answer_from("q", ["p"], **how),
        lambda **how: plan_and_execute("q", **how),
        lambda **how: reflexion("q", **how),
        lambda **how: react("q", [add], **how),
    ],
)
async def test_what_an_answer_cannot_be_is_refused_before_anything_is_asked(
    ask: Callable[..., Awaitable[Any]], scripted: Scripted
) -> None:
    async with scripted(refused_prompt):
        with pytest.raises(InvalidRequest, match="the type int and regex were given"):
            await ask(kind=int, regex="[0-9]")
        with pytest.raises(InvalidRequest, match="kind='int'; give the type itself"):
            await ask(kind="int")


def refused_prompt(prompt: str) -> str:
    raise AssertionError(f"the model was asked: {prompt}")
