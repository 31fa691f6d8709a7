"""Every exception agentrt raises.

A :class:`UsageError` is a mistake in what was asked for: the same call fails the same way until it
is changed. A :class:`RunError` is a run that failed: the call was well formed. The other two are
between agentrt's own parts: users meet them only in a bug.

    AgentrtError
    |- UsageError                the request cannot be served as written
    |  |- InvalidRequest         a parameter, prompt or combination makes no sense
    |  |  `- PromptTooLong       the prompt does not fit the context window or the KV pool
    |  |- ModelNotFound          no such model, or it is not on this machine and cannot be fetched
    |  |- UnsupportedModel       the model needs something this runtime refuses to approximate
    |  |- SchemaError            a type, schema or regex cannot be enforced exactly
    |  |  |- UnsatisfiableSchema no value matches it
    |  |  `- SchemaTooLarge      compiling passed its deadline or its size bound
    |  `- NoRuntime              a generation was asked for outside `async with Runtime()`
    |- RunError                  the request was fine, the run was not
    |  |- QueueFull              the bounded queue refused one more request
    |  |- DeadlineExceeded       the request's deadline passed
    |  |- GenerationFailed       this request failed alone (non-finite logits, an empty mask)
    |  |- EngineFailed           the engine stopped; `__cause__` is why
    |  |- EngineClosed           the runtime is closed, or closed while this request ran
    |  |- ModelCorrupt           a stored model failed its checksum after being fetched again
    |  |- StorageError           the cache folder cannot be written (disk full, permissions)
    |  `- NativeUnavailable      the CPU kernels cannot be built here; torch's own can serve instead
    |- IntegrityError            agentrt's own books contradict each other: a bug, please report it
    `- StaleMatch                a cache lookup outlived what it found: look up again
"""

from __future__ import annotations


class AgentrtError(Exception):
    """Base of every exception raised on purpose by agentrt."""


class UsageError(AgentrtError):
    """The request cannot be served as written; change the call."""


class InvalidRequest(UsageError, ValueError):
    """A parameter, a prompt or a combination of them makes no sense."""


class PromptTooLong(InvalidRequest):
    """The prompt plus what it asks for does not fit; nothing was cut.

    `prompt_tokens` and `limit_tokens` are counts; `limit` names what was too small.
    """

    def __init__(self, prompt_tokens: int, limit_tokens: int, limit: str, advice: str) -> None:
        super().__init__(
            f"the prompt is {prompt_tokens} tokens and {limit} holds {limit_tokens}; {advice}"
        )
        self.prompt_tokens = prompt_tokens
        self.limit_tokens = limit_tokens
        self.limit = limit


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


class RunError(AgentrtError):
    """The request was well formed and its run failed."""


class QueueFull(RunError):
    """The bounded queue refused one more request; try again later or raise `max_waiting`."""


class DeadlineExceeded(RunError, TimeoutError):
    """The request's deadline passed before it finished."""


class GenerationFailed(RunError):
    """This request failed alone; the others in its batch went on."""


class EngineFailed(RunError):
    """The engine stopped while this request was in it; `__cause__` is what stopped it."""


class EngineClosed(RunError):
    """The runtime is closed, or was closed while this request ran."""


class ModelCorrupt(RunError):
    """A stored model failed its checksum again after being fetched anew."""


class StorageError(RunError, OSError):
    """The cache folder cannot be written: the message names the folder and the cause."""


class IntegrityError(AgentrtError, AssertionError):
    """agentrt's own books contradict each other (a slot with two owners, a lock nobody holds).

    Always a bug in agentrt; the message carries the facts to report.
    """


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
