"""Functions as tools: what is read off them, and how they are called."""

from __future__ import annotations

import functools
import math
import threading
from datetime import date
from typing import TYPE_CHECKING, Annotated, Literal

import anyio
import anyio.to_thread
import pytest
from annotated_types import Ge
from pydantic import BaseModel, Field

from agentrt import InvalidRequest, Tool, describe_tools, tool
from agentrt.programs import tools
from agentrt.programs.tools import as_text

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.anyio


class Place(BaseModel):
    name: str
    country: str = "FR"


@tool
def google(query: str, limit: int = 3) -> str:
    """Looks things up.

    In an encyclopaedia.

    Args:
        query: what to look for,
            in words
        limit (int): most results

    Returns:
        Text.
    """
    return f"{query} {limit}"


@tool
def numpydoc(x: float, y: float) -> float:
    """Adds.

    Parameters
    ----------
    x : float
        The first.
    y : float
        The second.
    """
    return x + y


@tool
def sphinx(day: date) -> str:
    """Names a day.

    :param day: the day
    :returns: its name
    """
    return day.strftime("%A")


@tool(name="weigh", description="Weighs.")
async def options(
    place: Place,
    kind: Annotated[Literal["net", "gross"], Field(description="which weight")] = "net",
    times: int = Field(2, ge=1, description="how often"),
    least: Annotated[int, Ge(0)] = 0,
) -> dict[str, object]:
    return {"place": place, "kind": kind, "times": times, "least": least}


def notes(found: Tool[..., object]) -> dict[str, str | None]:
    return {name: each.get("description") for name, each in found.schema["properties"].items()}


def test_docstrings_of_three_styles_describe_the_arguments() -> None:
    assert google.description == "Looks things up.\n\nIn an encyclopaedia."
    assert notes(google) == {"query": "what to look for, in words", "limit": "most results"}
    assert notes(numpydoc) == {"x": "The first.", "y": "The second."}
    assert notes(sphinx) == {"day": "the day"}
    assert notes(options) == {
        "place": None,
        "kind": "which weight",
        "times": "how often",
        "least": None,
    }


def test_the_schema_is_that_of_the_signature() -> None:
    schema = options.schema
    assert schema["required"] == ["place"]
    assert schema["additionalProperties"] is False
    assert schema["properties"]["kind"]["enum"] == ["net", "gross"]
    assert schema["properties"]["times"]["minimum"] == 1
    assert schema["properties"]["least"]["minimum"] == 0
    assert (options.name, options.description) == ("weigh", "Weighs.")


def test_a_tool_is_still_the_function_it_was() -> None:
    assert google("a", limit=1) == "a 1"
    assert google.__name__ == "google"


async def test_a_call_validates_and_gives_text() -> None:
    assert await google.call('{"query": "x"}') == "x 3"
    assert await numpydoc.call({"x": 1, "y": 2.5}) == "3.5"
    assert await sphinx.call({"day": "2026-02-27"}) == "Friday"
    place = '{"name":"Lyon","country":"FR"}'
    assert (
        await options.call({"place": {"name": "Lyon"}})
        == f'{{"place":{place},"kind":"net","times":2,"least":0}}'
    )


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        ({}, "query: Field required"),
        ({"query": 1}, "query: Input should be a valid string"),
        ({"query": "x", "page": 2}, "page: Extra inputs are not permitted"),
        ("[1", "arguments: Invalid JSON"),
    ],
)
async def test_arguments_that_do_not_fit(given: dict[str, object] | str, wrong: str) -> None:
    with pytest.raises(InvalidRequest, match=wrong):
        await google.call(given)


async def test_what_a_tool_raises_comes_as_it_is() -> None:
    @tool
    def root(x: float) -> float:
        return math.sqrt(x)

    assert await root.call('{"x": 4}') == "2.0"
    with pytest.raises(ValueError):  # noqa: PT011 - the words are Python's own
        await root.call('{"x": -1}')


async def test_a_sync_tool_runs_in_a_thread_that_a_timeout_leaves_behind() -> None:
    release, ended = threading.Event(), threading.Event()

    def wait() -> str:
        release.wait()
        ended.set()
        return threading.current_thread().name

    with pytest.raises(TimeoutError):
        await Tool(wait, timeout=1e-3).call({})
    assert not ended.is_set()
    release.set()
    here = threading.current_thread().name
    assert await Tool(wait).call({}) != here


