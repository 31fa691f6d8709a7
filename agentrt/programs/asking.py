"""Ways of asking that several programs share."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, TypeVar, cast

from agentrt.programs.arguments import check_count

if TYPE_CHECKING:
    from collections.abc import Awaitable, Hashable

    from agentrt.programs.state import State

T = TypeVar("T")


async def conclusion(s: State, *, kind: Any = str, regex: str | None = None) -> Any:
    """The likeliest answer where the state stands: a text of one line, a type or a match."""
    if regex is not None:
        return await s.gen(regex=regex, temperature=0.0)
    if kind is str:
        return (await s.gen(stop=["\n"], temperature=0.0)).strip()
    return await s.gen(kind, temperature=0.0)


def same_text(answer: Any) -> Hashable:
    """What makes two answers one: their text, apart from case, outer space and a full stop."""
    return str(answer).strip().rstrip(".").casefold() or None


async def numbered(
    s: State, count: int, *, item: str = r"[^\n]{3,100}", max_tokens: int = 256
) -> list[str]:
    """`count` different items, one a line, as `1. ...`; the numbers cost no decoding.

    A line that the model repeats is dropped, so that there may be fewer.
    """
    check_count("count", count, 1)
    lines = r"\n".join(rf"{number}\. {item}" for number in range(1, count + 1))
    listing = await s.gen(regex=lines, max_tokens=max_tokens)
    items = [line.split(". ", 1)[1].strip() for line in listing.split("\n")]
    return list(dict.fromkeys(items))


async def awaited(value: T | Awaitable[T]) -> T:
    """What a function of the user's returned, whether it is async or not."""
    return await value if inspect.isawaitable(value) else cast("T", value)
