"""The async front: what programs await, on any event loop, served by one engine."""

from __future__ import annotations

import atexit
import contextvars
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Self, Unpack

from agentrt.errors import NoRuntime
from agentrt.runtime.assembly import open_model
from agentrt.runtime.checks import check_count, check_ids, make_config
from agentrt.runtime.lifecycle import Lifecycle
from agentrt.runtime.selecting import plan_selection
from agentrt.runtime.streaming import CompletionStream
from agentrt.runtime.submission import Submission

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Generator, Sequence
    from pathlib import Path
    from types import TracebackType

    from agentrt.generation import Completion, SamplingOptions, SamplingParams, Selection, Usage
    from agentrt.matching import Constraint
    from agentrt.runtime.config import RuntimeConfig
    from agentrt.runtime.front import Front, Prompt
    from agentrt.runtime.selecting import Normalisation
    from agentrt.runtime.source import ModelSource, StandIn, TextCodec
    from agentrt.runtime.stats import RuntimeStats
    from agentrt.runtime.tracing import RuntimeTrace
    from agentrt.schema import Vocabulary
    from agentrt.trace.engines import Tree


@dataclass(eq=False, slots=True)
class _Inside:
    """One time that a runtime was entered, and what that was inside of."""

    runtime: Runtime
    around: _Inside | None


_current: contextvars.ContextVar[_Inside | None] = contextvars.ContextVar("agentrt", default=None)
_process: Runtime | None = None  # serves whoever is inside of none
_stand_in: StandIn | None = None  # of every runtime that is made now


def current_runtime() -> Runtime:
    """The innermost runtime this task is inside of, else the process's own (`Runtime.open`).

    Raises NoRuntime where there is neither.
    """
    inside = _current.get()
    runtime = _process if inside is None else inside.runtime
    if runtime is None:
        raise NoRuntime(
            "no runtime is open here; wrap the call in `async with agentrt.Runtime():`, or open "
            "one for the whole process with `agentrt.Runtime().open()`"
        )
    return runtime


@contextmanager
def standing_in(stand_in: StandIn) -> Generator[None]:
    """Has every runtime that this process makes in the block answered so, whatever its model.

    For who runs programs that open their own runtimes. One opened for the process is closed after.
    """
    global _stand_in
    before, _stand_in = _stand_in, stand_in
    try:
        yield
    finally:
        _stand_in = before
        if _process is not None and _process._answered_by is stand_in:  # pyright: ignore[reportPrivateUsage]
            _process.close()


