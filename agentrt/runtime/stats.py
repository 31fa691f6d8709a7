"""Live figures of a runtime: plain values, copied out once a step."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from agentrt.generation import Usage

if TYPE_CHECKING:
    from agentrt.runtime.pool import SlotPool
    from agentrt.runtime.radix import RadixCache
    from agentrt.runtime.scheduler import Scheduler


class RuntimeStats(NamedTuple):
    """A snapshot taken after an engine step. Token counts are since the engine started.

    `tokens_per_s` counts output tokens over the last few seconds of stepping; `hit_rate` is the
    share of the finished requests' prompt tokens that came from the cache.
    """

    running: int = 0
    waiting: int = 0
    slots_free: int = 0
    slots_cached: int = 0
    slots_held: int = 0
    steps: int = 0
    finished: int = 0
    usage: Usage = Usage()
    """Summed over the finished requests."""
    computed_tokens: int = 0
    """Tokens that went through the model: prompts, decoded tokens, guesses, and what was redone."""
    output_tokens: int = 0
    """Tokens added to outputs, those of requests that still run included."""
    evicted_tokens: int = 0
    retractions: int = 0
    tokens_per_s: float = 0.0

    @property
    def hit_rate(self) -> float:
        return self.usage.cached_tokens / max(1, self.usage.prompt_tokens)


class Meter:
    """Counts what the scheduler and the cache do not, and puts a snapshot together."""

    def __init__(self) -> None:
        self._steps = 0
        self._finished = 0
        self._output_tokens = 0
        self._usage = Usage()
        self._speed = Speedometer()
        self._tokens_per_s = 0.0

    def step(self, now: float, output_tokens: int) -> None:
        """Notes one step that ended at `now` (seconds) and wrote this many output tokens."""
        self._steps += 1
        self._output_tokens += output_tokens
        self._tokens_per_s = self._speed.mark(now, self._output_tokens)

    def finished(self, usage: Usage) -> None:
        self._finished += 1
        self._usage += usage

    def read(self, scheduler: Scheduler, cache: RadixCache, pool: SlotPool) -> RuntimeStats:
        """The figures as they stand."""
        scheduled, free, cached = scheduler.stats, pool.num_free, cache.cached
        return RuntimeStats(
            running=scheduler.running,
            waiting=scheduler.waiting,
            slots_free=free,
            slots_cached=cached,
            slots_held=pool.num_slots - free - cached,
            steps=self._steps,
            finished=self._finished,
            usage=self._usage,
            computed_tokens=scheduled.computed_tokens,
            output_tokens=self._output_tokens,
            evicted_tokens=cache.evicted,
            retractions=scheduled.retractions,
            tokens_per_s=self._tokens_per_s,
        )


class Speedometer:
    """Tokens per second over the last `window_s` seconds."""

    def __init__(self, window_s: float = 5.0) -> None:
        self._window_s = window_s
        self._marks: deque[tuple[float, int]] = deque()

    def mark(self, now: float, total: int) -> float:
        """Notes the total so far at `now` (seconds) and returns the speed up to it."""
        self._marks.append((now, total))
        while len(self._marks) > 2 and now - self._marks[0][0] > self._window_s:
            self._marks.popleft()
        then, before = self._marks[0]
        return (total - before) / (now - then) if now > then else 0.0
