"""An answer as it grows: pieces of text, or an object that fills up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Self, TypeVar

from agentrt.errors import InvalidRequest
from agentrt.schema import partial as parse_partial

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from types import TracebackType

    from agentrt.programs.generating import Result
    from agentrt.schema import Partial

T = TypeVar("T")
Piece = TypeVar("Piece", covariant=True)


@dataclass(slots=True)
class Growth(Generic[T]):
    """How far a streamed generation has come: written by what generates, read by the stream."""

    is_text: bool
    text: str = ""
    result: Result[T] | None = None
    _shown: Partial | None = None

    def add(self, text: str) -> str | Partial | None:
        """The piece to show now that `text` was written; None where nothing new can be shown."""
        self.text += text
        if self.is_text:
            return text or None
        known, self._shown = self._shown, parse_partial(self.text)
        changed = known is None or (known.value, known.growing) != (
            self._shown.value,
            self._shown.growing,
        )
        return self._shown if changed else None


class StateStream(Generic[T, Piece]):
    """A generation in pieces, and at its end the value.

        async with s.stream(Invoice) as stream:
            async for part in stream:
                show(part.value, part.growing)
        invoice = stream.value

    Of text, the pieces are what was added; of any other type, a `Partial`: `value` holds the fields
    that are complete and `growing` the string being written. Where a validator refuses a field, the
    last piece is the mended object. Leaving the block, or a loop over a stream that nothing else
    holds, aborts the generation within one engine step; the state then stays as it was.
    """

    def __init__(self, growth: Growth[T], pieces: AsyncGenerator[Piece]) -> None:
        # The generator knows the growth and not the stream: a stream that is dropped is freed at
        # once, and the event loop then closes its generator.
        self._growth = growth
        self._pieces = pieces

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._pieces.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Piece:
        return await anext(self._pieces)

    @property
    def text(self) -> str:
        """What has been written so far."""
        return self._growth.text

    @property
    def is_over(self) -> bool:
        """Whether it was read to its end."""
        return self._growth.result is not None

    @property
    def result(self) -> Result[T]:
        """The whole generation. Raises InvalidRequest before its end."""
        if self._growth.result is None:
            raise InvalidRequest("the stream has not ended; read it to its end first")
        return self._growth.result

    @property
    def value(self) -> T:
        """What the whole text means. Raises InvalidRequest before its end."""
        return self.result.value
