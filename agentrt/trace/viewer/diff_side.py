"""One of two runs that are compared, read in a few queries however large it is."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from agentrt.trace import attributes as names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentrt.trace.reading import RecordedRun

COUNTS = ("cached", "computed", "sampled", "forced")

Chunks = dict[tuple[int | str, bytes], int]
"""Names for chunks of prompts that both runs share: by what comes before one, and its tokens."""


class Spanned(NamedTuple):
    """What of a span is compared; `kind` and `status` by their values."""

    id: int
    kind: str
    name: str
    status: str


class Generation(NamedTuple):
    """What of a generation can be compared without reading a text. Equal is the same in both runs;
    None, as of a text that was redacted, has to be read."""

    prompt: int | None
    output: tuple[str, bytes, int | None] | None
    counts: tuple[int, ...]
    """By `COUNTS`."""


class Side:
    """The spans and generations of one run; `known` is the same for both runs."""

    def __init__(self, run: RecordedRun, known: Chunks) -> None:
        self._run = run
        self._models = {runtime.id: runtime.model for runtime in run.runtimes()}
        self._by_parent: dict[int | None, list[Spanned]] = defaultdict(list)
        for parent, *values in run.db.execute(
            "SELECT parent, id, kind, name, status FROM spans ORDER BY id"
        ):
            self._by_parent[parent].append(Spanned(*values))
        self.generations = self._read(known)

    def inside(self, span_id: int | None) -> Sequence[Spanned]:
        """The spans started directly inside one."""
        return self._by_parent.get(span_id, ())

    def prompt(self, span_id: int) -> str:
        return self._run.texts.prompt(span_id) or ""

    def output(self, span_id: int) -> str:
        return self._run.texts.output(span_id) or ""

    def _read(self, known: Chunks) -> dict[int, Generation]:
        chunks = self._chunks(known)
        found: dict[int, Generation] = {}
        for span, runtime, prompt, ids, chars, is_apart, *counts in self._run.db.execute(
            "SELECT span, runtime, prompt, output_ids, output_chars, EXISTS ("
            "SELECT 1 FROM contents WHERE contents.span = generations.span AND key = ?), "
            "cached_tokens, input_tokens - cached_tokens, sampled_tokens, forced_tokens "
            "FROM generations",
            (names.OUTPUT_TEXT,),
        ):
            output = None
            if ids is not None and not is_apart:
                output = (self._models[runtime], ids, chars)
            counted = tuple(count or 0 for count in counts)
            found[span] = Generation(chunks.get(prompt), output, counted)
        return found

    def _chunks(self, known: Chunks) -> dict[int, int]:
        """A name for each chunk. Tokens mean the same in runtimes of one model."""
        named: dict[int, int] = {}
        for chunk, runtime, parent, ids in self._run.db.execute(
            "SELECT id, runtime, parent, ids FROM chunks ORDER BY id"
        ):
            before = self._models[runtime] if parent is None else named[parent]
            named[chunk] = known.setdefault((before, ids), len(known))
        return named
