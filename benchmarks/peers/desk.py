"""For engines that block: one thread that serves what coroutines ask of it."""

from __future__ import annotations

import asyncio
import queue
import threading
from abc import ABC, abstractmethod
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from benchmarks.workloads import Answer, Branch, Call, TextBranch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pydantic import BaseModel


@dataclass(slots=True, eq=False)
class Job:
    """One request: text, or a choice of texts, or an object."""

    prompt: str
    max_tokens: int = 0
    choices: tuple[str, ...] = ()
    kind: type[BaseModel] | None = None
    answer: Future[Answer] = field(default_factory=Future)


class Desk(ABC):
    """A thread that loads an engine and serves jobs until it is told to stop."""

    name: str
    can: frozenset[str] = frozenset({"text", "select"})

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self._inbox: queue.SimpleQueue[Job | Future[None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, daemon=True)

    @abstractmethod
    def load(self) -> None:
        """Loads the model, on the thread that serves."""

    def forget(self) -> None:  # noqa: B027 - most engines keep nothing between calls
        """Empties whatever cache there is; called while nothing is running."""

    @abstractmethod
    def serve(self, jobs: list[Job]) -> None:
        """Answers jobs, all of them; may take more that arrive by `more`."""

    def more(self) -> list[Job]:
        """What has come in since; never waits."""
        jobs: list[Job] = []
        while not self._inbox.empty():
            item = self._inbox.get()
            assert isinstance(item, Job), "an engine is emptied or stopped only when it is idle"
            jobs.append(item)
        return jobs

    async def start(self) -> None:
        self._thread.start()
        await self.fresh()

    async def fresh(self) -> None:
        done: Future[None] = Future()
        self._inbox.put(done)
        await asyncio.wrap_future(done)

    def branch(self, log: list[Call]) -> Branch:
        return TextBranch(log, self)

    async def stop(self) -> None:
        self._inbox.put(None)

    async def gen(self, prompt: str, max_tokens: int) -> Answer:
        return await self._ask(Job(prompt, max_tokens))

    async def select(self, prompt: str, choices: Sequence[str]) -> Answer:
        return await self._ask(Job(prompt, choices=tuple(choices)))

    async def fill(self, prompt: str, kind: type[BaseModel], max_tokens: int) -> Answer:
        return await self._ask(Job(prompt, max_tokens, kind=kind))

    async def _ask(self, job: Job) -> Answer:
        self._inbox.put(job)
        return await asyncio.wrap_future(job.answer)

    def _run(self) -> None:
        loaded = False
        while (item := self._inbox.get()) is not None:
            jobs: list[Job] = []
            try:
                if not loaded:
                    self.load()
                    loaded = True
                if isinstance(item, Future):
                    self.forget()
                    item.set_result(None)
                else:
                    jobs = [item, *self.more()]
                    self.serve(jobs)
            except Exception as error:
                waiting: list[Future[Any]] = [job.answer for job in jobs]
                for future in [*waiting, *([item] if isinstance(item, Future) else [])]:
                    if not future.done():
                        future.set_exception(error)
