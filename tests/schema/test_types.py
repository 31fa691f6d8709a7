"""Python types: what is generated for a type is validated by it."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import decimal
import enum
import random
import uuid
from collections.abc import Mapping
from typing import Annotated, Any, Generic, Literal, NamedTuple, TypeVar

import pytest
from pydantic import (
    UUID4,
    AliasChoices,
    AliasPath,
    AnyUrl,
    BaseModel,
    Field,
    HttpUrl,
    IPvAnyAddress,
    Json,
    RootModel,
    ValidationError,
)

from agentrt.errors import SchemaError, UnsatisfiableSchema
from agentrt.schema import Vocabulary, compile_schema, validate_text

from .test_matcher import walk


class Color(enum.Enum):
    RED = "red"
    GREEN = "green"


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int = Field(ge=1, le=9)


class Dog(BaseModel):
    kind: Literal["dog"]
    name: str = ""


class Node(BaseModel):
    value: int
    kids: list[Node] = []


class Point(NamedTuple):
    x: int
    y: str = "q"


@dataclasses.dataclass
class Data:
    p: float
    q: bool


T = TypeVar("T")


class Box(BaseModel, Generic[T]):
    item: T


class Aliased(BaseModel):
    some_name: int = Field(alias="someName")


class Lenient(BaseModel):
    city: str = Field(validation_alias=AliasChoices(AliasPath("address", "city"), "town"))


TYPES: list[Any] = [
    Lenient,
    int, float, bool, str, None, Color, Cat | Dog, Node, Point, Data, Box[int], Aliased, Any,
    Annotated[Cat | Dog, Field(discriminator="kind")], RootModel[list[int]], int | None,
    decimal.Decimal, Annotated[decimal.Decimal, Field(max_digits=5, decimal_places=2)],
    uuid.UUID, UUID4, datetime.date, datetime.datetime, datetime.time, datetime.timedelta,
    HttpUrl, AnyUrl, IPvAnyAddress, bytes, set[int], frozenset[Literal["a", "b"]],
    tuple[int, str], tuple[int, ...], dict[str, int], dict[int, str],
    dict[Annotated[str, Field(pattern="^k[0-9]$")], int], Literal[1, "a", None, True],
    Annotated[int, Field(multiple_of=7, gt=0)], Annotated[str, Field(min_length=2, max_length=4)],
    Annotated[list[int], Field(min_length=2, max_length=3)],
]  # fmt: skip


@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_what_is_generated_validates(kind: Any, vocabulary: Vocabulary) -> None:
    grammar = compile_schema(kind, vocabulary)
    rng = random.Random(0)
    for extra in (0, 4, 20, 0, 4, 20):
        text = walk(grammar, rng, grammar.min_tokens + extra)
        validate_text(kind, text)


class Mixed(enum.Enum):
    ONE = 1
    TWO = "two"


KEYS: list[Any] = [
    dict[Literal[1, "a"], int], dict[Literal[True], int], dict[Mixed, int], dict[Mixed | int, int],
    dict[enum.IntEnum("Level", {"LOW": 1}), int], dict[int | None, int], dict[Mixed | None, int],
    dict[decimal.Decimal, int], collections.OrderedDict[int, int], collections.Counter[int],
    collections.defaultdict[int, int], Mapping[int, int],
]  # fmt: skip


@pytest.mark.parametrize("kind", KEYS, ids=str)
def test_keys_are_read_back(kind: Any, vocabulary: Vocabulary) -> None:
    kind = Annotated[kind, Field(min_length=1)]
    grammar = compile_schema(kind, vocabulary)
    rng = random.Random(0)
    for extra in (0, 6, 20):
        text = walk(grammar, rng, grammar.min_tokens + extra)
        assert validate_text(kind, text)


@pytest.mark.parametrize("kind", [dict[Literal[1, 2], int], dict[Literal[1.5], int]], ids=str)
def test_keys_that_are_never_read_are_refused(kind: Any) -> None:
    with pytest.raises(SchemaError, match="read from a key"):
        compile_schema(kind)


@pytest.mark.parametrize("kind", [set[int], frozenset[Color], Annotated[set[str],
                                  Field(min_length=1, max_length=3)]], ids=str)  # fmt: skip
def test_sets_inside_a_string(kind: Any, vocabulary: Vocabulary) -> None:
    grammar = compile_schema(Json[kind], vocabulary)
    rng = random.Random(0)
    for extra in (0, 6, 20):
        validate_text(Json[kind], walk(grammar, rng, grammar.min_tokens + extra))


def test_a_set_inside_a_string_that_needs_two_is_refused() -> None:
    with pytest.raises(SchemaError, match="must differ"):
        compile_schema(Json[Annotated[set[int], Field(min_length=2)]])


DAY = datetime.timedelta(days=1)


@pytest.mark.parametrize("bound", ["ge", "gt", "le", "lt"])
@pytest.mark.parametrize(
    "given",
    [datetime.date(2020, 2, 29), datetime.date(1999, 12, 31), datetime.date(2000, 1, 1)],
)
def test_bounds_on_dates_are_enforced(bound: str, given: datetime.date) -> None:
    kind = Annotated[datetime.date, Field(**{bound: given})]
    grammar = compile_schema(kind)
    around = [given + n * DAY for n in (-400, -31, -2, -1, 0, 1, 2, 31, 400)]
    for day in [*around, datetime.date.min, datetime.date.max]:
        text = f'"{day.isoformat()}"'
        try:
            validate_text(kind, text)
        except ValidationError:
            assert not grammar.matches(text), text
        else:
            assert grammar.matches(text), text


def test_bounds_on_dates_that_leave_none_are_refused() -> None:
    for bound in ({"gt": datetime.date.max}, {"lt": datetime.date.min}):
        with pytest.raises(UnsatisfiableSchema):
            compile_schema(Annotated[datetime.date, Field(**bound)])
