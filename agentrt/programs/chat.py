"""A chat of many turns."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, overload

from agentrt.errors import InvalidRequest
from agentrt.programs.arguments import check_count
from agentrt.programs.state import State
from agentrt.programs.transcript import Transcript
from agentrt.runtime.checks import make_params

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from agentrt.generation import SamplingOptions
    from agentrt.messages import Message
    from agentrt.programs.streams import StateStream
    from agentrt.runtime.runtime import Runtime

T = TypeVar("T")


class Chat:
    """A conversation that remembers; each turn computes only what is new.

        chat = Chat("You are a helpful librarian.", temperature=0.7)
        print(await chat.say("What may I borrow?"))
        colour = await chat.say("Your favourite colour?", Colour)

    Turns that fail leave the conversation as it was before them. A conversation that has become too
    long raises PromptTooLong with the tokens of each message; `forget` then drops the oldest turns.
    `runtime` is the current one unless given; the options are defaults of every turn. Raises
    InvalidRequest for options that make no sense.
    """

    def __init__(
        self,
        system: str | None = None,
        *,
        runtime: Runtime | None = None,
        **options: Unpack[SamplingOptions],
    ) -> None:
        make_params("system", "runtime", **options)
        self._state = State(runtime, **options)
        if system is not None:
            self._state.system(system)

    @property
    def messages(self) -> tuple[Message, ...]:
        """What was said, in order."""
        return self._state.transcript.messages

    @property
    def state(self) -> State:
        """The state that the next turn goes on from: fork it, or run a program on it."""
        return self._state

    @overload
    async def say(self, text: str, /, **options: Unpack[SamplingOptions]) -> str: ...
    @overload
    async def say(self, text: str, kind: type[T], /, **options: Unpack[SamplingOptions]) -> T: ...
    @overload
    async def say(self, text: str, kind: Any, /, **options: Unpack[SamplingOptions]) -> Any: ...
    async def say(self, text: str, kind: Any = str, /, **options: Unpack[SamplingOptions]) -> Any:
        """The answer to `text`: a text, or a value of `kind`. Raises what `State.gen` raises."""
        turn = self._state.copy()
        turn.user(text)
        answer = await turn.gen(kind, **options)
        self._state.adopt(turn)
        return answer

    @asynccontextmanager
    async def stream(
        self, text: str, /, **options: Unpack[SamplingOptions]
    ) -> AsyncGenerator[StateStream[str, str]]:
        """The answer in pieces: `async with chat.stream(text) as stream`, then `async for` them.

        A stream that is left before its end leaves the conversation as it was.
        """
        turn = self._state.copy()
        turn.user(text)
        async with turn.stream(**options) as stream:
            yield stream
        if stream.is_over:
            self._state.adopt(turn)

    def forget(self, turns: int = 1) -> None:
        """Drops the oldest `turns` questions with their answers; the system message stays."""
        check_count("turns", turns)
        messages = self.messages
        asked = [index for index, message in enumerate(messages) if message.role == "user"]
        if turns > len(asked):
            raise InvalidRequest(f"there are {len(asked)} turns to forget, not {turns}")
        if not turns:
            return
        start, end = asked[0], [*asked, len(messages)][turns]
        self._state.rewind(Transcript((*messages[:start], *messages[end:])))