async def test_an_async_tool_is_cancelled_by_its_timeout() -> None:
    cancelled: list[bool] = []

    async def wait() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            cancelled.append(True)

    with pytest.raises(TimeoutError):
        await Tool(wait, timeout=1e-3).call({})
    assert cancelled == [True]


async def test_methods_callables_and_partials_are_functions_too() -> None:
    class Shop:
        def price(self, item: str) -> int:
            """The price of an item."""
            return len(item)

        async def __call__(self, item: str) -> int:
            return len(item) + 1

    def scaled(item: str, by: int) -> int:
        return len(item) * by

    assert await Tool(Shop().price).call({"item": "tea"}) == "3"
    assert await Tool(Shop(), name="shop").call({"item": "tea"}) == "4"
    assert await Tool(functools.partial(scaled, by=2), name="twice").call({"item": "tea"}) == "6"


def test_signatures_that_cannot_be_filled_are_refused() -> None:
    def untyped(x):
        return x

    def many(*xs: int) -> int:
        return sum(xs)

    def named(**xs: int) -> int:
        return sum(xs.values())

    def placed(x: int, /) -> int:
        return x

    def unknown(x: Nowhere) -> int:  # noqa: F821  # pyright: ignore
        return 0

    for function, wrong in [
        (untyped, "x of the tool untyped has no type"),
        (many, r"any number of arguments \(\*xs\)"),
        (named, "arguments of any name"),
        (placed, "x by position only"),
        (unknown, "Nowhere"),
    ]:
        with pytest.raises(InvalidRequest, match=wrong):
            tool(function)


@pytest.mark.parametrize("wrong", [{"on_error": "ignore"}, {"timeout": 0}, {"timeout": -1.0}])
def test_options_that_make_no_sense_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidRequest, match=next(iter(wrong))):
        tool(**wrong)(google)  # pyright: ignore


def test_tools_in_words() -> None:
    assert describe_tools([google, sphinx]).splitlines()[1:] == [
        "- google: Looks things up. In an encyclopaedia.",
        "  - query (text): what to look for, in words",
        "  - limit (whole number, optional): most results",
        "- sphinx: Names a day.",
        "  - day (date): the day",
    ]
    with pytest.raises(InvalidRequest, match="no tools"):
        describe_tools([])
    with pytest.raises(InvalidRequest, match="named google"):
        describe_tools([google, google])


@pytest.mark.parametrize("anyio_backend", ["trio"])
async def test_tools_that_hang_keep_no_thread_from_others() -> None:
    release = threading.Event()

    def hang() -> None:
        release.wait()

    hung = Tool(hang)
    limiter = anyio.to_thread.current_default_thread_limiter()
    before = limiter.total_tokens
    limiter.total_tokens = 1
    try:
        for _ in range(tools.MOST_THREADS + 1):
            with pytest.raises(TimeoutError), anyio.fail_after(1e-3):
                await hung.call({})
        with anyio.fail_after(30):
            assert await anyio.to_thread.run_sync(lambda: "free") == "free"
            assert await numpydoc.call({"x": 1, "y": 2}) == "3.0"
    finally:
        release.set()
        limiter.total_tokens = before


async def test_half_a_surrogate_pair_is_read_as_such() -> None:
    @tool
    async def broken(deep: bool) -> object:
        return {"a": ["\ud83d"]} if deep else "x\ud83d\ude00\ud83d"

    assert await broken.call({"deep": False}) == "x\U0001f600\ufffd"
    assert await broken.call({"deep": True}) == '{"a":["\ufffd"]}'


def test_an_async_generator_is_no_tool() -> None:
    async def pages(query: str) -> AsyncIterator[str]:
        yield query

    with pytest.raises(InvalidRequest, match="return a list"):
        tool(pages)


@pytest.mark.parametrize("name", ["", "half \ud800", "zero\0", "two\nlines"])
def test_names_that_cannot_be_shown_are_refused(name: str) -> None:
    with pytest.raises(InvalidRequest, match="name="):
        tool(name=name)(google)


def test_what_a_model_is_told_has_no_addresses_in_it() -> None:
    class Page:
        pass

    assert as_text(Page()) == as_text(Page())
    assert as_text([Page(), b"\xff"]) == as_text([Page(), b"\xff"])
