"""One request being served: what the scheduler plans with, and what its caller is told."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from agentrt.errors import AgentrtError, DeadlineExceeded, GenerationFailed
from agentrt.generation import (
    Completion,
    FinishReason,
    Timings,
    TokenKind,
    Usage,
)
from agentrt.runtime.checks import check_ids, check_params, check_prompt
from agentrt.runtime.decoding import Decoding
from agentrt.runtime.output import Output
from agentrt.runtime.prompt_scores import PromptScores
from agentrt.runtime.request import Request

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from agentrt.generation import Chunk
    from agentrt.runtime.batch import Sampled, SampleRow
    from agentrt.runtime.crossing import Reply
    from agentrt.runtime.decoding import Truncate
    from agentrt.runtime.radix import Pin, RadixCache
    from agentrt.runtime.source import LoadedModel
    from agentrt.runtime.submission import Submission

_ids = itertools.count()


@dataclass(slots=True)
class _Phases:
    """When each phase of a request began, in seconds of the engine's clock."""

    submitted: float
    scheduled: float | None = None
    first_token: float | None = None

    def timings(self, now: float) -> Timings:
        scheduled = self.scheduled if self.scheduled is not None else now
        first = self.first_token if self.first_token is not None else now
        return Timings(scheduled - self.submitted, first - scheduled, now - first)


