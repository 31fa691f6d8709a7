"""Field repair where it is hard to say which field: union members, keys, aliases; and attempts."""

from __future__ import annotations

import json
from typing import Annotated, Literal

import pytest
from pydantic import AfterValidator, BaseModel, Field, model_validator

from agentrt import AnswerRejected, Retry, SchemaError, State
from tests.programs.conftest import Scripted
from tests.programs.replies import mending

pytestmark = pytest.mark.anyio


def _good(text: str) -> str:
    if text.startswith("bad"):
        raise ValueError("it is bad")
    return text


Good = Annotated[str, AfterValidator(_good)]


class Cat(BaseModel):
    kind: Literal["cat"]
    cat: dict[str, int]
    name: Good


class Dog(BaseModel):
    kind: Literal["dog"]
    name: str


class Home(BaseModel):
    pet: Annotated[Cat | Dog, Field(discriminator="kind")]


async def repaired(scripted: Scripted, kind: object, *texts: str) -> tuple[object, list[str]]:
    async with scripted(mending(*texts)):
        s = State()
        s.user("?")
        value = await s.gen(kind, name="found")
        return value, [each.pointer for each in s.result("found").attempts]


async def test_a_unions_tag_is_no_field_of_that_name(scripted: Scripted) -> None:
    pet = '{{"pet":{{"kind":"cat","cat":{{"name":3}},"name":"{}"}}}}'
    home, pointers = await repaired(scripted, Home, pet.format("bad"), pet.format("Tom"))
    assert isinstance(home, Home)
    assert (home.pet.name, pointers) == ("Tom", ["/pet/name"])


async def test_a_key_that_is_refused_is_written_again(scripted: Scripted) -> None:
    found, pointers = await repaired(
        scripted,
        dict[Good, int],
        '{"bad":1,"bad2":2,"bad3":3}',
        '{"one":1,"bad2":2}',
        '{"one":1,"two":2}',
    )
    assert (found, pointers) == ({"one": 1, "two": 2}, ["/bad", "/bad2"])


async def test_a_refused_key_may_be_the_first_and_hold_a_refused_value(
    scripted: Scripted,
) -> None:
    found, pointers = await repaired(
        scripted,
        dict[str, dict[Good, Good]],
        '{"in":{"bad":"bad"}}',
        '{"in":{"fine":"bad"}}',
        '{"in":{"fine":"well"}}',
    )
    assert (found, pointers) == ({"in": {"fine": "well"}}, ["/in/bad", "/in/fine"])


async def test_a_type_that_refuses_what_its_schema_asks_for_is_a_mistake(
    scripted: Scripted,
) -> None:
    class Nested(BaseModel):
        x: int

        @model_validator(mode="before")
        @classmethod
        def lose(cls, value: dict[str, int]) -> dict[str, int]:
            return {"y": value["x"]}

    async with scripted('{"x":1}'):
        s = State()
        s.user("?")
        with pytest.raises(SchemaError, match=r"Nested wants x of .*mode='before'"):
            await s.gen(Nested)


async def test_attempts_and_usage_of_an_answer_that_could_not_be_mended(
    scripted: Scripted,
) -> None:
    def check(value: dict[str, str]) -> bool:
        return "fine" in value.values()

    texts = ('{"a":"bad"}', '{"a":"well"}', '{"a":"bad2"}', '{"a":"bad3"}')
    async with scripted(mending(*texts)):
        s = State()
        s.user("?")
        with pytest.raises(AnswerRejected) as failure:
            await s.gen(dict[str, Good], check=check, repairs=1)
        assert [json.loads(each.text)["a"] for each in failure.value.attempts] == [
            "bad", "well", "bad2", "bad3"
        ]  # fmt: skip
        kept = len('{"a":')
        least = sum(map(len, texts)) - 2 * kept  # what two repairs kept was written once
        assert least <= s.usage.output_tokens <= least + len(texts)


async def test_a_validator_may_raise_retry_as_well(scripted: Scripted) -> None:
    def long(text: str) -> str:
        if len(text) < 3:
            raise Retry("it is short")
        return text

    kind = dict[Literal["a"], Annotated[str, AfterValidator(long)]]
    value, pointers = await repaired(scripted, kind, '{"a":"x"}', '{"a":"xyz"}')
    assert (value, pointers) == ({"a": "xyz"}, ["/a"])
