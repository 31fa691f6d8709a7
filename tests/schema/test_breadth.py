"""Every kind of type that Pydantic reads: what is generated for it, it validates; or it is refused
by name."""

from __future__ import annotations

import collections
import datetime as dt
import decimal
import enum
import fractions
import ipaddress
import json
import pathlib
import random
import re
import uuid
from collections.abc import Callable, Hashable  # fmt: skip
from typing import (
    Annotated,
    Any,
    ClassVar,
    Generic,
    Literal,
    NamedTuple,
    NotRequired,
    Required,
    TypeVar,
)

import pydantic as p
import pytest
from pydantic import AliasChoices, AliasGenerator, AliasPath, BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel
from pydantic.dataclasses import dataclass
from typing_extensions import ReadOnly, TypeAliasType, TypedDict

from agentrt.errors import SchemaError
from agentrt.schema import Vocabulary, compile_schema, schema_of, validate_text

from .test_matcher import walk

T = TypeVar("T")
D = decimal.Decimal


def model(alias: Any = None, *, kind: Any = int, default: Any = ..., **config: Any) -> Any:
    """A model of one field, read by an alias."""
    field = Field(default, validation_alias=alias)
    return p.create_model("Made", __config__=ConfigDict(**config), x=(kind, field))


class TwoPaths(BaseModel):
    x: int = Field(validation_alias=AliasPath("a", "b"))
    y: str = Field("q", validation_alias=AliasPath("a", "c", 1))
    z: bool = True


class PathAndWhole(BaseModel):
    x: int = Field(validation_alias=AliasPath("a", "b"))
    a: dict[str, int]


class Places(BaseModel):
    first: int = Field(validation_alias=AliasPath("xs", 0))
    third: str = Field("q", validation_alias=AliasPath("xs", 2))


class FromTheEnd(BaseModel):
    first: int = Field(validation_alias=AliasPath("xs", 0))
    last: str = Field(validation_alias=AliasPath("xs", -1))


class Generated(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel)
    some_name: int
    other_name: str = "q"


class GeneratedPaths(BaseModel):
    model_config = ConfigDict(
        alias_generator=AliasGenerator(validation_alias=lambda name: AliasPath("in", name))
    )
    some_name: int


@dataclass
class Data:
    x: Annotated[int, Field(validation_alias=AliasPath("a", "b"))]
    y: Annotated[list[int], Field(alias="why", default_factory=list)]


class Partly(TypedDict, total=False):
    a: Required[int]
    b: str


class Mostly(TypedDict):
    a: Annotated[int, Field(validation_alias=AliasPath("q", "r"))]
    b: NotRequired[str]
    c: ReadOnly[int]


class Pair(NamedTuple):
    x: int
    y: str = "q"


ALIASES: list[Any] = [
    model("ex"), model(AliasChoices("first", "second")), model(AliasPath("a", "b")),
    model(AliasChoices(AliasPath("a", "b"), "plain")), model(AliasPath("a")),
    model(AliasChoices(AliasPath("a", "b"), AliasPath("c"))), model(AliasPath("xs", -2)),
    model(AliasChoices(AliasPath("a", "b"), AliasPath("c", "d"))),
    model(AliasPath("a", "b"), default=3), model(AliasPath("a", "b"), extra="forbid"),
    model(AliasPath("a", "b"), extra="allow"), model(AliasPath("a", "b"), validate_by_name=True),
    model("ex", validate_by_name=True, validate_by_alias=False),
    model("ex", populate_by_name=True), TwoPaths, PathAndWhole, Places, FromTheEnd, Generated,
    GeneratedPaths, Data, Partly, Mostly, Pair, collections.namedtuple("Loose", "a b"),
]  # fmt: skip


class Mixed(enum.Enum):
    A = 1
    B = "b"
    C = None
    D = (1, 2)


class Flags(enum.Flag):
    R = 1
    W = 2


class Whole(enum.IntEnum):
    A = 1
    B = 5


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int
    count: ClassVar[int] = 9

    @p.computed_field
    def twice(self) -> int:
        return 2 * self.lives


class Dog(BaseModel):
    kind: Literal["dog"]
    name: str


class Tree(BaseModel, Generic[T]):
    value: T
    kids: list[Tree[T]] = []


