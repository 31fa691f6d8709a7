"""What a generation is asked with and what it gives back: pure values, no behaviour."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, TypedDict

from pydantic import BaseModel, ConfigDict, Field

Probability = Annotated[float, Field(gt=0.0, le=1.0, allow_inf_nan=False)]


class SamplingParams(BaseModel):
    """How the next token is chosen and when to stop.

    Greedy by default (`temperature=0`). With a temperature, draws come from a counter-based random
    stream keyed by (`seed`, position), so a result depends neither on the batch nor on the cache;
    with `seed=None` one is drawn and reported in :attr:`Completion.seed`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_tokens: int | None = Field(default=None, ge=0)
    """Most output tokens; None is what the context allows."""
    min_tokens: int = Field(default=0, ge=0)
    temperature: float = Field(default=0.0, ge=0.0, allow_inf_nan=False)
    top_p: Probability = 1.0
    top_k: int | None = Field(default=None, ge=1)
    min_p: float = Field(default=0.0, ge=0.0, le=1.0, allow_inf_nan=False)
    frequency_penalty: float = Field(default=0.0, allow_inf_nan=False)
    presence_penalty: float = Field(default=0.0, allow_inf_nan=False)
    repetition_penalty: float = Field(default=1.0, gt=0.0, allow_inf_nan=False)
    logit_bias: dict[int, float] = Field(default_factory=dict)
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    ignore_eos: bool = False
    seed: int | None = Field(default=None, ge=0, lt=2**63)
    logprobs: bool = False
    """Report the log-probability of every output token (natural log, of the model's own
    distribution: before temperature, masks and penalties)."""
    top_logprobs: int = Field(default=0, ge=0, le=64)
    """And of this many most likely alternatives at each position; implies `logprobs`."""


class SamplingOptions(TypedDict, total=False):
    """The fields of :class:`SamplingParams` as keywords of a call."""

    max_tokens: int | None
    min_tokens: int
    temperature: float
    top_p: float
    top_k: int | None
    min_p: float
    frequency_penalty: float
    presence_penalty: float
    repetition_penalty: float
    logit_bias: dict[int, float]
    stop: str | tuple[str, ...] | list[str]
    stop_token_ids: tuple[int, ...] | list[int]
    ignore_eos: bool
    seed: int | None
    logprobs: bool
    top_logprobs: int


class FinishReason(StrEnum):
    """Why a generation ended."""

    STOP = "stop"
    LENGTH = "length"
    TOOL_CALL = "tool_call"
    ABORT = "abort"
    ERROR = "error"


class TokenKind(StrEnum):
    """How an output token came to be: in a step of its own, or ahead of it, since its text could
    only be one thing."""

    SAMPLED = "sampled"
    FORCED = "forced"


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """One token and its log-probability (natural log) given everything before it.

    `logprob` is None for the first prompt token, and for forced tokens, which say nothing of how
    sure the model was.
    """

    token_id: int
    logprob: float | None
    top: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts of one generation.

    prompt_tokens = cached_tokens + computed_tokens, and output_tokens = sampled + forced.
    """

    prompt_tokens: int = 0
    cached_tokens: int = 0
    sampled_tokens: int = 0
    forced_tokens: int = 0

    @property
    def computed_tokens(self) -> int:
        return self.prompt_tokens - self.cached_tokens

    @property
    def output_tokens(self) -> int:
        return self.sampled_tokens + self.forced_tokens

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.prompt_tokens + other.prompt_tokens,
            self.cached_tokens + other.cached_tokens,
            self.sampled_tokens + other.sampled_tokens,
            self.forced_tokens + other.forced_tokens,
        )

    def __sub__(self, other: Usage) -> Usage:
        return Usage(
            self.prompt_tokens - other.prompt_tokens,
            self.cached_tokens - other.cached_tokens,
            self.sampled_tokens - other.sampled_tokens,
            self.forced_tokens - other.forced_tokens,
        )


@dataclass(frozen=True, slots=True)
class Timings:
    """Wall-clock seconds of one generation, by phase."""

    queue_s: float = 0.0
    prefill_s: float = 0.0
    decode_s: float = 0.0

    @property
    def total_s(self) -> float:
        return self.queue_s + self.prefill_s + self.decode_s

    def __add__(self, other: Timings) -> Timings:
        return Timings(
            self.queue_s + other.queue_s,
            self.prefill_s + other.prefill_s,
            self.decode_s + other.decode_s,
        )


@dataclass(frozen=True, slots=True)
class Completion:
    """A finished generation.

    `text` excludes the stop string that ended it; `token_ids` are every token produced. `seed` is
    the seed that reproduces it (None when greedy), `stopped_by` the stop string or stop token id.
    `prompt_logprobs`, where asked for, are of the last len(prompt_logprobs) tokens of the prompt.
    """

    text: str
    token_ids: tuple[int, ...]
    finish_reason: FinishReason
    usage: Usage = field(default_factory=Usage)
    timings: Timings = field(default_factory=Timings)
    token_kinds: tuple[TokenKind, ...] = ()
    logprobs: tuple[TokenLogprob, ...] | None = None
    prompt_logprobs: tuple[TokenLogprob, ...] | None = None
    seed: int | None = None
    stopped_by: str | int | None = None


@dataclass(frozen=True, slots=True)
class Chunk:
    """What one engine step added to a streamed generation.

    The texts of all chunks joined are the completion's text: a piece that may still turn out to be
    part of a stop string, or an incomplete UTF-8 sequence, is held back until it is decided.

    Tokens add up to the completion's as well, but what a constraint forces may spell the end of the
    text in other tokens: then the last `rollback` of those streamed before are taken back, before
    this chunk's are appended. Text is never taken back.
    """

    text: str
    token_ids: tuple[int, ...]
    kinds: tuple[TokenKind, ...] = ()
    logprobs: tuple[TokenLogprob, ...] | None = None
    rollback: int = 0


@dataclass(frozen=True, slots=True)
class Choice:
    """One option given to `select` and how likely the model finds it.

    `logprobs` are those of the tokens that spell it; `score` is what the chosen normalisation made
    of them, higher is better.
    """

    text: str
    score: float
    logprobs: tuple[TokenLogprob, ...]


@dataclass(frozen=True, slots=True)
class Selection:
    """What `select` found: the best choice (the first of equals) and every choice, as given.

    `usage` and `timings` are sums over the requests it took, each of which has the prompt in it:
    one for every way that the choices' tokens part before their last one.
    """

    choices: tuple[Choice, ...]
    usage: Usage = field(default_factory=Usage)
    timings: Timings = field(default_factory=Timings)

    @property
    def index(self) -> int:
        return max(range(len(self.choices)), key=lambda i: self.choices[i].score)

    @property
    def text(self) -> str:
        return self.choices[self.index].text
