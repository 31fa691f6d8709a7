"""What a generation was asked with and what came of it, as attributes of its span."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from agentrt.generation import TokenKind
from agentrt.trace import attributes as names

if TYPE_CHECKING:
    from agentrt.generation import Completion, Selection, Timings, Usage
    from agentrt.runtime.submission import Submission
    from agentrt.trace.spans import Lazy


def requested(submission: Submission) -> dict[str, Lazy]:
    """The attributes of what is asked for; what is as always is left out."""
    params = submission.params
    out: dict[str, Lazy] = {names.REQUEST_TEMPERATURE: params.temperature}
    for key, value, usual in (
        (names.REQUEST_MAX_TOKENS, params.max_tokens, None),
        (names.REQUEST_MIN_TOKENS, params.min_tokens, 0),
        (names.REQUEST_TOP_P, params.top_p, 1.0),
        (names.REQUEST_TOP_K, params.top_k, None),
        (names.REQUEST_MIN_P, params.min_p, 0.0),
        (names.REQUEST_FREQUENCY_PENALTY, params.frequency_penalty, 0.0),
        (names.REQUEST_PRESENCE_PENALTY, params.presence_penalty, 0.0),
        (names.REQUEST_REPETITION_PENALTY, params.repetition_penalty, 1.0),
        (names.REQUEST_STOP_SEQUENCES, params.stop, ()),
        (names.REQUEST_STOP_TOKEN_IDS, params.stop_token_ids, ()),
        (names.REQUEST_IGNORE_EOS, params.ignore_eos, False),
        (names.REQUEST_LOGPROBS, params.logprobs, False),
        (names.REQUEST_TOP_LOGPROBS, params.top_logprobs, 0),
        (names.REQUEST_STREAM, submission.streaming, False),
        (names.REQUEST_PRIORITY, submission.priority, 0),
        (names.REQUEST_TIMEOUT_S, submission.timeout, None),
        (names.REQUEST_NAMESPACE, submission.namespace, ""),
    ):
        if value != usual:
            out[key] = value
    if params.seed is not None:
        out[names.REQUEST_SEED] = submission.seed
    if params.logit_bias:
        out[names.REQUEST_LOGIT_BIAS] = {str(i): bias for i, bias in params.logit_bias.items()}
    if submission.constraint is not None:
        out[names.CONSTRAINT] = partial(described, submission.constraint)
    return out


def described(constraint: object) -> str:
    """A constraint in words: what it was compiled from, or its repr."""
    grammar = getattr(constraint, "grammar", constraint)  # of one that is taken up again
    text = getattr(getattr(grammar, "source", None), "text", None)
    return text if isinstance(text, str) else repr(constraint)


def responded(completion: Completion) -> dict[str, Lazy]:
    """The attributes of what came of a generation."""
    usage = completion.usage
    out: dict[str, Lazy] = {
        names.RESPONSE_FINISH_REASONS: [completion.finish_reason.value],
        **used(usage, completion.timings),
        names.OUTPUT_TEXT: completion.text,
        names.TOKEN_IDS: completion.token_ids,
    }
    if usage.forced_tokens:
        out[names.TOKEN_KINDS] = "".join(
            ["f" if kind is TokenKind.FORCED else "s" for kind in completion.token_kinds]
        )
    if completion.seed is not None:
        out[names.RESPONSE_SEED] = completion.seed
    if completion.stopped_by is not None:
        out[names.RESPONSE_STOPPED_BY] = completion.stopped_by
    if completion.logprobs is not None:
        out[names.TOKEN_LOGPROBS] = [token.logprob for token in completion.logprobs]
        if any(token.top for token in completion.logprobs):
            out[names.TOKEN_TOP] = [token.top for token in completion.logprobs]
    if completion.prompt_logprobs is not None:
        out[names.PROMPT_LOGPROBS] = [token.logprob for token in completion.prompt_logprobs]
    return out


def used(usage: Usage, timings: Timings) -> dict[str, Lazy]:
    """The attributes of what a generation took."""
    return {
        names.USAGE_INPUT_TOKENS: usage.prompt_tokens,
        names.USAGE_OUTPUT_TOKENS: usage.output_tokens,
        names.USAGE_CACHE_READ_INPUT_TOKENS: usage.cached_tokens,
        names.USAGE_CACHED_TOKENS: usage.cached_tokens,
        names.USAGE_COMPUTED_TOKENS: usage.computed_tokens,
        names.USAGE_SAMPLED_TOKENS: usage.sampled_tokens,
        names.USAGE_FORCED_TOKENS: usage.forced_tokens,
        names.TIMING_QUEUE_S: timings.queue_s,
        names.TIMING_PREFILL_S: timings.prefill_s,
        names.TIMING_DECODE_S: timings.decode_s,
    }


def selected(selection: Selection) -> dict[str, Lazy]:
    """The attributes of how a selection came out."""
    return {
        names.SELECT_SCORES: [choice.score for choice in selection.choices],
        names.SELECT_INDEX: selection.index,
        names.OUTPUT_TEXT: selection.text,
        **used(selection.usage, selection.timings),
    }
