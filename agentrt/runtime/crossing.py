"""The way from the engine's thread back to the callers' event loops, crossed once a step."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import anyio
import anyio.lowlevel

from agentrt.errors import AgentrtError, InvalidRequest
from agentrt.generation import Usage
from agentrt.threads import Loop

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from agentrt.generation import Chunk, Completion


@dataclass(frozen=True, slots=True)
class Finished:
    """The last thing said of a request: what came of it, or what stopped it."""

    outcome: Completion | AgentrtError


class Reply:
    """Where the answers to one request arrive. Filled on its caller's loop, read by its caller."""

    def __init__(self) -> None:
        self.loop = Loop.current()
        self._chunks: deque[Chunk] = deque()
        self._finished: Finished | None = None
        self._news = anyio.Event()
        self.output_tokens = 0  # of the chunks that came
        self.usage_so_far = Usage()  # as of when its caller left
        self.on_finished: Callable[[Finished], None] | None = None
        self.on_chunk: Callable[[Chunk], None] | None = None

    @property
    def is_finished(self) -> bool:
        return self._finished is not None

    @property
    def usage(self) -> Usage:
        """What it took, once its caller has left, however it ended."""
        outcome = None if self._finished is None else self._finished.outcome
        if outcome is None or isinstance(outcome, AgentrtError):
            return self.usage_so_far
        return outcome.usage

    def deliver_nowait(self, event: Chunk | Finished) -> None:
        """Takes one event in; only ever called on the reply's own loop."""
        if isinstance(event, Finished):
            self._finished = event
            if self.on_finished is not None:
                self.on_finished(event)
        else:
            self._chunks.append(event)
            self.output_tokens += len(event.token_ids) - event.rollback
            if self.on_chunk is not None:
                self.on_chunk(event)
        self._news.set()

    async def outcome(self) -> Completion:
        """Waits for the end of the request. Raises what stopped it."""
        if self._finished is not None:
            await anyio.lowlevel.checkpoint()
        while self._finished is None:
            await self._wait()
        return self._take_outcome()

    async def next_chunk(self) -> Chunk | None:
        """The next piece of a stream, or None when it has ended well. Raises what stopped it."""
        await anyio.lowlevel.checkpoint()
        while not self._chunks:
            if self._finished is not None:
                self._take_outcome()
                return None
            await self._wait()
        return self._chunks.popleft()  # at once: other tasks may be reading as well

    async def _wait(self) -> None:
        if Loop.current() != self.loop:
            raise InvalidRequest(
                "this was begun on another event loop, and its news come there; read it where it "
                "was begun"
            )
        if self._news.is_set():  # else another task waits already, for the same news
            self._news = anyio.Event()
        await self._news.wait()

    def _take_outcome(self) -> Completion:
        assert self._finished is not None
        outcome = self._finished.outcome
        if isinstance(outcome, AgentrtError):
            raise outcome
        return outcome


def deliver(events: Iterable[tuple[Reply, Chunk | Finished]]) -> None:
    """Sends every event to its caller, one crossing per loop; a closed loop gets none."""
    by_loop: dict[Loop, list[tuple[Reply, Chunk | Finished]]] = {}
    for reply, event in events:
        by_loop.setdefault(reply.loop, []).append((reply, event))
    for loop, batch in by_loop.items():
        loop.post(partial(_deliver_nowait, batch))


def _deliver_nowait(batch: list[tuple[Reply, Chunk | Finished]]) -> None:
    for reply, event in batch:
        reply.deliver_nowait(event)
