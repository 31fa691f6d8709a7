"""A generation as it grows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from agentrt.errors import InvalidRequest
from agentrt.generation import Usage

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from types import TracebackType

    from agentrt.generation import Chunk, Completion
    from agentrt.runtime.crossing import Reply


class CompletionStream:
    """Chunks of one generation; leaving the `async with` block aborts what is left of it.

        async with runtime.stream("Once") as stream:
            async for chunk in stream:
                print(chunk.text, end="")
        print(stream.completion.usage)

    It starts on entry. Iterating raises what stopped it (:class:`agentrt.errors.RunError`).
    """

    def __init__(self, serve: Callable[[], AbstractContextManager[list[Reply]]]) -> None:
        self._serve = serve
        self._serving: AbstractContextManager[list[Reply]] | None = None
        self._reply: Reply | None = None
        self._completion: Completion | None = None

    async def __aenter__(self) -> Self:
        if self._serving is not None:
            raise InvalidRequest("a stream runs once; call runtime.stream(...) again for another")
        self._serving = self._serve()
        (self._reply,) = self._serving.__enter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._serving is not None
        self._serving.__exit__(kind, error, trace)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Chunk:
        if self._reply is None:
            raise InvalidRequest("a stream is read inside its block: `async with ... as stream:`")
        chunk = await self._reply.next_chunk()
        if chunk is None:
            self._completion = await self._reply.outcome()
            raise StopAsyncIteration
        return chunk

    @property
    def output_tokens(self) -> int:
        """How many tokens were written so far, whether or not they have been read."""
        return 0 if self._reply is None else self._reply.output_tokens

    @property
    def usage(self) -> Usage:
        """What it took, also where it was left before its end; all zero until it was left."""
        return Usage() if self._reply is None else self._reply.usage

    @property
    def completion(self) -> Completion:
        """The whole generation, once every chunk has been read. Raises InvalidRequest before."""
        if self._completion is None:
            raise InvalidRequest("the stream has not ended; its completion is known after the last")
        return self._completion
