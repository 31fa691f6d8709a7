"""Rows out of a text: in its order, each mention read once, whatever the model would say."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from agentrt import InvalidRequest, Runtime, SchemaError, UnsatisfiableSchema, Verbatim
from agentrt.html import text_of_html
from agentrt.programs import extract_rows

if TYPE_CHECKING:
    from tests.programs.conftest import Scripted

pytestmark = pytest.mark.anyio

SHOP = Path(__file__).parents[2] / "recipes" / "data" / "shop"


class Item(BaseModel):
    state: Literal["sold", "lent"]  # is no copy, although the text has the words
    name: str


PAGE = "Pan 12.00, rug 31.20, Pan 14.00, Pans 3.00 and Pan 9.50; lent, not sold"


async def test_a_row_is_there_as_often_as_the_text_says_it(scripted: Scripted) -> None:
    def again_and_again(prompt: str) -> str:
        said = prompt.rpartition("assistant: ")[2]
        rows = ",".join(['{"state":"sold","name":"Pan"}'] * 9)
        return f"[{rows}".removeprefix(said)

    async with scripted(again_and_again) as bound:
        rows = await extract_rows(Item, PAGE)
        assert bound.ratio < 1.05
        assert [row.name for row in rows[:3]] == ["Pan"] * 3
        assert "Pan" not in [row.name for row in rows[3:]]
        assert await extract_rows(Item, PAGE, most=2) == rows[:2]


class Line(TypedDict):
    number: int
    text: str


OPEN = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}


@pytest.mark.parametrize("kind", [Line, str, {**OPEN, "additionalProperties": False}])
async def test_it_ends_where_the_text_does(kind: Any, scripted: Scripted) -> None:
    """Under a model that ends nothing by itself: no text is left to copy, or no number."""
    async with scripted(lambda _: ","):
        assert 1 <= len(await extract_rows(kind, "1 one 2 two 3 three")) <= 6


class Folder(TypedDict):
    names: list[str]
    inner: list[Folder]


async def test_a_type_within_itself_has_its_first_text_at_the_top(scripted: Scripted) -> None:
    row = '{"names":["b","a"],"inner":[{"names":["c"],"inner":[]}]}'
    async with scripted(lambda prompt: f"[{row},{row}]".removeprefix(prompt[-1:])):
        first, *_ = await extract_rows(Folder, "a b c a b", most=1)
    assert first["names"][:1] == ["b"]


async def test_a_text_without_rows_and_a_type_without_texts(scripted: Scripted) -> None:
    async with scripted(""):
        with pytest.raises(UnsatisfiableSchema):
            await extract_rows(Line, "no number")
        for kind in (float, TypedDict("Pair", {"a": int, "b": Literal["x", "y"]})):
            with pytest.raises(SchemaError, match="copies no text to read on from"):
                await extract_rows(kind, "1 2 x")
        with pytest.raises(InvalidRequest, match="did you mean most"):
            await extract_rows(str, "a b", mst=3)  # type: ignore[call-overload]


class Product(BaseModel):
    name: Annotated[str, Verbatim] = Field(pattern="^[A-Z][a-z]+( [a-z]+)+$", max_length=40)
    price: float


@pytest.mark.model
async def test_the_pages_of_a_shop_are_read_once_each() -> None:
    """The heads of six pages as one list; a plain list of it is one kettle until its tokens end."""
    pages = [text_of_html(page.read_text("utf-8")) for page in sorted(SHOP.glob("item*.html"))]
    heads = [page.splitlines()[:2] for page in pages]
    async with Runtime():
        rows = await extract_rows(Product, "\n".join(line for head in heads for line in head))
    assert [row.name for row in rows] == [name for name, _ in heads]
    assert {row.price for row in rows} <= {float(price.split()[1]) for _, price in heads}
