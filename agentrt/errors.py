"""Every exception agentrt raises.

A :class:`UsageError` is a mistake in what was asked for: the same call fails the same way until it
is changed. A :class:`RunError` is a run that failed: the call was well formed. Users raise
:class:`Retry`; the other two are between agentrt's own parts and seen only in a bug.

    AgentrtError
    |- UsageError                the request cannot be served as written
    |  |- InvalidRequest         a parameter, prompt or combination makes no sense
    |  |  `- PromptTooLong       the prompt does not fit the context window or the KV pool
    |  |- ModelNotFound          no such model, or it is not on this machine and cannot be fetched
    |  |- UnsupportedModel       the model needs something this runtime refuses to approximate
    |  |- SchemaError            a type, schema or regex cannot be enforced exactly
    |  |  |- UnsatisfiableSchema no value matches it
    |  |  `- SchemaTooLarge      compiling passed its deadline or its size bound
    |  |- NoRuntime              a generation was asked for outside `async with Runtime()`
    |  `- NoSuchResult           a state was asked for a generation that it does not have
    |- RunError                  the request was fine, the run was not
    |  |- QueueFull              the bounded queue refused one more request
    |  |- DeadlineExceeded       the request's deadline passed
    |  |- GenerationFailed       this request failed alone (non-finite logits, an empty mask)
    |  |- AnswerRejected         no answer passed its validators within the limit of attempts
    |  |- BudgetExhausted        a budget of tokens, calls or seconds has not enough left
    |  |- CancelledBranch        something awaited was cancelled, by none of the scopes around it
    |  |- ToolFailed             a tool raised, and was to pass that up; `__cause__` is why
    |  |- ToolDenied             a tool call was not approved
    |  |- ReplayDrift            a replayed program asks for what its record does not have
    |  |- EngineFailed           the engine stopped; `__cause__` is why
    |  |- EngineClosed           the runtime is closed, or closed while this request ran
    |  |- ModelCorrupt           a stored model failed its checksum after being fetched again
    |  |- StorageError           the cache folder cannot be written (disk full, permissions)
    |  `- NativeUnavailable      the CPU kernels cannot be built here; torch's own can serve instead
    |- IntegrityError            agentrt's own books contradict each other: a bug, please report it
    |- Retry                     raised by a validator of yours: the reason goes to the model
    `- StaleMatch                a cache lookup outlived what it found: look up again
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


class AgentrtError(Exception):
    """Base of every exception raised on purpose by agentrt."""


class UsageError(AgentrtError):
    """The request cannot be served as written; change the call."""


class InvalidRequest(UsageError, ValueError):
    """A parameter, a prompt or a combination of them makes no sense."""


class PromptTooLong(InvalidRequest):
    """The prompt plus what it asks for does not fit; nothing was cut.

    `prompt_tokens` and `limit_tokens` are counts; `limit` names what was too small. Where the
    prompt was a chat, `messages` are (role, tokens) of each message.
    """

    def __init__(
        self,
        prompt_tokens: int,
        limit_tokens: int,
        limit: str,
        advice: str,
        messages: tuple[tuple[str, int], ...] = (),
    ) -> None:
        counts = ", ".join(f"{role} {tokens}" for role, tokens in messages)
        of = f" ({counts})" if counts else ""
        super().__init__(
            f"the prompt is {prompt_tokens} tokens{of} and {limit} holds {limit_tokens}; {advice}"
        )
        self.prompt_tokens = prompt_tokens
        self.limit_tokens = limit_tokens
        self.limit = limit
        self.advice = advice
        self.messages = messages


class ModelNotFound(UsageError):
    """No such model, or it is not on this machine and could not be fetched."""


class UnsupportedModel(UsageError):
    """The model needs something that would have to be approximated; it is refused by name."""


class SchemaError(UsageError, ValueError):
    """A type, JSON schema or regex cannot be enforced exactly.

    `pointer` is the JSON pointer (RFC 6901) of the part that cannot be enforced, `reason` says why,
    and `suggestion`, where there is one, is the nearest form that works.
    """

    def __init__(self, pointer: str, reason: str, suggestion: str | None = None) -> None:
        where = f"at {pointer}: " if pointer else ""
        hint = f"; {suggestion}" if suggestion else ""
        super().__init__(f"{where}{reason}{hint}")
        self.pointer = pointer
        self.reason = reason
        self.suggestion = suggestion


class UnsatisfiableSchema(SchemaError):
    """No value can match the schema; the reason says which parts contradict each other."""


class SchemaTooLarge(SchemaError):
    """Compiling passed its deadline or its size bound; the pointer names what is expensive."""


class NoRuntime(UsageError):
    """A generation was asked for outside `async with Runtime()`."""


class NoSuchResult(UsageError, KeyError):
    """A state was asked for a generation of a name that it does not have."""

    def __str__(self) -> str:  # a KeyError would show its message quoted
        return str(self.args[0])


class RunError(AgentrtError):
    """The request was well formed and its run failed."""


class QueueFull(RunError):
    """The bounded queue refused one more request; try again later or raise `max_waiting`."""


class DeadlineExceeded(RunError, TimeoutError):
    """The request's deadline passed before it finished."""