class More(BaseModel):
    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, int]  # pyright: ignore
    x: int


class Strictly(BaseModel):
    model_config = ConfigDict(strict=True)
    a: float
    b: dt.date
    c: D
    d: bytes
    e: set[int]
    f: tuple[int, str]
    g: uuid.UUID


class Inside(BaseModel):
    payload: p.Json[list[int]]
    secret: p.SecretStr


class Me(BaseModel):
    you: You | None = None


class You(BaseModel):
    me: Me


def kind_of(value: Any) -> Any:
    return value.get("kind") if isinstance(value, dict) else value.kind


Called = Annotated[
    Annotated[Cat, p.Tag("cat")] | Annotated[Dog, p.Tag("dog")], p.Discriminator(kind_of)
]
Nested = TypeAliasType("Nested", "int | list[Nested]")
Named = TypeAliasType("Named", dict[str, T], type_params=(T,))

SHAPES: list[Any] = [
    Mixed, Flags, Whole, Literal["a", 1, None, True, b"x"], Called, Tree[int], Tree[Tree[str]],
    More, Strictly, Inside, Me, Nested, Named[int], p.RootModel[dict[str, list[int]]], object,
    dict, list, tuple, set, frozenset, tuple[()], Hashable, collections.deque[int],
    Annotated[collections.deque[int], Field(max_length=2)], collections.Counter[str],
    collections.defaultdict[str, list[int]], collections.OrderedDict[str, int],
    set[tuple[int, str]], set[D], frozenset[Whole], p.conset(int, min_length=2),
    p.confrozenset(Literal["a", "b"], min_length=1), p.conlist(int, min_length=1, max_length=2),
    dict[Whole, int], dict[bool, int], dict[float, int], dict[dt.date, int], dict[uuid.UUID, int],
    dict[Annotated[int, Field(ge=3, le=12)], int], dict[int | None, int], dict[D, int],
    dict[int | str, int], dict[ipaddress.IPv4Address, int], dict[p.Json[int], int],
    Annotated[dict[str, int], Field(min_length=2, max_length=3)],
    Annotated[int, p.AfterValidator(abs)], Annotated[int, p.WrapValidator(lambda v, h: h(v))],
    p.OnErrorOmit[int], p.SkipValidation[int], p.InstanceOf[int],
]  # fmt: skip

JSON: list[Any] = [
    p.Json, p.Json[Any], p.Json[list[int]], p.Json[str], p.Json[Cat], p.Json[Tree[int]],
    p.Json[p.Json[int]], p.Json[dict[str, int]], p.Json[More], p.Json[dt.date], p.Json[D],
    p.Json[Literal['a"b', 1]], p.Json[tuple[int, str]], p.Json[Annotated[int, Field(ge=3, le=70)]],
    p.Json[Annotated[str, Field(max_length=3, pattern="^[a-z]+$")]], list[p.Json[Mixed]],
]  # fmt: skip


def configured(kind: Any, **config: Any) -> Any:
    return p.create_model("Configured", __config__=ConfigDict(**config), x=(kind, ...))


STRINGS: list[Any] = [
    p.ByteSize, p.SecretStr, p.SecretBytes, p.Secret[dt.date], pathlib.Path, pathlib.PurePosixPath,
    Annotated[p.SecretStr, Field(min_length=2, max_length=3)], re.Pattern[str], complex,
    fractions.Fraction, uuid.UUID, p.UUID1, p.UUID3, p.UUID5, p.UUID6, p.UUID7, p.UUID8,
    ipaddress.IPv4Address, ipaddress.IPv6Address, ipaddress.IPv4Network, ipaddress.IPv6Network,
    ipaddress.IPv4Interface, ipaddress.IPv6Interface, p.IPvAnyAddress, p.IPvAnyNetwork,
    p.IPvAnyInterface, p.Base64Bytes, p.Base64Str, p.Base64UrlBytes, p.Base64UrlStr, bytes,
    p.conbytes(min_length=1, max_length=3), configured(bytes, val_json_bytes="base64"),
    configured(bytes, val_json_bytes="hex"),
    configured(p.conbytes(min_length=2, max_length=4), val_json_bytes="base64"),
    configured(p.constr(min_length=2), str_strip_whitespace=True),
    Annotated[str, p.StringConstraints(strip_whitespace=True, min_length=2, max_length=3)],
    Annotated[str, p.StringConstraints(to_lower=True, pattern="^[A-Z]{3}$")],
    Annotated[str, Field(pattern=r"^\d{4}(-\d{4}){3}$")], Annotated[str, Field(pattern=r"^\W{3}$")],
    Annotated[str, Field(pattern=r"^[^\d\s]{1,3}$")], Annotated[str, Field(pattern=r"^\S\D\s$")],
    p.AnyUrl, p.HttpUrl, p.FileUrl, p.FtpUrl, p.PostgresDsn, p.RedisDsn, p.MongoDsn, p.NatsDsn,
    p.MySQLDsn, p.MariaDBDsn, p.ClickHouseDsn, p.CockroachDsn, p.AmqpDsn, p.KafkaDsn,
    p.WebsocketUrl, p.EmailStr, p.NameEmail,
    Annotated[p.AnyUrl, p.UrlConstraints(max_length=20, allowed_schemes=["a+b"])],
]  # fmt: skip

