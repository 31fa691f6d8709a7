"""What is read back from a record: plain values."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from agentrt.generation import Timings, Usage

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from agentrt.trace.spans import SpanKind, SpanStatus, Value


class RunState(StrEnum):
    """How a run stands."""

    RUNNING = "running"
    OK = "ok"
    ERROR = "error"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"
    """It was never ended and the process that ran it is gone."""


@dataclass(frozen=True, slots=True)
class RunInfo:
    """A run as a list of runs shows it; sums are of what has ended so far."""

    id: str
    path: Path
    name: str
    state: RunState
    started_ns: int
    ended_ns: int | None
    host: str
    pid: int
    agentrt: str
    """The version that wrote it."""
    content: bool
    """Whether texts and token ids were recorded."""
    spans: int
    failed: int
    generations: int
    usage: Usage
    dropped: int
    """Events and spans that the recorder left out to keep up."""
    without_content: int
    """Spans of which it left out the texts."""
    size_bytes: int

    @property
    def duration_s(self) -> float | None:
        """Seconds it took, None while it runs or where it was interrupted."""
        return None if self.ended_ns is None else (self.ended_ns - self.started_ns) / 1e9


@dataclass(frozen=True, slots=True)
class RuntimeInfo:
    """A runtime that a run used."""

    id: int
    model: str
    attributes: Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class SpanRow:
    """A span without its attributes; `children` is how many it has."""

    id: int
    parent_id: int | None
    kind: SpanKind
    name: str
    started_ns: int
    ended_ns: int | None
    status: SpanStatus
    children: int

    @property
    def duration_s(self) -> float | None:
        """Seconds it took; None while it runs."""
        return None if self.ended_ns is None else (self.ended_ns - self.started_ns) / 1e9


@dataclass(frozen=True, slots=True)
class GenerationRow:
    """The numbers of a generation; None where they are not known, as of one that was cancelled."""

    span_id: int
    runtime_id: int | None
    usage: Usage | None
    timings: Timings | None
    request_seed: int | None
    response_seed: int | None


class TokenOrigin(StrEnum):
    """How a token of a prompt or an output came to be."""

    CACHED = "cached"
    COMPUTED = "computed"
    SAMPLED = "sampled"
    FORCED = "forced"


@dataclass(frozen=True, slots=True)
class Token:
    """One token of a recorded generation; `text` may be a part of a character.

    `logprob` and `top`, its likeliest alternatives, are there where they were asked for.
    """

    id: int
    text: bytes
    origin: TokenOrigin
    logprob: float | None = None
    top: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Hit:
    """Where a searched text was found: once for each span and field.

    `excerpt[start:end]` is the text; `others` counts the further spans whose prompts contain the
    very same place.
    """

    span_id: int
    field: str
    excerpt: str
    start: int
    end: int
    others: int = 0


@dataclass(slots=True)
class ProgramUsage:
    """What the calls of one program, without the programs they called, added up to."""

    name: str
    calls: int = 0
    failed: int = 0
    generations: int = 0
    usage: Usage = field(default_factory=Usage)
    timings: Timings = field(default_factory=Timings)
