"""One answer from the model: within the budgets, and mended until its type takes it."""

from __future__ import annotations

import time
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Generic, TypedDict, TypeVar

from pydantic import ValidationError

from agentrt.generation import Completion, FinishReason
from agentrt.programs.answers import check_whole, warn_if_closed
from agentrt.programs.budget import reserved
from agentrt.programs.repair import Repairs
from agentrt.trace import SpanKind, attributes, span

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence

    from agentrt.errors import Attempt
    from agentrt.generation import SamplingParams, Selection, Usage
    from agentrt.matching import Constraint
    from agentrt.programs.answers import Answer
    from agentrt.programs.budget import Grant
    from agentrt.runtime.runtime import Runtime
    from agentrt.runtime.streaming import CompletionStream

T = TypeVar("T")
C = TypeVar("C", bound=str)

MAX_TOKENS = 512
"""Output tokens of a generation that names no `max_tokens`."""


@dataclass(frozen=True, slots=True)
class Result(Generic[T]):
    """A generation of a program: its value, the text that it was read from, and how it went.

    `completion` has token ids, log-probabilities (where asked for), usage and timings of the whole,
    repairs included. `attempts` are the answers that validators refused before this one;
    `selection` is there where `select` chose.
    """

    value: T
    text: str
    completion: Completion
    attempts: tuple[Attempt, ...] = ()
    selection: Selection | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """How a generation is asked for, beside its prompt and its answer.

    `count` is told what each call of it used, also of answers that are refused. `until` is when its
    `timeout` is over, on the monotonic clock, once it has begun.
    """

    params: SamplingParams
    count: Callable[[Usage], None]
    repairs: int = 3
    priority: int = 0
    timeout: float | None = None
    namespace: str = ""
    until: float | None = None

    @property
    def max_tokens(self) -> int:
        return MAX_TOKENS if self.params.max_tokens is None else self.params.max_tokens

    @property
    def seconds_left(self) -> float | None:
        if self.until is None:
            return self.timeout
        return max(self.until - time.monotonic(), 0.0)

    def begun(self) -> Asking:
        """The same, whose time runs from now on."""
        if self.timeout is None:
            return self
        return replace(self, until=time.monotonic() + self.timeout)

    def within(
        self, runtime: Runtime, prompt: Sequence[int], constraint: Constraint | None
    ) -> Asking:
        """The same with `max_tokens` named: what the context has left, if that is less than usual.

        It is the least that an answer takes where less is left, for the runtime to refuse the
        prompt as too long by so much.
        """
        left = runtime.context_length - len(prompt)
        if self.params.max_tokens is not None or left >= MAX_TOKENS:
            return self
        most = max(left, _least(constraint))
        return replace(self, params=self.params.model_copy(update={"max_tokens": most}))

    def less(self, tokens: int) -> Asking:
        """The same with fewer output tokens to go."""
        left = max(self.max_tokens - tokens, 0)
        return replace(self, params=self.params.model_copy(update={"max_tokens": left}))


class Call(TypedDict):
    """Keywords of `Runtime.generate` and `Runtime.stream`."""

    params: SamplingParams
    priority: int
    timeout: float | None
    namespace: str


def selected(found: Selection, choices: Sequence[C]) -> Result[C]:
    """A choice as the generation that it takes the place of."""
    best = found.choices[found.index]
    completion = Completion(
        found.text,
        tuple(logprob.token_id for logprob in best.logprobs),
        FinishReason.STOP,
        usage=found.usage,
        timings=found.timings,
        logprobs=best.logprobs,
    )
    return Result(choices[found.index], found.text, completion, selection=found)


async def generated(
    runtime: Runtime, prompt: Sequence[int], answer: Answer[T], asking: Asking
) -> Result[T]:
    """Asks until the text reads as a value. Raises AnswerRejected with every attempt."""
    asking = asking.within(runtime, prompt, answer.grammar)
    whole = await completed(runtime, prompt, answer.grammar, asking)
    return await mended(runtime, prompt, answer, asking, whole)


async def mended(
    runtime: Runtime,
    prompt: Sequence[int],
    answer: Answer[T],
    asking: Asking,
    whole: Completion,
) -> Result[T]:
    """Reads a completion; of one that its type refuses, the refused fields are asked for again."""
    repairs = Repairs(answer, runtime, asking.repairs)
    while True:
        try:
            value = answer.read(whole.text)
        except ValidationError as error:
            check_whole(answer, whole)
            with span(SpanKind.VALIDATION, f"repair {answer.wanted}") as current:
                resumed = await repairs.resume(whole.token_ids, error)
                last = repairs.attempts[-1]
                refused = f"{last.pointer}: {last.reason}" if last.pointer else last.reason
                current.set({attributes.VALIDATION_ERRORS: refused})
                kept = resumed.token_ids
                more = await completed(runtime, [*prompt, *kept], resumed, asking.less(len(kept)))
                whole = _spliced(runtime, whole, len(kept), more)
        else:
            warn_if_closed(answer, whole)
            return Result(value, whole.text, whole, tuple(repairs.attempts))


async def completed(
    runtime: Runtime, prompt: Sequence[int], constraint: Constraint | None, asking: Asking
) -> Completion:
    """One generation that takes what it may of the budgets around it.

    Raises BudgetExhausted, and what `Runtime.generate` raises.
    """
    async with granted(constraint, asking) as (grant, call):

        def took(usage: Usage) -> None:
            grant.spent = usage.output_tokens
            asking.count(usage)

        return await runtime.generate(prompt, constraint=constraint, on_usage=took, **call)


@asynccontextmanager
async def granted(
    constraint: Constraint | None, asking: Asking
) -> AsyncGenerator[tuple[Grant, Call]]:
    """What a call may take of the budgets around it, and its arguments within them."""
    async with reserved(asking.max_tokens, _least(constraint), asking.seconds_left) as grant:
        yield (
            grant,
            Call(
                params=asking.params.model_copy(update={"max_tokens": grant.tokens}),
                priority=asking.priority,
                timeout=grant.timeout,
                namespace=asking.namespace,
            ),
        )


def _least(constraint: Constraint | None) -> int:
    """The fewest tokens an answer can be written in."""
    return max(constraint.min_tokens, 1) if constraint is not None else 1


@asynccontextmanager
async def counted(grant: Grant, running: CompletionStream, asking: Asking) -> AsyncGenerator[None]:
    """A stream whose tokens are charged to a grant, and counted, however it ends."""
    try:
        async with running:
            yield
    finally:
        grant.spent = running.output_tokens
        asking.count(running.usage)


def _spliced(runtime: Runtime, first: Completion, kept: int, then: Completion) -> Completion:
    """`then` as the rest of `first`, of which `kept` tokens stay; counts what both took."""
    token_ids = first.token_ids[:kept] + then.token_ids
    return replace(
        then,
        text=runtime.vocabulary.spelled(token_ids).decode(),
        token_ids=token_ids,
        token_kinds=first.token_kinds[:kept] + then.token_kinds,
        logprobs=None if then.logprobs is None else (first.logprobs or ())[:kept] + then.logprobs,
        usage=first.usage + then.usage,
        timings=first.timings + then.timings,
    )