class Runtime:
    """One model, one KV pool and one engine thread, shared by every coroutine that awaits it.

        async with Runtime() as runtime:
            completion = await runtime.generate("The capital of France is", max_tokens=8)

    `model` is None for the provided model, a hub id, a folder with config.json and safetensors, a
    .gguf file, or a `ModelSource` of your own (`agentrt.testing` has scripted ones). Options are
    the fields of :class:`RuntimeConfig`. Works under asyncio and trio, from several event loops at
    once, and beside other runtimes in one process.
    """

    def __init__(
        self,
        model: str | Path | ModelSource | None = None,
        config: RuntimeConfig | None = None,
        **options: object,
    ) -> None:
        self._answered_by = _stand_in if type(self) is Runtime else None
        if self._answered_by is not None:
            model, options = self._answered_by, {**options, "trace": False}  # a replay is no run
        self.config = make_config(config, options)
        self._life = Lifecycle(partial(open_model, model, self.config), self.config)
        self._inside: _Inside | None = None
        self._trace: RuntimeTrace | None = None

    async def __aenter__(self) -> Self:
        await self._life.enter()
        self._inside = _Inside(self, _current.get())
        _current.set(self._inside)
        self._trace = self._served.trace
        self._trace.enter()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._step_out()
        if self._trace is not None:  # also of one that was closed inside the block
            self._trace.exit()
        await self._life.leave(error)

    def _step_out(self) -> None:
        """No longer is what runs here inside this runtime; inside others that were entered since it
        is still. Where it was entered in another context, as fixtures are, nothing can be done."""
        left, self._inside = self._inside, None
        inner = _current.get()
        if left is None:
            return
        if inner is left:
            _current.set(left.around)
        while inner is not None:
            if inner.around is left:
                inner.around = left.around
            inner = inner.around

    def open(self) -> Self:
        """Opens it without a block, for a notebook or a script, as the runtime of the process.

        It serves every call that is inside no `async with Runtime()`, until `close` or the end of
        the process.
        """
        global _process
        self._life.open()
        _process = self
        atexit.register(self.close)
        return self

    def close(self) -> None:
        """Closes what `open` opened; what still runs raises EngineClosed."""
        global _process
        if _process is self:
            _process = None
        atexit.unregister(self.close)
        self._life.close()

    async def generate(
        self,
        prompt: Prompt,
        params: SamplingParams | None = None,
        *,
        constraint: Constraint | None = None,
        prompt_logprobs: bool = False,
        priority: int = 0,
        timeout: float | None = None,
        namespace: str = "",
        on_usage: Callable[[Usage], None] | None = None,
        **sampling: Unpack[SamplingOptions],
    ) -> Completion:
        """Generates from a text, token ids or chat messages.

        Sampling options come as a :class:`SamplingParams` or as keywords. `timeout` is seconds from
        now; `priority` goes before lower ones among the waiting; requests of different `namespace`
        never share cache. Cancelling the await aborts the generation and frees its slots.
        `on_usage` is told what it took, however it ends.

        Raises InvalidRequest (PromptTooLong with the counts), QueueFull, DeadlineExceeded,
        GenerationFailed, EngineFailed or EngineClosed.
        """
        submission = Submission.make(
            params,
            sampling,
            constraint=constraint,
            score_from=1 if prompt_logprobs else None,
            priority=priority,
            timeout=timeout,
            namespace=namespace,
        )
        return await self._served.complete(self._served.tokens(prompt), submission, on_usage)

    async def generate_n(
        self,
        prompt: Prompt,
        n: int,
        params: SamplingParams | None = None,
        *,
        constraint: Constraint | None = None,
        priority: int = 0,
        timeout: float | None = None,
        namespace: str = "",
        **sampling: Unpack[SamplingOptions],
    ) -> list[Completion]:
        """`n` generations of one prompt, which is computed once; with a seed s they use s, s+1, ...

        Raises what `generate` raises; the first failure cancels the others.
        """
        count = check_count(n)
        submission = Submission.make(
            params,
            sampling,
            constraint=constraint,
            priority=priority,
            timeout=timeout,
            namespace=namespace,
        )
        tokens = self._served.tokens(prompt)
        asked = [(tokens, submission.numbered(i)) for i in range(count)]
        return await self._served.complete_all(asked)

    def stream(
        self,
        prompt: Prompt,
        params: SamplingParams | None = None,
        *,
        constraint: Constraint | None = None,
        priority: int = 0,
        timeout: float | None = None,
        namespace: str = "",
        **sampling: Unpack[SamplingOptions],
    ) -> CompletionStream:
        """As `generate`, in pieces: `async with runtime.stream(...) as stream: async for ...`."""
        submission = Submission.make(
            params,
            sampling,
            constraint=constraint,
            priority=priority,
            timeout=timeout,
            namespace=namespace,
            streaming=True,
        )
        tokens = self._served.tokens(prompt)
        return CompletionStream(partial(self._served.serving, [(tokens, submission)]))

    async def select(
        self,
        prompt: Prompt,
        choices: Sequence[str],
        *,
        by: Normalisation = "token_length",
        priority: int = 0,
        timeout: float | None = None,
        namespace: str = "",
        on_usage: Callable[[Usage], None] | None = None,
    ) -> Selection:
        """Scores every choice as a continuation of the prompt, in one batch after a shared prefix.

        "token_length" ranks by mean log-probability a token, which suits sentences of unlike
        lengths, "probability" by that of the whole, which suits names, "greedy_token" token by
        token as greedy decoding would, "unconditional" by how much the prompt raises the
        log-probability of the choice. Token boundaries are healed: a choice is scored in the
        tokens it takes together with the end of the prompt. `on_usage` is told what it took,
        however it ends.

        Raises InvalidRequest for no choices, empty or equal ones, and what `generate` raises.
        """
        tokens = self._served.tokens(prompt)
        check_ids("the prompt", tokens, self._served.loaded.executor.spec)
        plan = plan_selection(self._served.loaded.codec, tokens, choices, by)
        submission = Submission.make(
            None,
            {"max_tokens": 0},
            priority=priority,
            timeout=timeout,
            namespace=namespace,
        )
        return await self._served.choose(tokens, plan, submission, on_usage)

    async def prefill(self, prompt: Prompt, *, namespace: str = "") -> Completion:
        """Computes a prompt into the cache and generates nothing: a hint before many branches."""
        return await self.generate(prompt, max_tokens=0, namespace=namespace)

    @asynccontextmanager
    async def pinned(self, prompt: Prompt, *, namespace: str = "") -> AsyncGenerator[Completion]:
        """Keeps a prompt's cache from being evicted for the length of the block.

        A request that pins leave no room for fails at once with GenerationFailed, for the block may
        be what waits for it; one with a timeout waits for them until then.
        """
        front = self._served  # the pin is this one's, whatever is closed or restarted meanwhile
        tokens = front.tokens(prompt)
        submission = Submission.make(None, {"max_tokens": 0}, namespace=namespace, pin=True)
        with front.serving([(tokens, submission)]) as (reply,):
            try:
                yield await reply.outcome()
            finally:
                front.unpin(reply)

    async def flush_cache(self) -> int:
        """Forgets everything cached that no running request stands on; how many tokens it was."""
        thread = self._served.thread
        return await thread.ask(thread.engine.flush_cache)

    async def cache_tree(self, max_nodes: int = 1000) -> Tree:
        """The radix cache as it is now, at most that many nodes below its roots."""
        front = self._served
        return await front.thread.ask(
            partial(front.trace.look_at_cache, front.thread.engine, max_nodes)
        )

    async def check_integrity(self) -> None:
        """Holds the engine to its books: every slot is free, cached or held, by exactly one owner.

        Raises agentrt.errors.IntegrityError with the facts. For tests.
        """
        thread = self._served.thread
        await thread.ask(thread.engine.check_integrity)

    async def restart(self) -> None:
        """Starts a failed engine again, with an empty cache. Does nothing to a healthy one."""
        await self._life.restart()

    def stats(self) -> RuntimeStats:
        """Live figures as of the last engine step."""
        return self._served.thread.engine.stats

    @property
    def model_name(self) -> str:
        return self._served.loaded.executor.spec.name

    @property
    def context_length(self) -> int:
        """Tokens that a prompt and its output may take together."""
        return self._served.loaded.executor.spec.context_length

    @property
    def num_slots(self) -> int:
        """Tokens that the KV pool holds, cached and running ones together."""
        return self._served.loaded.executor.num_slots

    @property
    def vocabulary(self) -> Vocabulary:
        """What text each token stands for: what schemas are compiled for."""
        return self._served.loaded.codec.vocabulary

    def tokenize(self, prompt: Prompt, *, continue_final: bool = False) -> list[int]:
        """The token ids a prompt is for this model.

        `continue_final` leaves the last of several messages open, to be gone on with.
        """
        return self._served.tokens(prompt, continue_final=continue_final)

    @property
    def codec(self) -> TextCodec:
        """The model's tokenizer and chat template."""
        return self._served.loaded.codec

    def recorded_tool(self, name: str, arguments: str) -> str | None:
        """What a tool gave for these arguments (JSON) in the run that is being replayed.

        None where the tool is to be called, as always but in a replay.
        """
        return None if self._answered_by is None else self._answered_by.tool(name, arguments)

    @property
    def _served(self) -> Front:
        front = self._life.front
        return front if self._answered_by is None else self._answered_by.front(front)
