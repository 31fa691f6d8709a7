"""What a record answers: its generations, selections and tool calls, read once, as values."""

from __future__ import annotations

import builtins
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from agentrt import errors
from agentrt.errors import AgentrtError, GenerationFailed, InvalidRequest
from agentrt.generation import (
    Completion,
    FinishReason,
    Timings,
    TokenKind,
    TokenLogprob,
    Usage,
)
from agentrt.trace import attributes as names
from agentrt.trace.spans import SpanKind, SpanStatus

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from agentrt.trace.reading import RecordedRun
    from agentrt.trace.records import RuntimeInfo, SpanRow

KEYED = (
    names.REQUEST_TEMPERATURE,
    names.REQUEST_MAX_TOKENS,
    names.REQUEST_MIN_TOKENS,
    names.REQUEST_TOP_P,
    names.REQUEST_TOP_K,
    names.REQUEST_MIN_P,
    names.REQUEST_FREQUENCY_PENALTY,
    names.REQUEST_PRESENCE_PENALTY,
    names.REQUEST_REPETITION_PENALTY,
    names.REQUEST_STOP_SEQUENCES,
    names.REQUEST_STOP_TOKEN_IDS,
    names.REQUEST_IGNORE_EOS,
    names.REQUEST_LOGPROBS,
    names.REQUEST_TOP_LOGPROBS,
    names.REQUEST_SEED,
    names.REQUEST_LOGIT_BIAS,
    names.CONSTRAINT,
    names.SELECT_CHOICES,
    names.SELECT_BY,
)
"""What, beside the prompt, has to be as it was for an answer to be the one that was recorded. How
soon and in which namespace it is asked does not matter."""

_KINDS = {"s": TokenKind.SAMPLED, "f": TokenKind.FORCED}


@dataclass(frozen=True, slots=True)
class Recorded:
    """One generation or selection: what was asked, by attribute, and what came of it.

    `outcome` is None for one that had not ended, or was cancelled. `scores` are a selection's.
    """

    span_id: int
    place: str
    prompt: tuple[int, ...]
    asked: Mapping[str, Any]
    outcome: Completion | AgentrtError | None
    scores: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class RecordedTool:
    """One call of a tool, with its arguments as JSON text; `error` is what it raised."""

    span_id: int
    name: str
    arguments: str
    text: str | None
    error: Exception | None


@dataclass(frozen=True, slots=True)
class Record:
    """All that a replay needs of a run."""

    runtime: RuntimeInfo
    answers: tuple[Recorded, ...]
    tools: tuple[RecordedTool, ...]


def read_record(run: RecordedRun) -> Record:
    """Raises InvalidRequest for a run of several models, or recorded without its content."""
    runtimes = run.runtimes()
    models = sorted({runtime.model for runtime in runtimes})
    if len(models) != 1:
        raise InvalidRequest(
            f"{run.path.stem} has {len(models)} models "
            f"({', '.join(models) or 'no runtime was open'}); a run of one model can be replayed"
        )
    spans = run.spans(kinds=(SpanKind.GENERATION, SpanKind.SELECT), limit=None)
    tools = run.spans(kinds=(SpanKind.TOOL,), limit=None)
    return Record(
        runtimes[0],
        tuple(_answer(run, span) for span in spans),
        tuple(_tool(run, span) for span in tools),
    )


