"""A recorded run as one HTML file that needs nothing else: no network, no other file."""

from __future__ import annotations

import html as markup
import json
from dataclasses import asdict
from importlib import resources
from typing import TYPE_CHECKING, Any

from agentrt.trace import attributes as names
from agentrt.trace.encoding import unpack_ids
from agentrt.trace.export.values import (
    json_text,
    radix_value,
    run_value,
    spans_of,
    usage_value,
)
from agentrt.trace.spans import SpanKind
from agentrt.trace.viewer.engine_text import lanes
from agentrt.trace.viewer.printing import headline
from agentrt.trace.viewer.span_text import GENERATING, extent_of

if TYPE_CHECKING:
    from agentrt.trace.reading import RecordedRun
    from agentrt.trace.records import SpanRow

_APART = {
    names.PROMPT_IDS,
    names.PROMPT_TEXT,
    names.PROMPT_LOGPROBS,
    names.OUTPUT_TEXT,
    names.TOKEN_IDS,
    names.TOKEN_KINDS,
    names.TOKEN_LOGPROBS,
    names.TOKEN_TOP,
}
"""Attributes that the page has as tokens."""
_COLUMNS = 240
"""How finely what the engine did is drawn."""


def html(run: RecordedRun) -> str:
    """The page. What prompts begin with together is in it once, as in the record."""
    parts = {
        "title": markup.escape(f"{run.info().name} - agentrt"),
        "style": _file("page.css"),
        "script": _file("page.js"),
        "data": embedded(_data(run)),
    }
    page = _file("page.html")
    before, *rest = page.split("{{")
    filled = [before]
    for part in rest:
        name, _, after = part.partition("}}")
        filled += [parts[name], after]
    return "".join(filled)


def embedded(value: object) -> str:
    """JSON that can stand in a script element: no text in it can end that, or begin a comment.

    Source: HTML Living Standard, "Restrictions for contents of script elements".
    """
    text = json_text(value)
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text


def _data(run: RecordedRun) -> dict[str, Any]:
    info = run.info()
    start, end = extent_of(run)
    attributes: dict[str, int] = {}
    generations: dict[int, dict[str, Any]] = {}
    rows: list[list[Any]] = []
    repairing: set[int] = set()
    for span in spans_of(run):
        if span.kind is SpanKind.VALIDATION or span.parent_id in repairing:
            repairing.add(span.id)
        found = run.attributes(span.id, large=True)
        if span.kind in GENERATING:
            generations[span.id] = _generation(run, span, found, is_repair=span.id in repairing)
        kept = {key: value for key, value in found.items() if key not in _APART}
        shared = attributes.setdefault(json_text(kept), len(attributes))
        times = [_us(at - start) if at else None for at in (span.started_ns, span.ended_ns)]
        head = [span.id, span.parent_id, span.kind.value, span.name]
        rows.append([*head, *times, span.status.value, shared])
    return {
        "run": run_value(info),
        "facts": headline(info).plain.removeprefix(info.name).strip(),
        "end": _us(end - start),
        "spans": rows,
        "attributes": [json.loads(text) for text in attributes],
        "generations": generations,
        "pieces": {runtime.id: _pieces(run, runtime.id) for runtime in run.runtimes()},
        "chunks": _chunks(run),
        "usage": [usage_value(row) for row in run.usage_by_program()],
        "radix": radix_value(run),
        "engine": [
            {**asdict(lane), "values": [round(value, 3) for value in lane.values]}
            for runtime in run.runtimes()
            for lane in lanes(run, runtime.id, (start, end), _COLUMNS)
        ],
    }


def _generation(
    run: RecordedRun, span: SpanRow, found: dict[str, Any], *, is_repair: bool
) -> dict[str, Any]:
    """A generation; without token ids, as when they were redacted, its texts."""
    row = run.generation(span.id)
    ids = run.texts.output_ids(span.id)
    value: dict[str, Any] = {
        "runtime": None if row is None else row.runtime_id,
        "input": found.get(names.USAGE_INPUT_TOKENS),
        "cached": found.get(names.USAGE_CACHED_TOKENS) or 0,
        "sampled": found.get(names.USAGE_SAMPLED_TOKENS),
        "forced": found.get(names.USAGE_FORCED_TOKENS),
        "queue_s": found.get(names.TIMING_QUEUE_S),
        "prefill_s": found.get(names.TIMING_PREFILL_S),
        "decode_s": found.get(names.TIMING_DECODE_S),
    }
    if ids is None:
        value["prompt"] = found.get(names.PROMPT_TEXT) or ""
        value["output"] = found.get(names.OUTPUT_TEXT) or ""
        return value
    (chunk,) = run.db.execute(
        "SELECT prompt FROM generations WHERE span = ?", (span.id,)
    ).fetchone()
    value |= {"ids": ids, "chunk": chunk}
    optional = {
        "kinds": found.get(names.TOKEN_KINDS),
        "logprobs": found.get(names.TOKEN_LOGPROBS),
        "top": found.get(names.TOKEN_TOP),
        "repaired": is_repair or None,
    }
    return value | {key: given for key, given in optional.items() if given is not None}


def _pieces(run: RecordedRun, runtime: int) -> dict[int, str | list[int]]:
    """What each token spells: a text, or the bytes where it is only a part of one."""
    out: dict[int, str | list[int]] = {}
    for token, piece in run.texts.pieces(runtime).items():
        try:
            out[token] = piece.decode()
        except UnicodeDecodeError:
            out[token] = list(piece)
    return out


def _chunks(run: RecordedRun) -> dict[int, list[Any]]:
    rows = run.db.execute("SELECT id, parent, ids FROM chunks")
    return {chunk: [parent, unpack_ids(ids)] for chunk, parent, ids in rows}


def _us(nanoseconds: int) -> float:
    return round(nanoseconds / 1e3, 1)


def _file(name: str) -> str:
    return resources.files("agentrt.trace.export").joinpath(name).read_text(encoding="utf-8")
