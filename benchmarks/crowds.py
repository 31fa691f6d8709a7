"""An engine without a model: what a step costs beside it, with so many requests in it.

Seconds are those of the processor, which other programs on the machine disturb less.
"""

from __future__ import annotations

import asyncio
import random
import time
from typing import TYPE_CHECKING

import numpy as np

from agentrt.generation import SamplingParams
from agentrt.runtime.assembly import make_engine
from agentrt.runtime.batch import ModelSpec, Sampled, StepResult
from agentrt.runtime.config import RuntimeConfig
from agentrt.runtime.crossing import Reply
from agentrt.runtime.job import Job
from agentrt.runtime.source import LoadedModel
from agentrt.runtime.submission import Submission
from agentrt.testing import ByteCodec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentrt.runtime.batch import Batch

LETTERS = 256


class Parrot:
    """An executor that says the same letter at once; `seconds` is what it took."""

    def __init__(self, num_slots: int) -> None:
        self.num_slots = num_slots
        self.seconds = 0.0
        self.spec = ModelSpec("parrot", LETTERS + 1, 1 << 30, frozenset({LETTERS}), 1)

    def execute(self, batch: Batch) -> StepResult:
        start = time.thread_time()
        sampled = tuple(Sampled(97) for _ in batch.samples)
        scores = np.zeros(len(batch.score_rows), np.float32)
        self.seconds += time.thread_time() - start
        return StepResult(sampled, scores)

    def close(self) -> None: ...


class Crowd:
    """An engine and the requests given to it. Lives in an event loop, as replies do."""

    def __init__(self, *, num_slots: int, running: int, step_tokens: int | None = 512) -> None:
        self.executor = Parrot(num_slots)
        config = RuntimeConfig(
            max_running=running, max_step_tokens=step_tokens, max_waiting=1_000_000
        )
        self.engine = make_engine(self.executor, config)
        self._loaded = LoadedModel(self.executor, ByteCodec())

    def add(self, prompts: Sequence[Sequence[int]], max_tokens: int) -> float:
        """Hands requests to the engine; seconds, theirs on the caller's side included."""
        start = time.thread_time()
        params = SamplingParams(max_tokens=max_tokens, ignore_eos=True)
        submission = Submission.make(params, {})
        self.engine.add(
            [
                Job(prompt, submission, loaded=self._loaded, reply=Reply(), now=time.monotonic())
                for prompt in prompts
            ]
        )
        return time.thread_time() - start

    def step(self) -> float:
        """Seconds of one step outside the model, its news taken."""
        start, model = time.thread_time(), self.executor.seconds
        self.engine.step()
        self.engine.take_news()
        return time.thread_time() - start - (self.executor.seconds - model)

    def finish(self) -> float:
        """Seconds outside the model until nothing is left to do."""
        return sum(iter_steps(self))


def iter_steps(crowd: Crowd) -> list[float]:
    """The seconds of each step until all is done."""
    taken: list[float] = []
    while crowd.engine.rest_s is not None:
        taken.append(crowd.step())
    return taken


def prompt(rng: random.Random, length: int) -> list[int]:
    return [rng.randrange(97, 123) for _ in range(length)]


def step_ms(running: int, *, waiting: int = 0, steps: int = 20) -> float:
    """Milliseconds of a decode step outside the model, with so many in the engine: the least of
    nine medians, since processors that are shared are slower for seconds at a time.

    Prompts are 40 tokens that share nothing; those that wait do so because no more may run.
    """

    async def measure() -> float:
        rng = random.Random(1)
        most = 15 * steps
        crowd = Crowd(num_slots=running * (40 + most), running=running, step_tokens=512 + running)
        crowd.add([prompt(rng, 40) for _ in range(running + waiting)], most)
        while crowd.engine.stats.running < running:
            crowd.step()
        for _ in range(5):
            crowd.step()
        medians = [np.median([crowd.step() for _ in range(steps)]) for _ in range(9)]
        return 1e3 * float(min(medians))

    return asyncio.run(measure())
