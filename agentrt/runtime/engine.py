"""The engine: schedule, run, commit. Synchronous, single-threaded, no tensors."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np

from agentrt.errors import AgentrtError
from agentrt.runtime.batch import Batch
from agentrt.runtime.crossing import Finished
from agentrt.runtime.layout import layout
from agentrt.runtime.lookup import price_of_a_row
from agentrt.runtime.slot_scores import SlotScores
from agentrt.runtime.stats import Meter, RuntimeStats

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from agentrt.generation import Chunk, Completion
    from agentrt.runtime.batch import Executor, Int64Array, SampleRow, StepResult
    from agentrt.runtime.crossing import Reply
    from agentrt.runtime.job import Job
    from agentrt.runtime.layout import Decision
    from agentrt.runtime.pool import SlotPool
    from agentrt.runtime.prompt_scores import PromptScores
    from agentrt.runtime.radix import Pin, RadixCache
    from agentrt.runtime.radix.view import Snapshot
    from agentrt.runtime.request import Request
    from agentrt.runtime.scheduler import Scheduler


class Engine:
    """Serves jobs, one batch a step. Only its own thread may touch it.

    Without `reuse` what one job computed is forgotten when it ends, and never serves another.
    Without `lookup` no text is guessed from what was written before.
    """

    def __init__(
        self,
        executor: Executor,
        scheduler: Scheduler,
        cache: RadixCache,
        pool: SlotPool,
        *,
        reuse: bool = True,
        lookup: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._executor = executor
        self._scheduler = scheduler
        self._cache = cache
        self._pool = pool
        self._reuse = reuse
        self._spare_rows = executor.spec.spare_rows if lookup else 0
        self._clock = clock
        self._jobs: dict[Request, Job] = {}
        self._pins: dict[Reply, Pin] = {}
        self._news: list[tuple[Reply, Chunk | Finished]] = []
        self._scores = SlotScores(pool.num_slots)
        self._meter = Meter()
        self.stats = self._snapshot()

    def __repr__(self) -> str:
        return f"<Engine jobs {len(self._jobs)} | {self._scheduler!r}>"

    @property
    def rest_s(self) -> float | None:
        """Seconds until there is something to step for, 0.0 now; None: not before a new job."""
        at = self._scheduler.next_step
        return None if at is None else max(0.0, at - self._clock())

    def step(self, before_computing: Callable[[], None] | None = None) -> None:
        """One batch: decide what to compute, compute it, take in what came of it.

        `before_computing` is called once only the model is left to be waited for.
        """
        decision = self._scheduler.schedule(self._clock())
        self._settle(decision)
        if decision.work:
            batch, choices = self._batch(decision)
            if before_computing is not None:
                before_computing()
            self._commit(decision, choices, batch, self._executor.execute(batch))
        self.stats = self._snapshot()

    def add(self, jobs: Sequence[Job]) -> None:
        """Takes jobs in; one that is refused (queue full) gets its error, the others stay."""
        # All are ours before any is looked at: whatever happens then, each will be told.
        self._jobs.update((job.request, job) for job in jobs)
        for job in jobs:
            if not self._reuse:
                job.request.namespace += f"\0{job.request.id}"  # nobody shares it
            if job.scores is not None:
                self._recall(job.request, job.scores)
            try:
                self._scheduler.add(job.request)
            except AgentrtError as error:
                del self._jobs[job.request]
                self._say(job, Finished(error))
            else:
                # What it may say can be certain already.
                self._report(job, computed=0, now=self._clock())

    def _recall(self, request: Request, scores: PromptScores) -> None:
        """Spares a job the prompt scores that were found out before and are still cached."""
        prompt = request.tokens(0, request.prompt_len)
        slots = self._cache.match(prompt, namespace=request.namespace).slots
        scores.recall(self._scores.known(slots[scores.next :]).tolist())

    def abort(self, jobs: Iterable[Job]) -> None:
        """Drops jobs nobody waits for: their slots are free, or cached, at once."""
        for job in jobs:
            self.unpin(job.reply)
            if self._jobs.pop(job.request, None) is not None:
                self._scheduler.abort(job.request)
        self._forget_ended()
        self.stats = self._snapshot()

    def abort_abandoned(self) -> None:
        """Drops the jobs whose caller's event loop was closed; nobody will ever read them."""
        closed = {
            loop for loop in {job.reply.loop for job in self._jobs.values()} if loop.is_closed
        }
        if closed:
            self.abort([job for job in self._jobs.values() if job.reply.loop in closed])

    def fail_all(self, error: Callable[[], AgentrtError]) -> None:
        """Ends every job with its own copy of an error; the engine is not to be used again.

        After a step that failed, slots may be in the tree whose KV was never written.
        """
        for job in self._jobs.values():
            self._say(job, Finished(error()))
        self._jobs.clear()
        with suppress(Exception):  # the books may be what broke
            self._scheduler.reset()
        self.stats = self._snapshot()._replace(running=0, waiting=0)

    def take_news(self) -> list[tuple[Reply, Chunk | Finished]]:
        """What happened since the last call, for the callers."""
        news, self._news = self._news, []
        return news

    def unpin(self, reply: Reply) -> None:
        """Lets go of the prompt that the job answering `reply` pinned, if it got that far."""
        pin = self._pins.pop(reply, None)
        if pin is not None:
            self._cache.unpin(pin)
            self._scheduler.unpinned()

    def flush_cache(self) -> int:
        """Forgets what is cached and not in use; how many tokens that was."""
        flushed = self._cache.flush()
        self.stats = self._snapshot()
        return flushed

    def dump_cache(self, max_nodes: int) -> dict[str, Snapshot]:
        """Each namespace's radix tree as plain values, the first `max_nodes` breadth-first."""
        return self._cache.dump(max_nodes)

    def check_integrity(self) -> None:
        """Raises IntegrityError unless every slot is free, cached or held by exactly one owner."""
        self._scheduler.check_integrity()

    def _settle(self, decision: Decision) -> None:
        """Tells those that left without being served why."""
        for request in decision.expired:
            job = self._jobs.pop(request)
            self._say(job, Finished(job.expired(self._clock())))
        for request in decision.starved:
            job = self._jobs.pop(request)
            self._say(job, Finished(job.crowded_out(self._cache.pinned, self._pool.num_slots)))

    def _batch(self, decision: Decision) -> tuple[Batch, list[int]]:
        """The decision as arrays: rows to sample from and rows to score, by flat index; and how
        many of the samples are whose."""
        arrays = layout(decision)
        samples: list[SampleRow] = []
        choices: list[int] = []
        rows: list[Int64Array] = []
        targets: list[Int64Array] = []
        now = self._clock()
        for (request, start, end), first in zip(
            decision.work, arrays.q_indptr.tolist(), strict=False
        ):
            job = self._jobs[request]
            job.on_scheduled(now)
            chosen = job.sample_rows(start, end, first)
            choices.append(len(chosen))
            samples += chosen
            if job.scores is not None:
                wanted = job.scores.rows(end)
                rows.append(wanted + (first - start))
                targets.append(job.scores.targets(wanted))
        scored = (np.concatenate(rows), np.concatenate(targets)) if rows else ()
        return Batch(arrays, tuple(samples), *scored), choices

    def _commit(
        self, decision: Decision, choices: list[int], batch: Batch, result: StepResult
    ) -> None:
        """Gives every job what the step found out for it; ends those that are done."""
        scores = iter(result.scores.tolist())
        self._scores.forget(batch.layout.out_slots)
        now, taken, written = self._clock(), 0, 0
        row_price = price_of_a_row(len(decision.work), self._spare_rows)
        for (request, start, end), count in zip(decision.work, choices, strict=True):
            job = self._jobs[request]
            if job.scores is not None:
                job.on_scored(end, scores)
                self._scores.remember(*job.scores.by_slot(start, end))
            if count:
                written += job.on_sampled(
                    result.sampled[taken : taken + count],
                    self._scheduler.truncate,
                    row_price=row_price,
                    now=now,
                )
                taken += count
            self._report(job, computed=end, now=now)
        self._meter.step(now, written)

    def _report(self, job: Job, *, computed: int, now: float) -> None:
        """Tells the caller what is new, and lets the job go if that was all."""
        ended = job.ended(computed, now)
        chunk = job.take_chunk()
        if chunk is not None:
            self._say(job, chunk)
        if ended is not None:
            self._end(job, ended)

    def _end(self, job: Job, ended: Completion | AgentrtError) -> None:
        # Ours until its caller has been told: what fails before that is told to everybody of ours.
        if isinstance(ended, AgentrtError):
            self._scheduler.abort(job.request)
        else:
            self._scheduler.finish(job.request)
            self._meter.finished(ended.usage)
            if job.pins:
                self._pins[job.reply] = job.pin(self._cache)
        self._forget_ended()
        self._say(job, Finished(ended))
        del self._jobs[job.request]

    def _forget_ended(self) -> None:
        if not self._reuse:
            self._cache.flush()

    def _say(self, job: Job, news: Chunk | Finished) -> None:
        self._news.append((job.reply, news))

    def _snapshot(self) -> RuntimeStats:
        return self._meter.read(self._scheduler, self._cache, self._pool)