class GenerationFailed(RunError):
    """This request failed alone; the others in its batch went on."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """An answer that was rejected: its text, the JSON pointer of what was wrong, and why."""

    text: str
    pointer: str
    reason: str


class AnswerRejected(RunError):
    """No answer passed its validators within the limit; `attempts` are all of them, in order."""

    def __init__(self, wanted: str, attempts: Sequence[Attempt], why: str) -> None:
        last = attempts[-1]
        where = f" at {last.pointer}" if last.pointer else ""
        super().__init__(
            f"{len(attempts)} answers for {wanted} were rejected, the last{where}: {last.reason}; "
            f"{why}"
        )
        self.wanted = wanted
        self.attempts = tuple(attempts)
        self.why = why

    def after(self, earlier: Sequence[Attempt]) -> AnswerRejected:
        """The same error with the attempts before."""
        return AnswerRejected(self.wanted, [*earlier, *self.attempts], self.why)


class BudgetExhausted(RunError):
    """A budget has not enough left for what was to start; `what` is tokens, calls or seconds.

    `held` is what streams that are not being read keep of it.
    """

    def __init__(
        self, what: str, limit: float, spent: float, needed: float, held: float = 0
    ) -> None:
        kept = f", {held:g} held by streams that are not being read" if held else ""
        advice = "leave those streams or read them to their end, " if held else ""
        super().__init__(
            f"the budget of {limit:g} seconds is over, {spent:g} have passed; raise the budget or "
            "ask for less"
            if what == "seconds"
            else f"the budget of {limit:g} {what} has {spent:g} spent{kept} and the next call "
            f"needs at least {needed:g} more; {advice}raise the budget or ask for less"
        )
        self.what = what
        self.limit = limit
        self.spent = spent
        self.needed = needed
        self.held = held


class CancelledBranch(RunError):
    """Something awaited was cancelled from within: no scope around it had been.

    An asyncio task that somebody else cancelled, say. `__cause__` is the cancellation.
    """


class ToolFailed(RunError):
    """A tool raised an exception that was to be passed up; `__cause__` is that exception."""

    def __init__(self, tool: str, arguments: str, cause: BaseException) -> None:
        super().__init__(f"the tool {tool}({arguments}) raised {type(cause).__name__}: {cause}")
        self.tool = tool
        self.arguments = arguments


class ToolDenied(RunError):
    """A tool call was not approved, and that was to be passed up."""

    def __init__(self, tool: str, arguments: str, reason: str) -> None:
        super().__init__(f"the tool call {tool}({arguments}) was not approved: {reason}")
        self.tool = tool
        self.arguments = arguments
        self.reason = reason


class ReplayDrift(RunError):
    """A replayed program asks for what its record does not have.

    `span_id` is the nearest recorded span (None where there is none of that kind) and `nearest` its
    prompt as text. Where the prompts differ, `index` is that of the first token that does, and
    `recorded` and `asked` are its text on either side, None where that prompt has ended.
    """

    def __init__(
        self,
        message: str,
        *,
        span_id: int | None = None,
        nearest: str | None = None,
        index: int | None = None,
        recorded: str | None = None,
        asked: str | None = None,
    ) -> None:
        super().__init__(message)
        self.span_id = span_id
        self.nearest = nearest
        self.index = index
        self.recorded = recorded
        self.asked = asked


class EngineFailed(RunError):
    """The engine stopped while this request was in it; `__cause__` is what stopped it."""


class EngineClosed(RunError):
    """The runtime is closed, or was closed while this request ran."""


class ModelCorrupt(RunError):
    """A stored model failed its checksum again after being fetched anew."""


class StorageError(RunError, OSError):
    """The cache folder cannot be written: the message names the folder and the cause."""

    def __str__(self) -> str:
        return self.strerror or super().__str__()  # not the number and the path once more


class IntegrityError(AgentrtError, AssertionError):
    """agentrt's own books contradict each other (a slot with two owners, a lock nobody holds).

    Always a bug in agentrt; the message carries the facts to report.
    """


class Retry(AgentrtError, ValueError):
    """For validators to raise: `reason` goes back to the model, which answers again.

    A ValueError, so that Pydantic takes it from a field's validator, as the reason of a repair.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class StaleMatch(AgentrtError):
    """A cache lookup was used after some of what it found had left the cache; look up again."""


class NativeUnavailable(RunError):
    """The CPU kernels cannot be built here: `reason` says why, `advice` what to do.

    Who can compute with torch alone catches this and does.
    """

    def __init__(self, reason: str, advice: str) -> None:
        super().__init__(f"{reason}; {advice}")
        self.reason = reason
        self.advice = advice
