"""What a runtime tells the trace: its generations as spans, its engine's steps, its cache.

Where nobody listens, a generation pays for one look at that. Where somebody does, what is said is
values that are there anyway; turning them into text or rows is left to who wants it.
"""

from __future__ import annotations

import time
from collections import deque
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from agentrt.errors import AgentrtError
from agentrt.generation import FinishReason
from agentrt.runtime.span_attributes import requested, responded, selected
from agentrt.trace import attributes as names
from agentrt.trace.engines import MOST_STEPS, EngineStep, Tree, TreeNode
from agentrt.trace.session import join, leave
from agentrt.trace.spans import (
    SpanKind,
    current_span,
    inside,
    is_recording,
    now_ns,
    span,
    start_span,
    wants_chunks,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence
    from types import TracebackType

    from agentrt.generation import Chunk, Selection
    from agentrt.runtime.config import RuntimeConfig
    from agentrt.runtime.crossing import Finished
    from agentrt.runtime.engine import Engine
    from agentrt.runtime.engine_thread import EngineThread
    from agentrt.runtime.job import Job
    from agentrt.runtime.radix.view import Snapshot
    from agentrt.runtime.source import LoadedModel
    from agentrt.runtime.stats import RuntimeStats
    from agentrt.runtime.submission import Submission
    from agentrt.trace.engines import RecordedRuntime
    from agentrt.trace.spans import Span, Value

    Asked = tuple[Sequence[int], Submission]

MOST_NODES = 2_000
"""Nodes of the radix cache that a record keeps at the end of a run."""


class RuntimeTrace:
    """One runtime's part in what is traced, from its opening to its closing."""

    def __init__(self, config: RuntimeConfig) -> None:
        """Joins the run being recorded, or starts one, unless `config.trace` says not to.

        Blocking. Raises InvalidRequest where that run is recorded with other options.
        """
        self._silent = config.trace is False
        self._config = config
        self.recording = join(config.trace)
        self._context = ExitStack()
        self._steps: deque[EngineStep] = deque(maxlen=MOST_STEPS)
        self._runtime: RecordedRuntime | None = None
        self._common: dict[str, Value] = {}
        self._model = ""

    def opened(self, loaded: LoadedModel) -> None:
        """Names the model; its generations can be traced from then on."""
        spec = loaded.executor.spec
        self._model = spec.name
        self._common = {
            names.PROVIDER_NAME: names.PROVIDER,
            names.REQUEST_MODEL: spec.name,
            names.RESPONSE_MODEL: spec.name,
        }
        if self.recording is not None and self._runtime is None:  # not again after a restart
            self._runtime = self.recording.recorder.add_runtime(
                spec.name,
                loaded.codec.token_bytes,
                {
                    names.RUNTIME_CONFIG: self._config.model_dump(mode="json", exclude={"trace"}),
                    names.RUNTIME_CONTEXT_LENGTH: spec.context_length,
                    names.RUNTIME_SLOTS: loaded.executor.num_slots,
                    names.RUNTIME_EOS_IDS: sorted(spec.eos_token_ids),
                },
                self._steps,
            )
        if self._runtime is not None:
            self._common[names.RUNTIME_ID] = self._runtime.id

    def closed(self, error: BaseException | None = None) -> None:
        """Leaves the run, which ends it if nobody else is in it. Blocking."""
        recording, self.recording = self.recording, None
        if recording is not None:
            leave(recording, error)

    def enter(self) -> None:
        """Makes the run the parent of what is traced in this context, unless it is already."""
        current = current_span()
        if self.recording is not None and (
            current is None or current.run_id != self.recording.run_id
        ):
            self._context.enter_context(inside(self.recording.span))

    def exit(self) -> None:
        """Undoes `enter`."""
        self._context.close()

    @property
    def on_step(self) -> Callable[[RuntimeStats, float], None] | None:
        """What an engine's thread is to call after every step; None where nothing is recorded."""
        return None if self.recording is None else StepLog(self._steps)

    def generations(self, asked: Sequence[Asked]) -> Generations:
        """Spans for requests that are submitted together."""
        if self._silent or not is_recording():
            return Generations(())
        return Generations([self._started(tokens, submission) for tokens, submission in asked])

    def _started(self, tokens: Sequence[int], submission: Submission) -> Span:
        does = "prefill" if submission.params.max_tokens == 0 else names.TEXT_COMPLETION
        attributes = {
            names.OPERATION_NAME: does,
            **self._common,
            names.PROMPT_IDS: tokens,
            **requested(submission),
        }
        return start_span(SpanKind.GENERATION, f"{does} {self._model}", attributes)

    @contextmanager
    def selection(
        self, tokens: Sequence[int], choices: Sequence[str], by: str, submission: Submission
    ) -> Generator[Callable[[Selection], None]]:
        """A span around a selection; what it yields is to be told how it came out."""
        if self._silent or not is_recording():
            yield lambda _: None
            return
        attributes = {
            names.OPERATION_NAME: "select",
            **self._common,
            names.PROMPT_IDS: tokens,
            names.SELECT_CHOICES: choices,
            names.SELECT_BY: by,
            **requested(submission),
        }
        with span(SpanKind.SELECT, f"select {self._model}", attributes) as current:
            yield lambda selection: current.set(selected(selection))

    def look_at_cache(self, engine: Engine, max_nodes: int = MOST_NODES) -> Tree:
        """The radix cache as it is: for who asked, and for the record. On the engine's thread."""
        roots = engine.dump_cache(max_nodes)
        tree = Tree(now_ns(), {name: _node(root) for name, root in roots.items()})
        if self._runtime is not None:
            self._runtime.trees.append(tree)
        return tree

    def last_look(self, thread: EngineThread) -> None:
        """Has the cache recorded once more before the engine goes."""
        if self._runtime is None:
            return

        def look() -> None:
            with suppress(Exception):  # of an engine that failed
                self.look_at_cache(thread.engine)

        with suppress(AgentrtError):  # it is gone already
            thread.call(look)


class Generations:
    """The spans of requests submitted together, from before they are made to the end of each."""

    def __init__(self, spans: Sequence[Span]) -> None:
        self._spans = spans
        self._jobs: Sequence[Job] = ()

    @property
    def wants_chunks(self) -> bool:
        """Whether somebody wants to hear of their text as it is written."""
        return bool(self._spans) and wants_chunks()

    def __enter__(self) -> Generations:
        return self

    def submitted(self, jobs: Sequence[Job]) -> None:
        """Ends each span when its job does."""
        self._jobs = jobs
        tells = wants_chunks()
        for job, traced in zip(jobs, self._spans, strict=False):
            job.reply.on_finished = partial(_finished, traced, job)
            traced.progress = job.usage_so_far
            if tells:
                job.reply.on_chunk = partial(_written, traced)

    def given_up(self) -> None:
        """Ends those that have not ended as cancelled, with what they came to."""
        for job, traced in zip(self._jobs, self._spans, strict=False):
            if traced.ended_ns is None:
                _came_to(traced, job, FinishReason.ABORT)
                traced.cancel()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for traced in self._spans:
            if self._jobs:
                traced.cancel()  # those that have ended stay as they ended
            else:
                traced.end(error)
        for job in self._jobs:
            job.reply.on_finished = job.reply.on_chunk = None  # they know the job


class StepLog:
    """Notes what each step of an engine did, by what changed since the step before."""

    def __init__(self, steps: deque[EngineStep]) -> None:
        self._steps = steps
        self._computed = self._written = self._evicted = 0
        self._count = 0

    def __call__(self, stats: RuntimeStats, seconds: float) -> None:
        if stats.steps == self._count:
            return  # there was nothing to compute
        self._steps.append(
            EngineStep(
                now_ns(),
                seconds,
                stats.computed_tokens - self._computed,
                stats.output_tokens - self._written,
                stats.running,
                stats.waiting,
                stats.slots_free,
                stats.slots_cached,
                stats.slots_held,
                stats.evicted_tokens - self._evicted,
            )
        )
        self._count, self._computed = stats.steps, stats.computed_tokens
        self._written, self._evicted = stats.output_tokens, stats.evicted_tokens


def _finished(span: Span, job: Job, finished: Finished) -> None:
    outcome = finished.outcome
    if isinstance(outcome, AgentrtError):
        _came_to(span, job, FinishReason.ERROR)
        span.end(outcome)
    else:
        span.set(responded(outcome))
        span.end()


def _came_to(span: Span, job: Job, reason: FinishReason) -> None:
    """Says what there is of a generation that did not come to its end."""
    with suppress(Exception):  # a job that failed may be broken in any way
        span.set(responded(replace(job.so_far(time.monotonic()), finish_reason=reason)))


def _written(span: Span, chunk: Chunk) -> None:
    span.event(names.CHUNK, {names.OUTPUT_TEXT: chunk.text, names.TOKEN_IDS: chunk.token_ids})


def _node(node: Snapshot) -> TreeNode:
    return TreeNode(
        length=len(node.tokens),
        tokens=tuple(node.tokens.tolist()),
        locks=node.locks,
        last_use=node.last_use,
        pinned=node.pinned,
        hidden=node.hidden,
        children=tuple(map(_node, node.children)),
    )
