"""Refuses requests that make no sense, before they cost anything.

Every refusal says what was given, what was wanted and what to do.
"""

from __future__ import annotations

import difflib
import math
import reprlib
import sys
from operator import index
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeVar

import pydantic

from agentrt.errors import InvalidRequest, PromptTooLong
from agentrt.generation import SamplingParams
from agentrt.runtime.config import RuntimeConfig

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from pydantic_core import ErrorDetails

    from agentrt.runtime.batch import ModelSpec

Model = TypeVar("Model", bound=pydantic.BaseModel)

_MOST_URGENT = 2**31 - 1
_FLOAT32_MAX = 3.4028234663852886e38


def make_params(*beside: str, **options: Any) -> SamplingParams:
    """Sampling parameters from keywords; a single stop string may stand for a tuple of one.

    `beside` are other keywords of the call, which one that is unknown may have been meant as.
    Raises InvalidRequest naming each option and value that is no good.
    """
    if isinstance(stop := options.get("stop"), str):
        options["stop"] = (stop,)
    return _make(SamplingParams, options, "sampling option", beside)


def make_config(config: RuntimeConfig | None, options: Mapping[str, object]) -> RuntimeConfig:
    """`config`, or the defaults, with `options` in place of some of its fields.

    Raises InvalidRequest naming each option and value that is no good.
    """
    if not isinstance(config, RuntimeConfig | None):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidRequest(
            f"config is a {type(config).__name__}; give a RuntimeConfig, or its fields as keywords"
        )
    given = config.model_dump() if config is not None else {}
    return _make(RuntimeConfig, {**given, **options}, "runtime option")


def check_call(*, priority: object, timeout: object, namespace: object, constraint: object) -> None:
    """Raises InvalidRequest for what a call says beside its sampling parameters and cannot mean."""
    if not isinstance(priority, int) or abs(priority) > _MOST_URGENT:
        raise InvalidRequest(
            f"priority={reprlib.repr(priority)}; give a whole number between -{_MOST_URGENT} and "
            f"{_MOST_URGENT}, higher for sooner"
        )
    if timeout is not None and not _is_duration(timeout):
        raise InvalidRequest(f"timeout={timeout!r}; give seconds from now, 0 or more, or None")
    if not isinstance(namespace, str) or not _is_unicode(namespace):
        raise InvalidRequest(f"namespace={namespace!r}; give a text that is valid Unicode")
    if constraint is not None and not callable(getattr(constraint, "matcher", None)):
        raise InvalidRequest(
            f"constraint={reprlib.repr(constraint)} makes no matchers; give a compiled type, "
            "schema or regex"
        )


def check_count(n: object) -> int:
    """`n` as an int, if that many generations can be asked for. Raises InvalidRequest."""
    if not isinstance(n, int | SupportsIndex) or index(n) < 1:
        raise InvalidRequest(f"n={n!r} generations were asked for; n is a whole number, at least 1")
    return index(n)


def check_params(params: SamplingParams, spec: ModelSpec) -> None:
    """Raises InvalidRequest for parameters that are well formed and cannot be meant."""
    if "" in params.stop:
        raise InvalidRequest(
            f"stop={params.stop!r} holds the empty string, which every text contains; leave it out"
        )
    if params.max_tokens is not None and params.min_tokens > params.max_tokens:
        raise InvalidRequest(
            f"min_tokens={params.min_tokens} is more than max_tokens={params.max_tokens}; lower "
            "min_tokens or raise max_tokens"
        )
    check_ids("stop_token_ids", params.stop_token_ids, spec)
    check_ids("logit_bias", params.logit_bias, spec)
    for token_id, bias in params.logit_bias.items():
        if bias != -math.inf and not abs(bias) <= _FLOAT32_MAX:
            raise InvalidRequest(
                f"logit_bias[{token_id}]={bias}; give a number that float32 holds, or -inf to "
                "forbid the token"
            )