class Job:
    """A request from its submission to its completion.

    Made on the caller's loop, where every mistake in it is raised; from then on it belongs to the
    engine's thread. A failure here, of the constraint say, ends this job alone.
    """

    def __init__(
        self,
        tokens: Sequence[int],
        submission: Submission,
        *,
        loaded: LoadedModel,
        reply: Reply,
        now: float,
    ) -> None:
        spec = loaded.executor.spec
        check_params(submission.params, spec)
        max_tokens = check_prompt(
            tokens,
            submission.params.max_tokens,
            spec,
            loaded.executor.num_slots,
            min_tokens=submission.params.min_tokens,
        )
        for tokens_there in submission.targets or ():
            check_ids("a choice", tokens_there, spec)
        self.reply = reply
        self.submission = submission
        self._phases = _Phases(now)
        self._read = 0  # tokens, however it ends
        self._output = Output(
            submission.params,
            max_tokens=max_tokens,
            eos_token_ids=spec.eos_token_ids,
            codec=loaded.codec,
        )
        self._error: AgentrtError | None = None
        self.request = Request(
            id=next(_ids),
            token_ids=list(tokens),
            params=submission.params,
            max_tokens=max_tokens,
            priority=submission.priority,
            deadline=None if submission.timeout is None else now + submission.timeout,
            namespace=submission.namespace,
        )
        first, targets = submission.score_from, submission.targets
        self.scores = None if first is None else PromptScores(self.request, first, targets)
        self._decoding = Decoding(self.request, submission, output=self._output, spec=spec)

    def __repr__(self) -> str:
        return f"<Job {self.request!r} output {len(self._output)}/{self._output.max_tokens}>"

    @property
    def pins(self) -> bool:
        """Whether its prompt is to stay in the cache when it has ended."""
        return self.submission.pin

    def pin(self, cache: RadixCache) -> Pin:
        """Pins the prompt, all of it computed, in the cache."""
        request = self.request
        return cache.pin(request.tokens(0, request.prompt_len), namespace=request.namespace)

    # What a step asks for

    def on_scheduled(self, now: float) -> None:
        if self._phases.scheduled is None:
            self._phases.scheduled = now

    def sample_rows(self, start: int, end: int, first: int) -> list[SampleRow]:
        """What to choose, the tokens [start, end) being computed in flat rows from `first` on."""
        return self._decoding.sample_rows(start, end, first)

    # What a step found out

    def on_scored(self, end: int, scores: Iterator[float]) -> None:
        """Takes what the rows before `end` say of what comes next, from the scores of the step."""
        assert self.scores is not None
        rows = self.scores.rows(end)
        try:
            self.scores.take(rows, scores)
        except GenerationFailed as error:
            self._error = error

    def on_sampled(
        self, sampled: Sequence[Sampled], truncate: Truncate, *, row_price: float, now: float
    ) -> int:
        """Takes the chosen tokens in, and every token that is certain after them; how many."""
        if self._phases.first_token is None:
            self._phases.first_token = now
        before = len(self._output)
        try:
            self._decoding.take(sampled, truncate, row_price)
        except AgentrtError as error:
            self._error = error
        return len(self._output) - before

    # What its caller is told

    def take_chunk(self) -> Chunk | None:
        return self._output.take_chunk() if self.submission.streaming else None

    def ended(self, computed: int, now: float) -> Completion | AgentrtError | None:
        """What came of the request, once something did; `computed` of its tokens are."""
        self._read = max(self._read, computed)
        if self._error is not None:
            return self._error
        if self._output.max_tokens == 0 and (
            computed == self.request.target or (self.scores is not None and self.scores.are_in)
        ):
            self._output.end(FinishReason.LENGTH)
        reason = self._output.finish_reason
        return None if reason is None else self._completion(now, reason)

    def usage_so_far(self) -> Usage:
        """What it took by now; of the prompt, what has been read. Any thread may ask."""
        request = self.request
        return self._usage(min(max(self._read, request.cached_tokens), request.prompt_len))

    def so_far(self, now: float) -> Completion:
        """What it came to by now, as of a request that is given up. Any thread may ask: what the
        engine adds meanwhile is in it whole or not at all."""
        given_up = self._completion(now, FinishReason.ABORT)
        logprobs = given_up.logprobs
        parts = (given_up.token_ids, given_up.token_kinds, logprobs)
        whole = min(len(part) for part in parts if part is not None)
        return replace(
            given_up,
            token_ids=given_up.token_ids[:whole],
            token_kinds=given_up.token_kinds[:whole],
            logprobs=None if logprobs is None else logprobs[:whole],
            prompt_logprobs=None,
            usage=self.usage_so_far(),
        )

    def crowded_out(self, pinned: int, slots: int) -> GenerationFailed:
        """The error of a request that there is no room for beside what is pinned."""
        return GenerationFailed(
            f"pinned prompts hold {pinned} of the KV pool's {slots} slots, which leaves too few "
            f"for {self.request.prompt_len} prompt tokens and {self.request.max_tokens} to come; "
            "leave a `pinned` block first, lower max_tokens, give the request a timeout to wait "
            "for room until, or give the runtime more kv_tokens"
        )

    def expired(self, now: float) -> DeadlineExceeded:
        """The error of a request whose deadline has passed."""
        return DeadlineExceeded(
            f"the deadline of {self.submission.timeout} s passed after "
            f"{now - self._phases.submitted:.3f} s, with {len(self._output)} output tokens; give "
            "it more time, or ask for fewer tokens"
        )

    def _completion(self, now: float, reason: FinishReason) -> Completion:
        output, params = self._output, self.submission.params
        return Completion(
            text=output.text,
            token_ids=output.token_ids,
            finish_reason=reason,
            usage=self._usage(self.request.prompt_len),
            timings=self._phases.timings(now),
            token_kinds=output.kinds,
            logprobs=output.logprobs,
            prompt_logprobs=None if self.scores is None else self.scores.logprobs(),
            seed=self.submission.seed if params.temperature > 0 else None,
            stopped_by=output.stopped_by,
        )

    def _usage(self, prompt_tokens: int) -> Usage:
        kinds = self._output.kinds
        forced = kinds.count(TokenKind.FORCED)
        return Usage(
            prompt_tokens=prompt_tokens,
            cached_tokens=self.request.cached_tokens,
            sampled_tokens=len(kinds) - forced,
            forced_tokens=forced,
        )