NOON = dt.datetime(2020, 2, 29, 12, 0, 30, 5)
TIMES: list[Any] = [
    p.PastDate, p.FutureDate, p.PastDatetime, p.FutureDatetime, p.AwareDatetime, p.NaiveDatetime,
    dt.time, dt.timedelta, Annotated[dt.date, p.Strict()], Annotated[dt.datetime, p.Strict()],
    Annotated[dt.timedelta, p.Strict()], Annotated[dt.datetime, Field(gt=NOON)],
    Annotated[dt.datetime, Field(ge=NOON.replace(tzinfo=dt.UTC), lt=dt.datetime.now(dt.UTC))],
    Annotated[p.AwareDatetime, Field(le=NOON.replace(tzinfo=dt.timezone(dt.timedelta(hours=5))))],
    Annotated[dt.time, Field(gt=dt.time(9, 30), lt=dt.time(9, 45, 12))],
    Annotated[dt.timedelta, Field(gt=dt.timedelta(hours=1), le=dt.timedelta(days=1))],
    Annotated[dt.timedelta, Field(ge=dt.timedelta(0))],
    p.condate(gt=dt.date(2020, 1, 1)), configured(dt.timedelta, ser_json_timedelta="float"),
]  # fmt: skip
NUMBERS: list[Any] = [
    D, Annotated[D, Field(multiple_of=D("0.05"))], Annotated[D, Field(max_digits=4)],
    Annotated[D, Field(max_digits=4, decimal_places=2)], Annotated[D, Field(decimal_places=0)],
    p.condecimal(max_digits=3, decimal_places=3), p.condecimal(max_digits=2, decimal_places=3),
    p.condecimal(multiple_of=D("0.25"), gt=D(0), le=D(10)), p.condecimal(ge=D(10**20)),
    p.conint(gt=1, multiple_of=3), p.confloat(gt=0, le=1), p.PositiveInt, p.NegativeFloat,
    p.FiniteFloat, p.StrictInt, p.StrictFloat, Annotated[int, Field(ge=2**70)],
    Annotated[float, Field(gt=0, lt=1e-5)], configured(float, allow_inf_nan=False),
]  # fmt: skip


@pytest.mark.parametrize(
    "kind", [*ALIASES, *SHAPES, *JSON, *STRINGS, *TIMES, *NUMBERS], ids=lambda k: str(k)[:60]
)
def test_what_is_generated_validates(kind: Any, vocabulary: Vocabulary) -> None:
    grammar = compile_schema(kind, vocabulary)
    rng = random.Random(0)
    for extra in (0, 3, 20, 60) * 3:
        validate_text(kind, walk(grammar, rng, grammar.min_tokens + 1 + extra))


class Tuples(enum.Enum):
    A = (1, 2)


class Deep(BaseModel):
    inside: list[p.FilePath]


