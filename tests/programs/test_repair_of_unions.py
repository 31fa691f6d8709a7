"""Field repair in unions: a value that one member refuses may be right in another.

The scripted model writes what it is told, and the lowest token that fits where it may not.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from pydantic import AfterValidator, BaseModel, Field, TypeAdapter, model_validator

from agentrt import AnswerRejected, Runtime, State
from agentrt.programs.branches import Mark, marks
from agentrt.programs.faults import Written
from tests.programs.conftest import Scripted
from tests.programs.replies import mending

pytestmark = pytest.mark.anyio


def _refuse_a(text: str) -> str:
    if text == "a":
        raise ValueError("a is no name here")
    return text


A = Annotated[Literal["a"], AfterValidator(_refuse_a)]


class Bird(BaseModel):
    kind: Literal["bird"]
    song: str = "-"
    name: A


class Dog(BaseModel):
    kind: Literal["dog"]
    name: Literal["a"]


class Cat(BaseModel):
    kind: Literal["cat"]
    name: Annotated[Literal["a", "c"], AfterValidator(_refuse_a)]


class Flock(BaseModel):
    """No tag: what tells it from a pack is a key that packs do not have."""

    birds: int
    name: A


class Pack(BaseModel):
    dogs: int
    name: Literal["a"]


class Owned(BaseModel):
    kind: Literal["owned"]
    pet: Annotated[Bird | Dog, Field(discriminator="kind")]


class Wild(BaseModel):
    kind: Literal["wild"]
    pet: Literal["wolf"]


class OnlyBirds(BaseModel):
    kind: Literal["birds"]
    pet: Bird


class Nick(BaseModel):
    name: str
    nick: A = "a"


class Left(BaseModel):
    left: Left | Right | Leaf


class Right(BaseModel):
    right: Left | Right | Leaf


class Leaf(BaseModel):
    name: Annotated[Literal["a", "b"], AfterValidator(_refuse_a)]


Tagged = Annotated[Bird | Dog, Field(discriminator="kind")]
TAGGED_SCHEMA = TypeAdapter(Tagged).json_schema()
KEYED_SCHEMA = TypeAdapter(Flock | Pack).json_schema()
BIRD = '{"kind":"bird","song":"tra","name":"a"}'
DOG = Dog(kind="dog", name="a")


async def repaired(scripted: Scripted, kind: Any, *texts: str) -> tuple[Any, list[str]]:
    async with scripted(mending(*texts)):
        s = State()
        s.user("?")
        value = await s.gen(kind, name="found", max_tokens=200, repairs=len(texts) - 1)
        return value, [each.pointer for each in s.result("found").attempts]


@pytest.mark.parametrize(
    ("kind", "text", "wanted", "pointers"),
    [
        (Tagged, BIRD, DOG, ["/name"]),
        (Bird | Dog, BIRD, DOG, ["/name"]),
        (dict[str, Tagged], f'{{"x":{BIRD}}}', {"x": DOG}, ["/x/name"]),
        (list[Tagged], f"[{BIRD}]", [DOG], ["/0/name"]),
        (list[Bird | Dog], f'[{{"kind":"dog","name":"a"}},{BIRD}]', [DOG, DOG], ["/1/name"]),
        (list[Bird], f"[{BIRD}]", [], ["/0/name"]),
        (Bird | None, BIRD, None, ["/name"]),
        (dict[str, Bird | None], f'{{"x":{BIRD}}}', {"x": None}, ["/x/name"]),
        (Flock | Pack, '{"birds":3,"name":"a"}', Pack(dogs=4, name="a"), ["/name"]),
        (
            Annotated[Owned | Wild, Field(discriminator="kind")],
            f'{{"kind":"owned","pet":{BIRD}}}',
            Owned(kind="owned", pet=DOG),
            ["/pet/name"],
        ),
        (
            Annotated[OnlyBirds | Wild, Field(discriminator="kind")],
            f'{{"kind":"birds","pet":{BIRD}}}',
            Wild(kind="wild", pet="wolf"),
            ["/pet/name"],
        ),
        (
            OnlyBirds | Wild,
            f'{{"kind":"birds","pet":{BIRD}}}',
            Wild(kind="wild", pet="wolf"),
            ["/pet/name"],
        ),
        (Nick, '{"name":"x","nick":"a"}', Nick(name="x"), ["/nick"]),
    ],
    ids=[
        "tagged", "untagged", "in a dict", "in a list", "second of a list", "an empty list",
        "optional", "optional field", "told by keys", "nested", "nested out", "untagged out",
        "left out",
    ],
)  # fmt: skip
async def test_where_nothing_else_fits_in_a_member_another_is_taken(
    scripted: Scripted, kind: Any, text: str, wanted: Any, pointers: list[str]
) -> None:
    written = TypeAdapter(kind).dump_json(wanted, exclude_unset=True).decode()
    assert await repaired(scripted, kind, text, written) == (wanted, pointers)


async def test_where_another_value_fits_the_member_is_kept(scripted: Scripted) -> None:
    text = '{"kind":"cat","name":"a"}'
    for kind in (Cat | Dog, Annotated[Cat | Dog, Field(discriminator="kind")], Cat | None):
        value, pointers = await repaired(scripted, kind, text, text.replace('a"', 'c"'))
        assert (value, pointers) == (Cat(kind="cat", name="c"), ["/name"])


async def test_each_member_may_refuse_what_it_has(scripted: Scripted) -> None:
    kind = Annotated[Bird | Cat, Field(discriminator="kind")]
    cat = '{"kind":"cat","name":"%s"}'
    found = await repaired(scripted, kind, BIRD, cat % "a", cat % "c")
    assert found == (Cat(kind="cat", name="c"), ["/name", "/name"])


async def test_a_whole_member_that_is_refused(scripted: Scripted) -> None:
    class Lone(BaseModel):
        kind: Literal["lone"]

        @model_validator(mode="after")
        def never(self) -> Lone:
            raise ValueError("never")

    for kind in (Lone | Dog, Annotated[Lone | Dog, Field(discriminator="kind")]):
        dog = DOG.model_dump_json()
        assert await repaired(scripted, kind, '{"kind":"lone"}', dog) == (DOG, [""])


def test_what_chose_the_member_at_every_level() -> None:
    """The members that may be within others do not grow by the level."""
    depth = 60
    text = '{"left":' * depth + '{"name":"a"}' + "}" * depth
    schema = TypeAdapter(Left | Right | Leaf).json_schema()
    path = (*["left"] * depth, "name")
    assert marks(Written.of(text), path, schema) == ()
    found = marks(Written.of('{"kind":"bird","name":"a"}'), ("name",), TAGGED_SCHEMA)
    assert found == (Mark(("kind",), "bird"),)
    found = marks(Written.of('{"birds":3,"name":"a"}'), ("name",), KEYED_SCHEMA)
    assert found == (Mark(("birds",), is_key=True),)


@pytest.mark.model
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_on_the_provided_model(anyio_backend: str) -> None:
    async with Runtime(kv_tokens=1024) as runtime:
        s = State(seed=1)
        s.user("A pet, as JSON. It is a bird named a.")
        value = await s.gen(Tagged, name="pet", max_tokens=40)
        assert isinstance(value, Dog)
        assert runtime.stats().slots_held == 0


async def test_where_no_member_fits_the_answer_is_rejected(scripted: Scripted) -> None:
    birds = Annotated[OnlyBirds | Annotated[Bird, Field()], Field(discriminator="kind")]
    asked = [(Bird, BIRD), (tuple[Bird], f"[{BIRD}]"), (birds, BIRD)]
    for kind, text in asked[:2]:
        with pytest.raises(AnswerRejected, match="no other value"):
            await repaired(scripted, kind, text, "")
    with pytest.raises(AnswerRejected, match="no other value"):
        await repaired(scripted, birds, BIRD, f'{{"kind":"birds","pet":{BIRD}}}', "")
