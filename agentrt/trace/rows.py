"""A span as rows of the tables."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from agentrt.trace import attributes as names
from agentrt.trace.chunks import ChunkWriter
from agentrt.trace.encoding import pack, pack_floats, pack_ids, unpack_ids
from agentrt.trace.plain import as_json, escaped
from agentrt.trace.spans import SpanStatus

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from agentrt.trace.engines import RecordedRuntime
    from agentrt.trace.privacy import Privacy
    from agentrt.trace.spans import Event, Span, Value

NUMBERS = {
    names.RUNTIME_ID: "runtime",
    names.USAGE_INPUT_TOKENS: "input_tokens",
    names.USAGE_CACHED_TOKENS: "cached_tokens",
    names.USAGE_SAMPLED_TOKENS: "sampled_tokens",
    names.USAGE_FORCED_TOKENS: "forced_tokens",
    names.TIMING_QUEUE_S: "queue_s",
    names.TIMING_PREFILL_S: "prefill_s",
    names.TIMING_DECODE_S: "decode_s",
    names.REQUEST_SEED: "request_seed",
    names.RESPONSE_SEED: "response_seed",
}
"""Attributes that have a column of `generations`."""
DERIVED = {
    names.USAGE_OUTPUT_TOKENS,
    names.USAGE_COMPUTED_TOKENS,
    names.USAGE_CACHE_READ_INPUT_TOKENS,
}
"""Attributes that follow from those columns."""
FLOATS = {names.PROMPT_LOGPROBS, names.TOKEN_LOGPROBS}
TEXTS = {names.PROMPT_TEXT, names.OUTPUT_TEXT, names.TOKEN_KINDS}
"""Large attributes that are texts; those not listed here are JSON."""
TOKENS = {names.PROMPT_IDS, names.TOKEN_IDS, names.OUTPUT_TEXT}

_LARGE, _DERIVED = -1, -2
_PLACES = (
    {key: place for place, key in enumerate(NUMBERS)}
    | dict.fromkeys(names.LARGE, _LARGE)
    | dict.fromkeys(DERIVED, _DERIVED)
)
"""Where each attribute goes: into which column, apart, or nowhere; the others into shared JSON."""
_INPUT, _CACHED, _SAMPLED, _FORCED = (
    list(NUMBERS.values()).index(f"{column}_tokens")
    for column in ("input", "cached", "sampled", "forced")
)

_MOST_INTERNED = 1 << 14
Row = tuple[Any, ...]


@dataclass(slots=True)
class Totals:
    """What a run adds up to."""

    spans: int = 0
    failed: int = 0
    generations: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    sampled_tokens: int = 0
    forced_tokens: int = 0


@dataclass(slots=True)
class Rows:
    """Rows by table, to be stored together."""

    spans: list[Row] = field(default_factory=list[Row])
    attributes: list[Row] = field(default_factory=list[Row])
    generations: list[Row] = field(default_factory=list[Row])
    contents: list[Row] = field(default_factory=list[Row])
    pieces: list[Row] = field(default_factory=list[Row])
    events: list[Row] = field(default_factory=list[Row])


class RowWriter:
    """Turns spans into rows, each with what is new of it since the last time."""

    def __init__(self, privacy: Privacy) -> None:
        self.privacy = privacy
        self.rows = Rows()
        self.chunks = ChunkWriter()
        self.totals = Totals()
        self._runtimes: dict[object, RecordedRuntime] = {}
        self._seen: dict[object, set[int]] = {}
        self._interned: dict[str, int] = {}
        self._next_attributes = 1
        self._open: dict[int, set[str]] = {}
        """Large attributes already stored, by the id of spans that still run."""

    def runtime(self, runtime: RecordedRuntime) -> None:
        """Makes a runtime known; its generations can be turned into text from then on."""
        self._runtimes[runtime.id] = runtime
        self._seen[runtime.id] = set()

    def take(self) -> tuple[Rows, list[Row]]:
        """The rows made since the last call, and those of chunks."""
        rows, chunks = self.rows, self.chunks.rows
        for _, runtime, _, ids in chunks:
            self._spell(self._runtimes[runtime], unpack_ids(ids))
        self.rows, self.chunks.rows = Rows(), []
        return rows, chunks

    def event(self, span_id: int, event: Event) -> None:
        stored = self.privacy.attributes(event.attributes)
        name = escaped(self.privacy.text(event.name))
        self.rows.events.append((span_id, event.at_ns, name, as_json(stored)))

    def span(self, span: Span, *, content: bool = True) -> None:
        """A span as it is now; without `content`, all but its large attributes."""
        if span.id not in self._open:
            self._open[span.id] = set()
            self.totals.spans += 1
        # In this order: one that ends meanwhile is told of again, and must not look ended before.
        ended_ns = span.ended_ns
        status = span.status if ended_ns is not None else SpanStatus.RUNNING
        plain, large, numbers = _sorted(dict(span.attributes))
        if numbers is not None or names.PROMPT_IDS in large:
            numbers = numbers if numbers is not None else [None] * len(NUMBERS)
            self._generation(span.id, numbers, large if content else {})
        if large and content:
            self._contents(span.id, large)
        self.rows.spans.append(
            (
                span.id,
                span.parent_id,
                span.kind.value,
                escaped(self.privacy.text(span.name)),
                span.started_ns,
                ended_ns,
                status.value,
                self._intern(plain),
            )
        )
        if ended_ns is not None:
            del self._open[span.id]
            self._count(status, numbers)

    def _count(self, status: SpanStatus, numbers: list[Any] | None) -> None:
        totals = self.totals
        if status is SpanStatus.ERROR:
            totals.failed += 1
        if numbers is not None and numbers[_INPUT] is not None:
            totals.generations += 1
            totals.input_tokens += numbers[_INPUT]
            totals.cached_tokens += numbers[_CACHED] or 0
            totals.sampled_tokens += numbers[_SAMPLED] or 0
            totals.forced_tokens += numbers[_FORCED] or 0

    def _intern(self, plain: dict[str, Value]) -> int | None:
        if not plain:
            return None
        text = as_json(self.privacy.attributes(plain))
        known = self._interned.get(text)
        if known is None:
            if len(self._interned) >= _MOST_INTERNED:
                self._interned.clear()
            known = self._interned[text] = self._next_attributes
            self._next_attributes += 1
            self.rows.attributes.append((known, text))
        return known

    def _generation(self, span_id: int, numbers: list[Any], large: dict[str, Value]) -> None:
        """The row of numbers, and into it from `large` what is better kept as tokens."""
        runtime = self._runtimes.get(numbers[0])
        prompt, output, chars = None, None, None
        if runtime is not None:
            prompt = self._prompt(runtime, large)
            output, chars = self._output(runtime, large)
        self.rows.generations.append((span_id, *numbers, prompt, output, chars))

    def _prompt(self, runtime: RecordedRuntime, large: dict[str, Value]) -> int | None:
        ids = cast("Sequence[int] | None", large.pop(names.PROMPT_IDS, None))
        if ids is None or not self.privacy.content:
            return None
        if self.privacy.redacts and not self.privacy.passes(text := _text(runtime, ids)):
            large[names.PROMPT_TEXT] = text
            return None
        return self.chunks.add(runtime.id, ids)

    def _output(
        self, runtime: RecordedRuntime, large: dict[str, Value]
    ) -> tuple[bytes | None, int | None]:
        """The ids of the output, and how much of the text they spell is the output's."""
        ids = cast("Sequence[int] | None", large.get(names.TOKEN_IDS))
        if ids is None or not self.privacy.content:
            return None, None
        spelled, text = _text(runtime, ids), large.get(names.OUTPUT_TEXT)
        if self.privacy.redacts and not self.privacy.passes(spelled):
            for key in (names.TOKEN_IDS, names.TOKEN_TOP):
                large.pop(key, None)
            return None, None
        del large[names.TOKEN_IDS]
        self._spell(runtime, ids)
        for likely in cast("Sequence[Sequence[tuple[int, float]]]", large.get(names.TOKEN_TOP, ())):
            self._spell(runtime, [other for other, _ in likely])
        if not isinstance(text, str) or not spelled.startswith(text):
            return pack_ids(ids), None
        del large[names.OUTPUT_TEXT]
        return pack_ids(ids), len(text)

    def _spell(self, runtime: RecordedRuntime, ids: Sequence[int]) -> None:
        seen = self._seen[runtime.id]
        new = set(ids) - seen
        if new:
            seen |= new
            self.rows.pieces += [(runtime.id, i, runtime.token_bytes(i)) for i in new]

    def _contents(self, span_id: int, large: Mapping[str, Value]) -> None:
        stored = self._open[span_id]
        new = {key: value for key, value in large.items() if key not in stored}
        stored |= new.keys()
        for key, value in self.privacy.attributes(new).items():
            self.rows.contents.append((span_id, key, pack(_encoded(key, value))))


def _sorted(
    given: dict[str, Value],
) -> tuple[dict[str, Value], dict[str, Value], list[Any] | None]:
    """Attributes by where they are stored: in shared JSON, apart, in columns (None: in none)."""
    plain: dict[str, Value] = {}
    large: dict[str, Value] = {}
    numbers: list[Any] = [None] * len(NUMBERS)
    counted = False
    for key, value in given.items():
        place = _PLACES.get(key)
        if place is None:
            plain[key] = value
        elif place >= 0:
            # A column takes texts as well, and what is in it nobody redacts.
            numbers[place] = value if isinstance(value, int | float) else None
            counted = True
        elif place == _LARGE:
            large[key] = value
    return plain, large, numbers if counted else None


def _encoded(key: str, value: Value) -> bytes:
    if key in FLOATS:
        return pack_floats(cast("Iterable[float | None]", value))
    if key in TEXTS and isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    return as_json(value).encode()


def _text(runtime: RecordedRuntime, ids: Sequence[int]) -> str:
    return b"".join(map(runtime.token_bytes, ids)).decode("utf-8", "replace")