@pytest.mark.parametrize(
    ("kind", "pointer", "said"),
    [
        (p.FilePath, "", "whether a file exists"),
        (Deep, "/properties/inside", "use pathlib.Path"),
        (p.NewPath | None, "", "whether a path is free"),
        (p.ImportString, "", "can be imported"),
        (p.ImportString[Any], "", "can be imported"),
        (re.Pattern[bytes], "", "a pattern of bytes"),
        (type[int], "", "a class"),
        (Callable, "", "no JSON schema"),
        (Tuples, "", "read back from JSON"),
        (Literal[b"x"], "", "read back from JSON"),
        (Annotated[D, Field(ge=D("0.1234567890123456789"))], "", "more digits"),
        (Annotated[dt.time, Field(gt=dt.time(1, tzinfo=dt.UTC))], "", "with a zone"),
        (Annotated[p.AwareDatetime, Field(gt=NOON)], "", "time zone"),
        (Annotated[dt.timedelta, p.Strict(), Field(lt=dt.timedelta(0))], "", "leave strict"),
        (p.Json[Annotated[float, Field(gt=0)]], "/contentSchema", "exact arithmetic"),
        (
            p.create_model(
                "Both",
                x=(int, Field(validation_alias=AliasPath("a", 0))),
                y=(int, Field(validation_alias=AliasPath("a", "b"))),
            ),
            "/properties/a",
            "by the key 'b'",
        ),
    ],
    ids=str,
)
def test_what_is_not_known_from_json_is_refused(kind: Any, pointer: str, said: str) -> None:
    with pytest.raises(SchemaError, match=said) as caught:
        compile_schema(kind)
    assert caught.value.pointer == pointer


@pytest.mark.parametrize(
    ("kind", "texts"),
    [
        (Annotated[D, Field(max_digits=3)], [n / D(1000) for n in range(-20_000, 20_000, 37)]),
        (p.condecimal(max_digits=3, decimal_places=1), [n / D(100) for n in range(-2, 20_000, 7)]),
        (p.condecimal(max_digits=2, decimal_places=3), [n / D(1000) for n in range(1, 1200)]),
        (dict[Annotated[int, Field(ge=3, le=12)], int], [{str(n): 1} for n in range(-3, 30)]),
        (configured(str, str_strip_whitespace=True, str_min_length=2), [{"x": "ab"}, {"x": "a"}]),
        (Whole, [0, 1, 5, "1"]),
        (Annotated[str, Field(pattern=r"^[^\w]$")], ["a", "é", "٣", "ª", "!", " ", "\u2028"]),
    ],
    ids=lambda v: str(v)[:40] if not isinstance(v, list) else "",
)
def test_what_validates_is_generated_and_nothing_else(kind: Any, texts: list[Any]) -> None:
    grammar = compile_schema(kind)
    for value in texts:
        text = f"{value:f}" if isinstance(value, D) else json.dumps(value, separators=(",", ":"))
        try:
            validate_text(kind, text)
        except p.ValidationError:
            assert not grammar.matches(text), text
        else:
            # a Decimal's trailing zeros, and 1 as a string, are left to it
            assert grammar.matches(text) or isinstance(value, str), text


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (p.ByteSize, '"1.5 GiB"'),
        (p.ByteSize, "17"),
        (p.Json, r'"{\"a\":[1,\"\\n\"]}"'),
        (p.Json[Cat], r'"{\"kind\":\"cat\",\"lives\":9}"'),
        (p.Json[Tree[int]], r'"{\"value\":1,\"kids\":[{\"value\":2}]}"'),
        (TwoPaths, '{"z":true,"a":{"b":1,"c":[null,"q"]}}'),
        (FromTheEnd, '{"xs":[1,"q"]}'),
        (ipaddress.IPv4Network, '"10.128.0.0/9"'),
        (ipaddress.IPv6Network, '"2001:db8::/32"'),
        (Annotated[dt.datetime, Field(gt=NOON)], '"2020-02-29T12:00:31"'),
        (p.PostgresDsn, '"postgresql+asyncpg://db.example.org:5432/shop"'),
    ],
    ids=str,
)
def test_usual_texts_are_among_them(kind: Any, text: str) -> None:
    assert compile_schema(kind).matches(text)
    validate_text(kind, text)


def test_content_schemas_are_notes_unless_they_are_marked() -> None:
    noted = {"type": "string", "contentMediaType": "application/json", "contentSchema": False}
    assert compile_schema(noted).matches('"no JSON"')
    assert schema_of(p.Json[int])["contentSchema"] == {"type": "integer"}
