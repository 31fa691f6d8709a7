"""Runs recorded by hand: spans as a runtime would make them, without one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agentrt.trace import (
    RecordedRun,
    Recording,
    Span,
    SpanKind,
    TraceConfig,
    latest_run,
    recording,
    start_span,
)
from agentrt.trace import attributes as names


def spell(token_id: int) -> bytes:
    """The text of a token: every id its own word."""
    return f"t{token_id} ".encode()


def text_of(ids: Sequence[int]) -> str:
    return b"".join(map(spell, ids)).decode()


@contextmanager
def recorded(folder: Path, **options: Any) -> Iterator[Recording]:
    """Records what happens in the block, with one runtime called "model" of id 1."""
    with recording(TraceConfig(folder=folder, **options), name="test") as run:
        assert run is not None
        run.recorder.add_runtime("model", spell, {})
        yield run


def generate(
    prompt: Sequence[int], output: Sequence[int], *, parent: Span | None = None, **more: Any
) -> Span:
    """A finished generation; keywords are attributes by the names of their constants."""
    span = start_span(
        SpanKind.GENERATION,
        "text_completion model",
        {names.RUNTIME_ID: 1, names.REQUEST_MODEL: "model", names.PROMPT_IDS: prompt},
        parent=parent,
    )
    span.set(
        {
            names.USAGE_INPUT_TOKENS: len(prompt),
            names.USAGE_CACHED_TOKENS: 0,
            names.USAGE_SAMPLED_TOKENS: len(output),
            names.USAGE_FORCED_TOKENS: 0,
            names.TIMING_QUEUE_S: 0.0,
            names.TIMING_PREFILL_S: 0.25,
            names.TIMING_DECODE_S: 0.5,
            names.TOKEN_IDS: output,
            names.OUTPUT_TEXT: text_of(output),
            **{getattr(names, name): value for name, value in more.items()},
        }
    )
    span.end()
    return span


@contextmanager
def reading(folder: Path) -> Iterator[RecordedRun]:
    with latest_run(folder) as run:
        yield run


def everything_in(folder: Path) -> bytes:
    """The bytes of all files of a folder: what is nowhere in them was not stored."""
    return b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())
