"""Answers that were cut by their length."""

from __future__ import annotations

import json
from contextlib import nullcontext
from typing import Literal

import pytest
from pydantic import BaseModel

from agentrt import GenerationFailed, Runtime, State
from agentrt.generation import Completion, FinishReason
from agentrt.programs.answers import answer_of, check_whole
from agentrt.testing import ScriptedModel

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("error")]


@pytest.mark.parametrize(("text", "is_whole"), [("[1, 2", False), ("[1,2]", True)])
async def test_an_answer_that_was_cut_is_told_with_its_facts(text: str, is_whole: bool) -> None:
    async with Runtime(ScriptedModel.babbling()) as runtime:
        answer = await answer_of(list[int], runtime)
    done = Completion(text, tuple(text.encode()), FinishReason.LENGTH)
    if is_whole:
        check_whole(answer, done)
        assert answer.read(text) == json.loads(text)
        return
    with pytest.raises(GenerationFailed, match=r"cut after 5 tokens.*raise max_tokens"):
        check_whole(answer, done)


class Row(BaseModel):
    tags: list[str]
    price: int


class Pick(BaseModel):
    side: Literal["left", "none"]


ENDLESS = '{"tags":["a","a","a","a","a","a","a","a","a'


@pytest.mark.parametrize(
    ("kind", "reply", "max_tokens", "is_ended"),
    [
        (Row, ENDLESS, 30, True),
        (Row, '{"tags":["a"],"price":25}', 512, False),
        (Pick, '{"side":"left"}', len('{"side":"left"}'), False),  # as all of them would
    ],
)
async def test_a_value_that_its_limit_ended_is_warned_of(
    kind: type[BaseModel], reply: str, max_tokens: int, is_ended: bool
) -> None:
    async with Runtime(ScriptedModel.replying(reply)):
        s = State()
        s.user("?")
        told = pytest.warns(UserWarning, match="Row came to its limit of 30 tokens")
        with told if is_ended else nullcontext() as warned:
            value = await s.copy().gen(kind, max_tokens=max_tokens)
            async with s.copy().stream(kind, max_tokens=max_tokens) as stream:
                async for _ in stream:
                    pass
        assert stream.value == value
        if warned:
            assert {each.filename for each in warned} == {__file__}  # where it was asked for
        else:
            assert value.model_dump_json() == reply


async def test_what_has_no_end_to_be_hurried_is_not_warned_of() -> None:
    async with Runtime(ScriptedModel.replying("true")):
        s = State()
        s.user("?")
        assert await s.copy().gen(bool, max_tokens=4) is True
        assert len(await s.copy().gen(regex="[a-z]+", max_tokens=5)) <= 5
