"""agentrt itself: every program runs on a state."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, ClassVar

from agentrt import Runtime, State
from benchmarks.clock import Clock
from benchmarks.workloads import Answer, Branch, Call

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pydantic import BaseModel

    from agentrt import Completion


class StateBranch(Branch):
    """A state, under the names that workloads use."""

    def __init__(self, log: list[Call], state: State) -> None:
        super().__init__(log)
        self._state = state

    @property
    def text(self) -> str:
        return self._state.text_so_far

    def say(self, text: str) -> None:
        self._state.text(text)

    def fork(self, count: int) -> list[Branch]:
        return [StateBranch(self.log, state) for state in self._state.fork(count)]

    async def _gen(self, max_tokens: int) -> Answer:
        await self._state.gen(name="it", max_tokens=max_tokens, min_tokens=max_tokens)
        return self._answer()

    async def _select(self, choices: Sequence[str]) -> Answer:
        await self._state.select(choices, name="it")
        return self._answer()

    async def _fill(self, kind: type[BaseModel], max_tokens: int) -> Answer:
        await self._state.gen(kind, name="it", max_tokens=max_tokens)
        return self._answer()

    def _answer(self) -> Answer:
        result = self._state.result("it")
        done: Completion = result.completion
        if result.selection is not None:
            return Answer(done.text, 0, computed=done.usage.computed_tokens)
        first = time.perf_counter() - done.timings.decode_s
        usage = done.usage
        return Answer(result.text, usage.output_tokens, first, computed=usage.computed_tokens)


class Agentrt:
    """This project."""

    name = "agentrt"
    can = frozenset({"text", "select", "json"})

    options: ClassVar[dict[str, Any]] = {}

    def __init__(self, threads: int) -> None:
        self._runtime = Runtime(threads=threads, kv_tokens=60_000, **self.options)

    async def start(self) -> None:
        await self._runtime.__aenter__()
        self._clock = Clock(self._runtime._served.loaded.executor, ("execute",))

    def model_seconds(self) -> float:
        """How long the model has computed."""
        return self._clock.seconds

    async def fresh(self) -> None:
        await self._runtime.flush_cache()

    def branch(self, log: list[Call]) -> Branch:
        return StateBranch(log, State(self._runtime))

    async def stop(self) -> None:
        await self._runtime.__aexit__(None, None, None)


class AgentrtPlain(Agentrt):
    """This project, with nothing looked up that was written before."""

    name = "agentrt-plain"
    options: ClassVar[dict[str, Any]] = {"lookup": False}


class AgentrtFile(Agentrt):
    """This project, all activations rounded to 16 bits."""

    name = "agentrt-file"
    options: ClassVar[dict[str, Any]] = {"weights": "file"}
