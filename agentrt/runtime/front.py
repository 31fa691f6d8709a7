"""From a caller's coroutine to the engine and back; whatever happens, nothing stays behind."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Set
from contextlib import contextmanager, suppress
from dataclasses import replace
from operator import index
from typing import TYPE_CHECKING, cast

from agentrt.errors import InvalidRequest
from agentrt.generation import Usage
from agentrt.messages import Message
from agentrt.runtime.crossing import Reply
from agentrt.runtime.job import Job

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence
    from typing import SupportsIndex

    from agentrt.generation import Completion, Selection
    from agentrt.runtime.engine_thread import EngineThread
    from agentrt.runtime.selecting import SelectionPlan
    from agentrt.runtime.source import LoadedModel
    from agentrt.runtime.submission import Submission
    from agentrt.runtime.tracing import RuntimeTrace

    OnUsage = Callable[[Usage], None]
    Prompt = str | Sequence[int] | Sequence[Message]
    Asked = tuple[Sequence[int], Submission]

# Iterable, and no sequences of token ids.
_UNORDERED = (bytes, bytearray, memoryview, Set, Mapping)


class Front:
    """Turns what callers ask into jobs of one engine thread."""

    def __init__(self, loaded: LoadedModel, thread: EngineThread, trace: RuntimeTrace) -> None:
        self.loaded = loaded
        self.thread = thread
        self.trace = trace

    def tokens(self, prompt: object, *, continue_final: bool = False) -> list[int]:
        """A prompt as token ids. Raises InvalidRequest for what is none of the three forms."""
        if isinstance(prompt, str):
            return self.loaded.codec.encode(prompt)
        if not isinstance(prompt, Iterable) or isinstance(prompt, _UNORDERED):
            raise _no_prompt(type(prompt).__name__)
        parts = _listed(cast("Iterable[object]", prompt))
        if {*map(type, parts)} <= {int}:  # what programs ask with: no look at each of thousands
            return cast("list[int]", parts)
        messages = [part for part in parts if isinstance(part, Message)]
        if messages and len(messages) == len(parts):
            for message in messages:
                _check_message(message)
            return self.loaded.codec.encode_chat(messages, continue_final=continue_final)
        return [_token_id(part) for part in parts]

    @contextmanager
    def serving(self, asked: Sequence[Asked], *, traced: bool = True) -> Generator[list[Reply]]:
        """Submits requests together; those not finished when the block is left are aborted."""
        now = time.monotonic()
        with self.trace.generations(asked if traced else ()) as spans:
            if spans.wants_chunks:
                asked = [(tokens, replace(how, streaming=True)) for tokens, how in asked]
            jobs = [self._job(tokens, submission, now) for tokens, submission in asked]
            self.thread.submit(jobs)
            spans.submitted(jobs)
            try:
                yield [job.reply for job in jobs]
            finally:
                for job in jobs:
                    job.reply.usage_so_far = job.usage_so_far()
                unfinished = [job for job in jobs if not job.reply.is_finished]
                if unfinished:
                    spans.given_up()  # first: the abort takes what they came to with it
                    self.thread.abort(unfinished)

    def unpin(self, reply: Reply) -> None:
        """Lets go of the prompt that a request pinned."""
        self.thread.unpin(reply)

    async def complete(
        self, tokens: Sequence[int], submission: Submission, on_usage: OnUsage | None = None
    ) -> Completion:
        """One request, awaited to its end."""
        return (await self.complete_all([(tokens, submission)], on_usage=on_usage))[0]

    async def complete_all(
        self, asked: Sequence[Asked], *, traced: bool = True, on_usage: OnUsage | None = None
    ) -> list[Completion]:
        """Requests submitted together, in order; the first failure among them is raised.

        `on_usage` is told what they took, however they ended.
        """
        replies: list[Reply] = []
        try:
            with self.serving(asked, traced=traced) as replies:
                return [await reply.outcome() for reply in replies]
        finally:
            if on_usage is not None:
                on_usage(sum((reply.usage for reply in replies), Usage()))

    async def choose(
        self,
        tokens: Sequence[int],
        plan: SelectionPlan,
        submission: Submission,
        on_usage: OnUsage | None = None,
    ) -> Selection:
        """Scores what a selection planned, and judges it."""
        asked = [
            (each.token_ids, submission.scoring(each.first, each.targets)) for each in plan.requests
        ]
        with self.trace.selection(tokens, plan.choices, plan.by, submission) as chosen:
            selection = plan.judge(await self.complete_all(asked, traced=False, on_usage=on_usage))
            chosen(selection)
        return selection

    def _job(self, tokens: Sequence[int], submission: Submission, now: float) -> Job:
        return Job(
            tokens,
            submission,
            loaded=self.loaded,
            reply=Reply(),
            now=now,
        )


def _listed(prompt: Iterable[object]) -> list[object]:
    try:
        return list(prompt)
    except TypeError as error:  # an array without dimensions says so only when it is read
        raise _no_prompt(type(prompt).__name__) from error


def _token_id(part: object) -> int:
    # Arrays have an index as well, but only those of a single number give it.
    with suppress(TypeError):
        if not isinstance(part, bool):
            return index(cast("SupportsIndex", part))
    raise _no_prompt(f"sequence with a {type(part).__name__}")


def _check_message(message: Message) -> None:
    for field in ("role", "content"):
        value: object = getattr(message, field)
        if not isinstance(value, str):
            raise InvalidRequest(
                f"the {field} of a Message is a {type(value).__name__}; a text is wanted"
            )


def _no_prompt(given: str) -> InvalidRequest:
    return InvalidRequest(
        f"a prompt is a str, a sequence of token ids or a sequence of Message; a {given} was given"
    )
