"""Calls that cannot be meant are refused in words that say what to change."""

from __future__ import annotations

import sys
from typing import Any

import anyio
import pytest

from agentrt import Budget, InvalidRequest, State, extract, extract_sync
from agentrt.programs import current_budget, extract_long, react
from tests.programs.conftest import Scripted


@pytest.mark.parametrize(
    ("kind", "text", "said"),
    [
        (int, 5, "text is of type int; a text is wanted"),
        ("int", "5 men", "kind='int'; give the type itself, such as int"),
        ("Person", "5 men", "kind='Person'; give the type itself, such as int"),
        ("hi", int, "the type comes first and then the text: give (int, 'hi')"),
        (int, "", "text=''; there is nothing to extract from"),
        (int, " \n", r"text=' \n'; there is nothing to extract from"),
    ],
)
def test_what_cannot_be_extracted_is_said_before_a_model_is_opened(
    kind: Any, text: Any, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def extracted(call: Any) -> None:
        with pytest.raises(InvalidRequest) as caught:
            await call(kind, text)
        assert said in str(caught.value)

    for name in ("extract", "long"):
        monkeypatch.setattr(sys.modules[f"agentrt.programs.{name}"], "ensure_runtime", None)
    anyio.run(extracted, extract)
    anyio.run(extracted, extract_long)


@pytest.mark.asyncio
async def test_a_type_is_not_given_by_name(scripted: Scripted) -> None:
    async with scripted("7"):
        with pytest.raises(InvalidRequest, match="kind='int'; give the type itself"):
            await State().gen("int")  # type: ignore[call-overload]
        with pytest.raises(InvalidRequest, match="give a type"):
            await State().gen(lambda: 1)
        with pytest.raises(InvalidRequest, match="there is nothing to extract from"):
            extract_sync(int, "")


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("positional", "named", "said"),
    [
        (["q", []], {"kinds": int}, "unexpected keyword argument 'kinds'; did you mean kind?"),
        (["q", []], {"wheels": 4}, "'wheels'; it takes (question, tools, *, turns=6, most=1, "),
        ([], {}, "react missing 2 required positional arguments: 'question' and 'tools'; it takes"),
        (["q", [], 3], {}, "were given; it takes (question, tools, *, "),
    ],
)
async def test_arguments_that_a_program_does_not_take(
    positional: list[Any], named: dict[str, Any], said: str, scripted: Scripted
) -> None:
    async with scripted("x"):
        with pytest.raises(InvalidRequest) as caught:
            await react(*positional, **named)
    assert said in str(caught.value)


def test_calls_that_are_not_async_are_refused_before_a_model_is_opened(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("ambient", "extract", "program"):
        monkeypatch.setattr(sys.modules[f"agentrt.programs.{name}"], "ensure_runtime", None)
    with pytest.raises(InvalidRequest, match="did you mean turns"):
        react.sync("q", [], turn=2)  # type: ignore[call-arg]
    with pytest.raises(InvalidRequest, match="there is nothing to extract from"):
        extract_sync(int, "")


@pytest.mark.asyncio
async def test_a_budget_is_entered_either_way() -> None:
    async with Budget(tokens=3) as budget:
        assert current_budget() is budget
        with Budget(calls=1) as inner:
            assert current_budget() is inner
    assert current_budget() is None
