"""What a program speaks to: a text that grows, forks, and is gone on with by some engine.

Every generation takes exactly the tokens it is given, end tokens forbidden, so that engines whose
answers differ still do the same work.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pydantic import BaseModel


@dataclass(frozen=True, slots=True)
class Answer:
    """What an engine wrote.

    `first` is when its first token was there (of `time.perf_counter`), where the engine tells;
    `computed` is how many prompt tokens it computed, where it counts them, those of choices too.
    """

    text: str
    tokens: int
    first: float | None = None
    computed: int | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """One generation as it went: seconds from asking to the first token and to the end.

    `continuations` are the texts that were written or scored after the prompt.
    """

    prompt: str
    continuations: tuple[str, ...]
    tokens: int
    seconds: float
    first_s: float | None
    computed: int | None
    valid: bool | None = None


class Engine(Protocol):
    """What serves a workload. `can` names what it does: "text", "select", "json"."""

    name: str
    can: frozenset[str]

    async def start(self) -> None:
        """Loads the model; what runs before the first measured call."""
        ...

    async def fresh(self) -> None:
        """Forgets everything that was cached."""
        ...

    def branch(self, log: list[Call]) -> Branch:
        """An empty text, whose calls are noted in `log`."""
        ...

    async def stop(self) -> None: ...


class Branch(ABC):
    """What a program has said so far, and the calls that go on from it."""

    def __init__(self, log: list[Call]) -> None:
        self.log = log

    @property
    @abstractmethod
    def text(self) -> str:
        """Everything said and written."""

    @abstractmethod
    def say(self, text: str) -> None: ...

    @abstractmethod
    def fork(self, count: int) -> list[Branch]: ...

    async def gen(self, max_tokens: int) -> str:
        """Writes `max_tokens` tokens, greedily."""
        prompt, start = self.text, time.perf_counter()
        answer = await self._gen(max_tokens)
        self._note(prompt, (answer.text,), answer, start)
        return answer.text

    async def select(self, choices: Sequence[str]) -> str:
        """Goes on with the likeliest choice."""
        prompt, start = self.text, time.perf_counter()
        answer = await self._select(choices)
        self._note(prompt, tuple(choices), answer, start)
        return answer.text

    async def fill(self, kind: type[BaseModel], max_tokens: int) -> bool:
        """Writes an object as JSON; whether it is one."""
        prompt, start = self.text, time.perf_counter()
        answer = await self._fill(kind, max_tokens)
        try:
            kind.model_validate_json(answer.text)
        except ValueError:
            valid = False
        else:
            valid = True
        self._note(prompt, (answer.text,), answer, start, valid)
        return valid

    @abstractmethod
    async def _gen(self, max_tokens: int) -> Answer: ...

    @abstractmethod
    async def _select(self, choices: Sequence[str]) -> Answer: ...

    @abstractmethod
    async def _fill(self, kind: type[BaseModel], max_tokens: int) -> Answer: ...

    def _note(
        self,
        prompt: str,
        continuations: tuple[str, ...],
        answer: Answer,
        start: float,
        valid: bool | None = None,
    ) -> None:
        first_s = None if answer.first is None else answer.first - start
        seconds = time.perf_counter() - start
        call = Call(prompt, continuations, answer.tokens, seconds, first_s, answer.computed, valid)
        self.log.append(call)


class Completer(Protocol):
    """An engine of plain requests: a prompt in, its continuation out."""

    async def gen(self, prompt: str, max_tokens: int) -> Answer: ...

    async def select(self, prompt: str, choices: Sequence[str]) -> Answer: ...

    async def fill(self, prompt: str, kind: type[BaseModel], max_tokens: int) -> Answer: ...


class TextBranch(Branch):
    """A branch for engines that know requests only: it keeps the text and sends it whole."""

    def __init__(self, log: list[Call], engine: Completer, text: str = "") -> None:
        super().__init__(log)
        self._engine = engine
        self._text = text

    @property
    def text(self) -> str:
        return self._text

    def say(self, text: str) -> None:
        self._text += text

    def fork(self, count: int) -> list[Branch]:
        return [TextBranch(self.log, self._engine, self._text) for _ in range(count)]

    async def _gen(self, max_tokens: int) -> Answer:
        return self._said(await self._engine.gen(self._text, max_tokens))

    async def _select(self, choices: Sequence[str]) -> Answer:
        return self._said(await self._engine.select(self._text, choices))

    async def _fill(self, kind: type[BaseModel], max_tokens: int) -> Answer:
        return self._said(await self._engine.fill(self._text, kind, max_tokens))

    def _said(self, answer: Answer) -> Answer:
        self._text += answer.text
        return answer