def check_prompt(
    token_ids: Sequence[int],
    max_tokens: int | None,
    spec: ModelSpec,
    pool_slots: int,
    *,
    min_tokens: int = 0,
) -> int:
    """How many tokens may be generated after the prompt: max_tokens, or all there is room for.

    max_tokens=0 is legal and computes the prompt alone; otherwise the prompt must leave room for
    one token at least. Nothing is ever cut to fit. Raises InvalidRequest for an empty prompt or
    token ids that the model lacks, PromptTooLong where the prompt and max_tokens do not fit the
    context window or the KV pool.
    """
    if len(token_ids) == 0:
        raise InvalidRequest(
            "the prompt is empty (0 tokens); give at least one token to go on from"
        )
    check_ids("the prompt", token_ids, spec)
    capacity, limit, remedy = _tightest(spec, pool_slots)
    room = capacity - len(token_ids)
    wanted = 1 if max_tokens is None else max_tokens
    if wanted > room:
        advice = _make_room(room, wanted, remedy)
        raise PromptTooLong(len(token_ids), capacity, limit, advice)
    resolved = room if max_tokens is None else max_tokens
    if min_tokens > resolved:
        raise InvalidRequest(
            f"min_tokens={min_tokens} and {resolved} output tokens may come ({limit} holds "
            f"{capacity}, the prompt takes {len(token_ids)}); lower min_tokens or {remedy}"
        )
    return resolved


def _tightest(spec: ModelSpec, pool_slots: int) -> tuple[int, str, str]:
    """How many tokens fit in the tighter of the two limits, its name, and how to widen it."""
    if spec.context_length <= pool_slots:
        return spec.context_length, "the context window", "use a model with a longer one"
    return pool_slots, "the KV pool", "give the runtime more kv_tokens"


def _make_room(room: int, wanted: int, remedy: str) -> str:
    if room > 0:
        return (
            f"{wanted} more were asked for and {room} are left: lower max_tokens to {room}, "
            f"shorten the prompt by {wanted - room}, or {remedy}"
        )
    purpose = f" to leave {wanted} for the output" if wanted else ""
    return f"shorten it by {wanted - room}{purpose}, or {remedy}"


def check_ids(what: str, token_ids: Collection[int], spec: ModelSpec) -> None:
    """Raises InvalidRequest for token ids that the model lacks."""
    if not token_ids or (min(token_ids) >= 0 and max(token_ids) < spec.vocab_size):
        return
    bad = next(i for i in token_ids if not 0 <= i < spec.vocab_size)
    raise InvalidRequest(
        f"{what} holds token id {bad} and {spec.name} has ids 0 to {spec.vocab_size - 1}; take ids "
        "from this model's own tokenizer"
    )


def _is_duration(seconds: object) -> bool:
    if not isinstance(seconds, int | float):
        return False
    return 0 <= seconds <= sys.float_info.max or seconds == math.inf


def _is_unicode(text: str) -> bool:
    return not any("\ud800" <= char <= "\udfff" for char in text)


def meant(name: str, known: Iterable[str], otherwise: str | None = None) -> str:
    """What a misspelt name may have been meant as; if none is near, `otherwise`, or all of them."""
    names = list(known)
    near = difflib.get_close_matches(name, names, n=1)
    return f"did you mean {near[0]}?" if near else otherwise or f"there are {', '.join(names)}"


def _make(
    model: type[Model], values: Mapping[str, Any], what: str, beside: Iterable[str] = ()
) -> Model:
    try:
        return model(**values)
    except pydantic.ValidationError as error:
        known = (*model.model_fields, *beside)
        raise InvalidRequest(
            "; ".join(_explain(details, known, what) for details in error.errors())
        ) from error


def _explain(details: ErrorDetails, known: Iterable[str], what: str) -> str:
    path = ".".join(map(str, details["loc"]))
    if details["type"] == "extra_forbidden" and len(details["loc"]) == 1:
        return f"{path} is no {what}; {meant(path, known)}"
    given = reprlib.repr(details["input"])
    return f"{path}={given}: {details['msg'].replace('Input should', 'it should', 1)}"
