"""Serves a runtime's callers from a record, in place of an engine."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from agentrt.errors import AgentrtError, InvalidRequest
from agentrt.generation import Choice, Chunk, Selection, TokenLogprob
from agentrt.runtime.checks import check_params, check_prompt
from agentrt.runtime.crossing import Finished, Reply
from agentrt.runtime.front import Front
from agentrt.runtime.span_attributes import requested
from agentrt.trace import attributes as names
from agentrt.trace.replay.record import keyed

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

    from agentrt.generation import Completion
    from agentrt.runtime.front import Asked, OnUsage
    from agentrt.runtime.selecting import SelectionPlan
    from agentrt.runtime.source import TextCodec
    from agentrt.runtime.submission import Submission
    from agentrt.trace.replay.answers import Answers


class ReplayFront(Front):
    """A front whose requests are answered at once: as recorded, errors too.

    One that was cancelled when it was recorded is never answered: it waits to be cancelled again.
    """

    def __init__(self, front: Front, answers: Answers) -> None:
        super().__init__(front.loaded, front.thread, front.trace)
        self._answers = answers

    @contextmanager
    def serving(self, asked: Sequence[Asked], *, traced: bool = True) -> Generator[list[Reply]]:
        del traced  # a replay is no run of its own
        yield [self._reply(tokens, submission) for tokens, submission in asked]

    async def choose(
        self,
        tokens: Sequence[int],
        plan: SelectionPlan,
        submission: Submission,
        on_usage: OnUsage | None = None,
    ) -> Selection:
        asked = keyed(
            {
                **requested(submission),
                names.SELECT_CHOICES: plan.choices,
                names.SELECT_BY: plan.by,
            }
        )
        found = self._answers.take(tokens, asked)
        reply = Reply()
        if found.outcome is not None:
            reply.deliver_nowait(Finished(found.outcome))
        done = await reply.outcome()
        if on_usage is not None:
            on_usage(done.usage)
        return Selection(
            tuple(
                Choice(text, score, tuple(TokenLogprob(i, None) for i in ids))
                for text, score, ids in zip(plan.choices, found.scores, plan.spelled, strict=False)
            ),
            usage=done.usage,
            timings=done.timings,
        )

    def _reply(self, tokens: Sequence[int], submission: Submission) -> Reply:
        asked = keyed(requested(submission))
        try:
            self._check(tokens, submission)
        except InvalidRequest:
            self._answers.refused(tokens, asked)
            raise
        outcome = self._answers.take(tokens, asked).outcome
        reply = Reply()
        if outcome is None:
            return reply
        if submission.streaming and not isinstance(outcome, AgentrtError):
            for chunk in chunks(outcome, self.loaded.codec):
                reply.deliver_nowait(chunk)
        reply.deliver_nowait(Finished(outcome))
        return reply

    def _check(self, tokens: Sequence[int], submission: Submission) -> None:
        """Refuses what the engine would refuse, with the same errors."""
        params, executor = submission.params, self.loaded.executor
        check_params(params, executor.spec)
        check_prompt(
            tokens,
            params.max_tokens,
            executor.spec,
            executor.num_slots,
            min_tokens=params.min_tokens,
        )


def chunks(completion: Completion, codec: TextCodec) -> Iterator[Chunk]:
    """A completion in pieces of a token each; their texts joined are its text."""
    stream, left = codec.stream(), completion.text
    last = len(completion.token_ids) - 1
    for index, token in enumerate(completion.token_ids):
        text = left if index == last else stream.push(token)[: len(left)]
        left = left[len(text) :]
        chunk = Chunk(text, (token,), completion.token_kinds[index : index + 1])
        if completion.logprobs is not None:
            chunk = replace(chunk, logprobs=completion.logprobs[index : index + 1])
        yield chunk
