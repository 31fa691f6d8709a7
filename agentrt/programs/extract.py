"""Objects out of text: the shortest way in."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, overload

from agentrt.programs.ambient import ensure_runtime, run_sync
from agentrt.programs.answers import name_of
from agentrt.programs.describe import describe
from agentrt.programs.program import program
from agentrt.schema.types import adapter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentrt.programs.state import GenOptions, State

T = TypeVar("T")


@overload
async def extract(
    kind: type[T],
    text: str,
    *,
    instructions: str | None = None,
    examples: Sequence[tuple[str, T]] = (),
    **options: Unpack[GenOptions],
) -> T: ...
@overload
async def extract(
    kind: Any,
    text: str,
    *,
    instructions: str | None = None,
    examples: Sequence[tuple[str, Any]] = (),
    **options: Unpack[GenOptions],
) -> Any: ...
async def extract(
    kind: Any,
    text: str,
    *,
    instructions: str | None = None,
    examples: Sequence[tuple[str, Any]] = (),
    **options: Unpack[GenOptions],
) -> Any:
    """The object of a type (or JSON schema) that a text tells of.

        invoice = await extract(Invoice, text)

    The names and descriptions of the fields are what the model goes by. `instructions` say more,
    `examples` are (text, object) pairs to go by. They come before the text, so that many texts
    share them, computed once. Outside `async with Runtime()` it uses one that is opened for the
    process. Raises what `State.gen` raises; PromptTooLong where the text does not fit: then use
    `agentrt.programs.extract_long`.
    """
    await ensure_runtime()
    return await _extract(kind, text, instructions, examples, options)


@overload
def extract_sync(
    kind: type[T],
    text: str,
    *,
    instructions: str | None = None,
    examples: Sequence[tuple[str, T]] = (),
    **options: Unpack[GenOptions],
) -> T: ...
@overload
def extract_sync(
    kind: Any,
    text: str,
    *,
    instructions: str | None = None,
    examples: Sequence[tuple[str, Any]] = (),
    **options: Unpack[GenOptions],
) -> Any: ...
def extract_sync(kind: Any, text: str, **options: Any) -> Any:
    """`extract` for code that is not async; it may also be called where an event loop runs."""
    return run_sync(partial(extract, kind, text, **options))


@program(name="extract")
async def _extract(
    s: State,
    kind: Any,
    text: str,
    instructions: str | None,
    examples: Sequence[tuple[str, Any]],
    options: GenOptions,
) -> Any:
    ask_for(s, kind, instructions, examples)
    s.user(text)
    return await s.gen(kind, **options)


def ask_for(
    s: State,
    kind: Any,
    instructions: str | None = None,
    examples: Sequence[tuple[str, Any]] = (),
) -> None:
    """Says what is to be extracted, for the texts that follow; `examples` are (text, object)."""
    more = f"\n{instructions}" if instructions else ""
    s.system(
        f"You extract data from the text the user gives. Answer with one JSON value, "
        f"{name_of(kind)}, whose values are copied from the text:\n{describe(kind)}{more}"
    )
    for shown, found in examples:
        s.user(shown)
        s.assistant(adapter(Any if isinstance(kind, dict) else kind).dump_json(found).decode())
