"""One request being served: what the scheduler plans with, and what its caller is told."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from agentrt.errors import AgentrtError, DeadlineExceeded, GenerationFailed, InvalidRequest
from agentrt.generation import (
    Completion,
    FinishReason,
    Timings,
    TokenKind,
    Usage,
)
from agentrt.matching import Forced
from agentrt.runtime.batch import SampleRow
from agentrt.runtime.checks import check_params, check_prompt
from agentrt.runtime.choices import Choice, choices_from
from agentrt.runtime.constraining import check_forced
from agentrt.runtime.output import Output
from agentrt.runtime.prompt_scores import PromptScores
from agentrt.runtime.request import Request

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from agentrt.generation import Chunk
    from agentrt.matching import Matcher
    from agentrt.runtime.batch import Sampled
    from agentrt.runtime.crossing import Reply
    from agentrt.runtime.radix import Pin, RadixCache
    from agentrt.runtime.source import LoadedModel
    from agentrt.runtime.submission import Submission

    Truncate = Callable[[Request, int], None]

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
        self.reply = reply
        self.submission = submission
        self._spec = spec
        self._phases = _Phases(now)
        self._output = Output(
            submission.params,
            max_tokens=max_tokens,
            eos_token_ids=spec.eos_token_ids,
            codec=loaded.codec,
        )
        self._matcher = _matcher(submission, max_tokens)
        self._choices: list[Choice] = []
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
        first = submission.score_from
        self.scores = None if first is None else PromptScores(self.request, first)
        try:
            self._advance(Request.drop_tokens)  # nothing is computed yet
        except Exception as error:
            raise _constraint_failed(error) from error

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

    def choices_at(self, end: int) -> int:
        """How many tokens in a row can be chosen when those up to `end` are computed."""
        return min(max(0, end - self._written + 1), len(self._choices))

    def sample_rows(self, start: int, end: int, first: int) -> list[SampleRow]:
        """What to choose, the tokens [start, end) being computed in flat rows from `first` on."""
        request, params = self.request, self.submission.params
        wants_prompt = params.repetition_penalty != 1.0
        prompt = request.token_ids[: request.prompt_len] if wants_prompt else ()
        return [
            SampleRow(
                first + position - 1 - start,
                params,
                self.submission.seed,
                position=position,
                mask=self._choices[i].mask,
                history=request.token_ids[request.prompt_len : position],
                prompt=prompt,
                banned=self._banned(position - request.prompt_len),
            )
            for i, position in enumerate(range(self._written, self._written + self.choices_at(end)))
        ]

    @property
    def _written(self) -> int:
        """How many tokens of the request are settled: all but the guesses."""
        return self.request.prompt_len + len(self._output)

    def _banned(self, written: int) -> Sequence[int]:
        params = self.submission.params
        if written >= params.min_tokens:
            return ()
        ends = () if params.ignore_eos else self._spec.eos_token_ids
        return (*ends, *params.stop_token_ids)

    # What a step found out

    def on_scored(self, start: int, end: int, scores: Iterator[float]) -> None:
        """Takes what the rows of [start, end) say of the prompt, from the scores of the step."""
        assert self.scores is not None
        rows = self.scores.rows(start, end)
        try:
            self.scores.take(rows, scores)
        except GenerationFailed as error:
            self._error = error

    def on_sampled(self, sampled: Sequence[Sampled], truncate: Truncate, now: float) -> int:
        """Takes the chosen tokens in, and every token that is certain after them; how many."""
        if self._phases.first_token is None:
            self._phases.first_token = now
        before = len(self._output)
        try:
            for choice in sampled:
                if not self._take(choice, truncate):
                    break
            if not self._choices and self._error is None:
                self._advance(truncate)
        except Exception as error:
            self._error = _constraint_failed(error)
        return len(self._output) - before

    def _take(self, sampled: Sampled, truncate: Truncate) -> bool:
        """Takes one chosen token in; whether what was guessed to follow it still may."""
        if sampled.error is not None:
            self._error = GenerationFailed(
                f"no token could be chosen at output position {len(self._output)}: {sampled.error}"
            )
            return False
        guess = self._choices.pop(0).guess
        if self._matcher is not None:
            self._matcher.accept(sampled.token_id)
        if sampled.token_id == guess:
            self.request.guessed -= 1
            self._output.push(guess, TokenKind.FORCED)
        else:
            self._drop_guesses(truncate)
            self._push(sampled.token_id, TokenKind.SAMPLED, sampled)
        if self._output.finish_reason is not None:
            self._drop_guesses(truncate)
        return bool(self._choices)

    def _drop_guesses(self, truncate: Truncate) -> None:
        self._choices.clear()
        if self.request.guessed:
            self.request.guessed = 0
            truncate(self.request, self._written)

    def _push(self, token_id: int, kind: TokenKind, sampled: Sampled | None = None) -> None:
        self.request.token_ids.append(token_id)
        if sampled is None:
            self._output.push(token_id, kind)
        else:
            self._output.push(token_id, kind, sampled.logprob, sampled.top)

    def _advance(self, truncate: Truncate) -> None:
        """Writes what is certain, up to where the model has a choice again, and guesses on."""
        forced = 0
        while self._output.finish_reason is None and (left := self._output.tokens_left):
            if self._matcher is None:
                self._choices = [Choice()]
                return
            if self._matcher.is_finished:
                self._output.end(FinishReason.STOP)
                return
            step = self._matcher.next(left)
            if not isinstance(step, Forced):
                self._guess(choices_from(self._matcher, step, left, self._spec.vocab_size))
                return
            forced += 1
            if forced > 2 * self._output.max_tokens:
                raise GenerationFailed(
                    f"the constraint forced {forced} times in a row and the output did not grow"
                )
            self._force(step, truncate)

    def _guess(self, choices: list[Choice]) -> None:
        self._choices = choices
        guesses = [choice.guess for choice in choices if choice.guess is not None]
        self.request.token_ids += guesses
        self.request.guessed = len(guesses)

    def _force(self, step: Forced, truncate: Truncate) -> None:
        assert self._matcher is not None
        check_forced(step, len(self._output), self._spec.vocab_size)
        told = self._output.text if step.rollback else ""
        if step.rollback:
            self._matcher.rollback(step.rollback)
            self._output.drop(step.rollback)
            truncate(self.request, len(self.request.token_ids) - step.rollback)
        for token_id in step.token_ids:
            self._matcher.accept(token_id)
            self._push(token_id, TokenKind.FORCED)
            if self._output.finish_reason is not None:
                break
        if not self._output.text.startswith(told):
            raise GenerationFailed(
                f"the constraint took {step.rollback} tokens back, and {len(step.token_ids)} new "
                f"ones do not repeat their text: {told!r} became {self._output.text!r}"
            )

    # What its caller is told

    def take_chunk(self) -> Chunk | None:
        return self._output.take_chunk() if self.submission.streaming else None

    def ended(self, computed: int, now: float) -> Completion | AgentrtError | None:
        """What came of the request, once something did; `computed` of its tokens are."""
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
        read = request.prompt_len if self._phases.first_token is not None else request.computed
        return self._usage(min(max(read, request.cached_tokens), request.prompt_len))

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


def _matcher(submission: Submission, max_tokens: int) -> Matcher | None:
    constraint = submission.constraint
    if constraint is None:
        return None
    try:
        if constraint.min_tokens > max_tokens:
            raise InvalidRequest(
                f"max_tokens={max_tokens} cannot hold any value of the type asked for; the "
                f"shortest takes {constraint.min_tokens} tokens: raise max_tokens to at least that"
            )
        return constraint.matcher()
    except Exception as error:
        raise _constraint_failed(error) from error


def _constraint_failed(error: Exception) -> AgentrtError:
    if isinstance(error, AgentrtError):
        return error
    failure = GenerationFailed(f"the constraint failed: {error!r}")
    failure.__cause__ = error
    return failure
