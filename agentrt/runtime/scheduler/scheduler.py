"""Which tokens of which requests to compute next. Plain Python and numpy: no clock, no tensors.

A step is decided in this order (`Step` has a method for each rule):

1. Requests past their deadline leave.
2. Every request that has its prompt computed gets one slot for its next token; if slots run out,
   requests are retracted: their KV goes to the tree, they wait at the front of their priority.
3. The rest of the token budget goes to prompts, in chunks: those begun before those waiting, unless
   the waiting have a higher priority.

A waiting request is thus only looked at when every prompt begun before it, of its priority or
higher, has been scheduled to its end, and prompts are in the tree from the moment they are
scheduled. So of requests that share an uncached prefix one computes it; the others find it in the
tree in the same step if it was all scheduled, and wait if it was not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agentrt.errors import InvalidRequest, QueueFull
from agentrt.runtime.request import Request, RequestStatus
from agentrt.runtime.scheduler.deadlines import Deadlines
from agentrt.runtime.scheduler.decision import Decision
from agentrt.runtime.scheduler.growth import GrowthEstimate
from agentrt.runtime.scheduler.ledger import SlotLedger
from agentrt.runtime.scheduler.policy import CHOOSE, SchedulePolicy
from agentrt.runtime.scheduler.running import RunningSet
from agentrt.runtime.scheduler.step import Books, Step
from agentrt.runtime.scheduler.waiting import WaitingQueue

if TYPE_CHECKING:
    from agentrt.runtime.pool import SlotPool
    from agentrt.runtime.radix import RadixCache


_COUNTS = ("max_step_tokens", "max_running", "max_waiting", "max_passed_over", "min_group_tokens")


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerConfig:
    """Raises InvalidRequest for counts below one."""

    policy: SchedulePolicy = SchedulePolicy.LPM
    max_step_tokens: int | None = 512
    """Most tokens computed in one step; None: whole prompts, as many as fit the pool."""
    max_running: int = 256
    max_waiting: int = 10_000
    max_passed_over: int = 64
    """How often a request may see one that came after it, in a later step and with no higher
    priority, admitted first. Then it is next in its priority."""
    min_group_tokens: int = 64
    """Shortest shared prefix that is worth attending to once for several requests."""

    def __post_init__(self) -> None:
        if self.policy not in CHOOSE:
            raise InvalidRequest(f"policy is {self.policy!r}; there are {', '.join(CHOOSE)}")
        for name in _COUNTS:
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InvalidRequest(f"{name} is {value}; it must be at least 1")

    @property
    def most_running(self) -> int:
        """Each that runs may want a token in every step, and must get one."""
        return min(self.max_running, self.max_step_tokens or self.max_running)


@dataclass(slots=True)
class SchedulerStats:
    """Counts since the start. Prompt tokens are those of finished requests."""

    computed_tokens: int = 0
    retractions: int = 0
    finished: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0

    @property
    def hit_rate(self) -> float:
        """Share of the prompt tokens that was cached."""
        return self.cached_tokens / max(1, self.prompt_tokens)


class Scheduler:
    """Decides step by step; one thread owns it, the cache and the pool.

    The caller runs each decision, appends the sampled (or forced) tokens to the requests whose work
    reached its target, calls `truncate`, `finish` and `abort` as it goes, and asks for the next.
    All of that happens between steps: nothing may be aborted, and nothing pinned in the cache,
    while a step runs.
    """

    def __init__(
        self, cache: RadixCache, pool: SlotPool, config: SchedulerConfig | None = None
    ) -> None:
        self.config = config or SchedulerConfig()
        self._cache = cache
        self._pool = pool
        waiting = WaitingQueue(self.config.max_passed_over)
        self._books = Books(
            config=self.config,
            cache=cache,
            ledger=SlotLedger(cache, pool, grew=waiting.grew),
            waiting=waiting,
            running=RunningSet(min_group_tokens=self.config.min_group_tokens),
            growth=GrowthEstimate(),
        )
        self._deadlines = Deadlines()
        self._arrivals = 0
        self._epoch = 0
        self.stats = SchedulerStats()

    @property
    def waiting(self) -> int:
        return len(self._books.waiting) + len(self._books.blocked)

    @property
    def running(self) -> int:
        return len(self._books.running)

    @property
    def next_step(self) -> float | None:
        """The time from which `schedule` has something to decide, on its clock; None: no time.

        It is a deadline where all who wait are blocked by pins, and minus infinity where not.
        """
        if self._books.running or self._books.waiting:
            return -math.inf
        deadlines = [r.deadline for r in self._books.blocked if r.deadline is not None]
        return min(deadlines, default=None)

    def fits(self, prompt_len: int, max_tokens: int) -> bool:
        """Whether a request of this size can be served, if need be alone, with nothing pinned.

        The last token is sampled and never computed.
        """
        return prompt_len + max(1, max_tokens) - 1 <= self._pool.num_slots

    def add(self, request: Request) -> None:
        """Lets a new request wait.

        Raises QueueFull past `max_waiting`, InvalidRequest for what can never fit.
        """
        if request.status is not RequestStatus.NEW:
            raise InvalidRequest(f"{request!r} was added before")
        if not self.fits(request.prompt_len, request.max_tokens):
            raise InvalidRequest(
                f"{request.prompt_len} prompt tokens and {request.max_tokens} to come need more "
                f"than the KV pool's {self._pool.num_slots} slots; ask for fewer"
            )
        if self.waiting >= self.config.max_waiting:
            raise QueueFull(
                f"{self.waiting} requests are waiting and max_waiting is "
                f"{self.config.max_waiting}; try again later or raise it"
            )
        request.arrival, request.epoch = self._arrivals, self._epoch
        self._arrivals += 1
        self._deadlines.add(request)
        self._books.wait(request)

    def schedule(self, now: float) -> Decision:
        """Decides the next step; `now` is seconds on the clock that deadlines are on.

        An empty decision means that nobody runs, and nobody waits but for an unpin.
        """
        self._epoch += 1
        expired = self._deadlines.pop_due(now)
        for request in expired:
            self.abort(request)
        step = Step(self._books, self.config.max_step_tokens or self._pool.num_slots)
        step.build()
        work, groups = self._books.running.arrange(step.work)
        decision = Decision(
            work=work,
            groups=groups,
            retracted=tuple(step.retracted),
            expired=tuple(expired),
            starved=tuple(step.starved),
        )
        self.stats.computed_tokens += decision.num_tokens
        self.stats.retractions += len(decision.retracted)
        return decision

    def truncate(self, request: Request, length: int) -> None:
        """Cuts a running request to its first `length` tokens, of which the prompt is part.

        The KV of what is cut is given back; in case no tokens are appended, the last one left is
        computed again for its logits.
        """
        inside = request.prompt_len <= length <= len(request.token_ids)
        if not inside or request.status is not RequestStatus.RUNNING:
            raise InvalidRequest(f"cannot cut {request!r} to {length} tokens")
        self._books.keep(request, length)
        request.drop_tokens(length)

    def finish(self, request: Request) -> None:
        """Ends a running request that went well: all it computed stays cached until evicted."""
        self._books.growth.finished(request)
        self.stats.finished += 1
        self.stats.prompt_tokens += request.prompt_len
        self.stats.cached_tokens += request.cached_tokens
        self._books.leave(request, cache_tail=True)

    def abort(self, request: Request) -> None:
        """Ends a request, waiting or running; its output is dropped, its prompt stays cached.

        Does nothing to one that has ended.
        """
        self._books.leave(request, cache_tail=False)

    def unpinned(self) -> None:
        """To be called when something was unpinned: there may be room for whom there was none."""
        self._books.unblock()

    def reset(self) -> tuple[Request, ...]:
        """Ends every request and empties the cache; who was there, in order of arrival.

        For a step that failed: the tree then has slots whose KV was never written, and others may
        stand on them. Pinned prefixes stay, they were written in earlier steps.
        """
        books = self._books
        everybody = sorted(
            [*books.running, *books.waiting, *books.blocked], key=lambda r: r.arrival
        )
        for request in everybody:
            self.abort(request)
        self._cache.flush()
        return tuple(everybody)

    def check_integrity(self) -> None:
        """Raises IntegrityError unless free + cached + held = pool and all books agree."""
        self._cache.check_integrity([request.tail for request in self._books.running])
        self._books.waiting.check_integrity()

    def __repr__(self) -> str:
        return (
            f"<Scheduler waiting {self.waiting}, running {self.running} | "
            f"slots {self._pool.num_free} free, {self._cache.cached} cached>"
        )