def keyed(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes that tell requests apart, in the form in which a record gives them back."""
    found = {key: attributes[key] for key in KEYED if key in attributes}
    return json.loads(json.dumps({k: v() if callable(v) else v for k, v in found.items()}))


def _answer(run: RecordedRun, span: SpanRow) -> Recorded:
    attributes = run.attributes(span.id, large=True)
    prompt = cast("Sequence[int] | None", attributes.get(names.PROMPT_IDS))
    if prompt is None:
        raise InvalidRequest(
            f"span {span.id} of {run.path.stem} has no prompt ids: it was recorded without "
            "content, or redacted; record it again with content=True and no redact that changes "
            "its prompt"
        )
    place = " > ".join(above.name for above in run.ancestors(span.id)[1:]) or "the run itself"
    outcome: Completion | AgentrtError | None = None
    if span.status is SpanStatus.ERROR:
        outcome = _failure(attributes)
    elif span.status is SpanStatus.OK:
        outcome = _completion(attributes)
    scores = cast("Sequence[float]", attributes.get(names.SELECT_SCORES) or ())
    return Recorded(
        span.id, place, tuple(prompt), keyed(attributes), outcome, tuple(map(float, scores))
    )


def _completion(found: Mapping[str, Any]) -> Completion:
    ids = tuple(found.get(names.TOKEN_IDS) or ())
    kinds = found.get(names.TOKEN_KINDS) or "s" * len(ids)
    reasons = found.get(names.RESPONSE_FINISH_REASONS) or ["stop"]
    prompt = found.get(names.PROMPT_IDS) or ()
    scores = found.get(names.PROMPT_LOGPROBS)
    return Completion(
        found.get(names.OUTPUT_TEXT) or "",
        ids,
        FinishReason(reasons[0]),
        usage=Usage(
            *(
                found.get(name) or 0
                for name in (
                    names.USAGE_INPUT_TOKENS,
                    names.USAGE_CACHED_TOKENS,
                    names.USAGE_SAMPLED_TOKENS,
                    names.USAGE_FORCED_TOKENS,
                )
            )
        ),
        timings=Timings(
            *(
                found.get(name) or 0.0
                for name in (names.TIMING_QUEUE_S, names.TIMING_PREFILL_S, names.TIMING_DECODE_S)
            )
        ),
        token_kinds=tuple(_KINDS[kind] for kind in kinds),
        logprobs=_logprobs(ids, found.get(names.TOKEN_LOGPROBS), found.get(names.TOKEN_TOP)),
        prompt_logprobs=_logprobs(prompt[len(prompt) - len(scores or ()) :], scores, None),
        seed=found.get(names.RESPONSE_SEED),
        stopped_by=found.get(names.RESPONSE_STOPPED_BY),
    )


def _logprobs(
    ids: Sequence[int], values: Iterable[float | None] | None, top: Any
) -> tuple[TokenLogprob, ...] | None:
    if values is None or not ids:  # of a text that was redacted there are no ids
        return None
    others: Sequence[Any] = top or [()] * len(ids)
    return tuple(
        TokenLogprob(i, value, tuple((int(t), float(p)) for t, p in likely))
        for i, value, likely in zip(ids, values, others, strict=True)
    )


def _failure(found: Mapping[str, Any]) -> AgentrtError:
    error = _raised(found)
    return error if isinstance(error, AgentrtError) else GenerationFailed(str(error))


def _tool(run: RecordedRun, span: SpanRow) -> RecordedTool:
    found: dict[str, Any] = run.attributes(span.id, large=True)
    text = found.get(names.TOOL_CALL_RESULT)
    arguments = str(found.get(names.TOOL_CALL_ARGUMENTS) or "{}")
    failed = text is None and span.status is SpanStatus.ERROR
    error = _raised(found) if failed else None
    return RecordedTool(span.id, span.name, arguments, text, error)


def _raised(found: Mapping[str, Any]) -> Exception:
    """An exception of the recorded type and message; of a type of that name where it is unknown."""
    name = str(found.get(names.ERROR_TYPE) or "Exception").rpartition(".")[2]
    message = str(found.get(names.EXCEPTION_MESSAGE) or "")
    kind = getattr(errors, name, None) or getattr(builtins, name, None)
    if isinstance(kind, type) and issubclass(kind, Exception):
        try:
            return kind(message)
        except TypeError:  # wants more than a message
            if issubclass(kind, AgentrtError):
                return GenerationFailed(f"{name}: {message}")
    return type(name, (Exception,), {})(message)
