"""Objects out of text: the shortest way in."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, overload

from agentrt.errors import InvalidRequest
from agentrt.programs.ambient import ensure_runtime, run_sync
from agentrt.programs.answers import name_of
from agentrt.programs.arguments import check_kind, check_text
from agentrt.programs.describe import describe
from agentrt.programs.options import read_options
from agentrt.programs.program import program
from agentrt.schema import schema_of
from agentrt.schema.copying import marks
from agentrt.schema.types import adapter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentrt.programs.options import GenOptions
    from agentrt.programs.state import State

T = TypeVar("T")


@overload
async def extract(
    kind: type[T],
    text: str,
    *,
    instructions: str | None = None,
    examples: Sequence[tuple[str, T]] = (),
    verbatim: bool = False,
    **options: Unpack[GenOptions],
) -> T: ...
@overload
async def extract(
    kind: Any,
    text: str,
    *,
    instructions: str | None = None,
    examples: Sequence[tuple[str, Any]] = (),
    verbatim: bool = False,
    **options: Unpack[GenOptions],
) -> Any: ...
async def extract(
    kind: type[T],
    text: str,
    *,
    instructions: str | None = None,
    examples: Sequence[tuple[str, Any]] = (),
    verbatim: bool = False,
    **options: Unpack[GenOptions],
) -> T:
    """The object of a type (or JSON schema) that a text tells of.

        invoice = await extract(Invoice, text)

    The names and descriptions of the fields are what the model goes by. `instructions` say more,
    `examples` are (text, object) pairs to go by. They come before the text, so that many texts
    share them, computed once. With `verbatim` the values are copied: texts that nothing else binds
    are spans of the text, numbers and dates those that it mentions; without it only the fields
    marked `Annotated[str, Verbatim]` (see :func:`agentrt.verbatim`). Outside `async with Runtime()`
    it uses one that is opened for the process.

    Raises what `State.gen` raises; UnsatisfiableSchema where a value that has to be copied is of a
    kind that the text has none of; PromptTooLong where the text does not fit: then use
    `agentrt.programs.extract_long`; InvalidRequest for a text with nothing in it.

    Of a JSON schema what it says is enforced, and no more: fields that it does not name under
    `required` may be left out, and without `"additionalProperties": false` there may be others.
    """
    check_text_to_read(kind, text)
    read_options(options, "instructions", "examples", "verbatim")
    await ensure_runtime()
    return await _extract(kind, text, instructions, examples, verbatim, options)


@overload
def extract_sync(
    kind: type[T],
    text: str,
    *,
    instructions: str | None = None,
    examples: Sequence[tuple[str, T]] = (),
    verbatim: bool = False,
    **options: Unpack[GenOptions],
) -> T: ...
@overload
def extract_sync(
    kind: Any,
    text: str,
    *,
    instructions: str | None = None,
    examples: Sequence[tuple[str, Any]] = (),
    verbatim: bool = False,
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
    verbatim: bool,
    options: GenOptions,
) -> Any:
    ask_for(s, kind, instructions, examples)
    s.user(text)
    if verbatim or is_marked(kind):
        kind = marks.verbatim(kind, text, every=verbatim)
    return await s.gen(kind, **options)


def check_text_to_read(kind: Any, text: Any) -> None:
    """Raises InvalidRequest for what is no type, and for a text that tells nothing."""
    check_kind(kind, but_first=text)
    if not check_text("text", text).strip():
        raise InvalidRequest(
            f"text={text!r}; there is nothing to extract from, and a value would be made up"
        )


def is_marked(kind: Any) -> bool:
    """Whether a type or a schema has values that are copied from the text it is read from."""
    try:
        return _has_marked_fields(kind)
    except TypeError:  # a schema, or a type that cannot be hashed
        return marks.has_marks(kind if isinstance(kind, dict) else schema_of(kind))


@lru_cache(maxsize=256)
def _has_marked_fields(kind: Any) -> bool:
    return marks.has_marks(schema_of(kind))


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
