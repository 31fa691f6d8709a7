"""A recorded run as values of JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from agentrt.trace.plain import escaped

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from agentrt.trace.engines import EngineBatches, TreeNode
    from agentrt.trace.reading import RecordedRun
    from agentrt.trace.records import Hit, ProgramUsage, RunInfo, SpanRow

_PAGE = 1_000


def json_text(value: Any, *, indent: int | None = None) -> str:
    """A value as JSON that every reader takes: no number that JSON has not (it is null then), and
    no half of a character but escaped."""
    separators = (",", ":") if indent is None else None
    how: dict[str, Any] = {"ensure_ascii": False, "separators": separators, "indent": indent}
    try:
        text = json.dumps(value, allow_nan=False, **how)
    except ValueError:
        text = json.dumps(_finite(value), **how)
    return escaped(text)


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {k: _finite(inner) for k, inner in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, (list, tuple)):
        return [_finite(inner) for inner in cast("Sequence[Any]", value)]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def run_value(info: RunInfo) -> dict[str, Any]:
    """A run."""
    usage = info.usage
    return {
        "id": info.id,
        "name": info.name,
        "state": info.state.value,
        "started_ns": info.started_ns,
        "ended_ns": info.ended_ns,
        "agentrt": info.agentrt,
        "spans": info.spans,
        "failed": info.failed,
        "generations": info.generations,
        "prompt_tokens": usage.prompt_tokens,
        "cached_tokens": usage.cached_tokens,
        "computed_tokens": usage.computed_tokens,
        "sampled_tokens": usage.sampled_tokens,
        "forced_tokens": usage.forced_tokens,
        "dropped": info.dropped,
        "without_content": info.without_content,
    }


def spans_of(run: RecordedRun) -> Iterator[SpanRow]:
    """Every span, in the order they began."""
    after = 0
    while page := run.spans(after=after, limit=_PAGE):
        yield from page
        after = page[-1].id


def span_value(run: RecordedRun, span: SpanRow, *, large: bool = True) -> dict[str, Any]:
    """A span with its attributes and events; without prompts, outputs and the like if not `large`.

    Times are nanoseconds since 1970.
    """
    value: dict[str, Any] = {
        "id": span.id,
        "parent": span.parent_id,
        "kind": span.kind.value,
        "name": span.name,
        "started_ns": span.started_ns,
        "ended_ns": span.ended_ns,
        "status": span.status.value,
        "attributes": run.attributes(span.id, large=large),
    }
    events = [
        {"name": event.name, "at_ns": event.at_ns, "attributes": dict(event.attributes)}
        for event in run.events(span.id)
    ]
    return {**value, "events": events} if events else value


def batches_value(runtime_id: int, batches: EngineBatches) -> dict[str, Any]:
    """What an engine did in a short stretch of time."""
    return {"runtime": runtime_id, **batches._asdict()}


def usage_value(row: ProgramUsage) -> dict[str, Any]:
    """What a program's own generations took."""
    return {
        "program": row.name,
        "calls": row.calls,
        "failed": row.failed,
        "generations": row.generations,
        "computed_tokens": row.usage.computed_tokens,
        "cached_tokens": row.usage.cached_tokens,
        "sampled_tokens": row.usage.sampled_tokens,
        "forced_tokens": row.usage.forced_tokens,
        "queue_s": row.timings.queue_s,
        "prefill_s": row.timings.prefill_s,
        "decode_s": row.timings.decode_s,
    }


def radix_value(run: RecordedRun) -> list[dict[str, Any]]:
    """The radix caches of a run's runtimes as they were last looked at."""
    out: list[dict[str, Any]] = []
    for runtime in run.runtimes():
        for tree in run.trees(runtime.id)[-1:]:
            out += [
                {
                    "model": runtime.model,
                    "namespace": namespace,
                    "at_ns": tree.at_ns,
                    "root": _node_value(run, runtime.id, root),
                }
                for namespace, root in tree.roots.items()
            ]
    return out


def hit_value(hit: Hit) -> dict[str, Any]:
    """Where a searched text was found."""
    return {
        "span": hit.span_id,
        "field": hit.field,
        "excerpt": hit.excerpt,
        "start": hit.start,
        "end": hit.end,
        "others": hit.others,
    }


def _node_value(run: RecordedRun, runtime: int, node: TreeNode) -> dict[str, Any]:
    text = None
    if node.tokens is not None:
        text = run.texts.spell(runtime, node.tokens).decode("utf-8", "replace")
    return {
        "length": node.length,
        "text": text,
        "locks": node.locks,
        "last_use": node.last_use,
        "pinned": node.pinned,
        "hidden": node.hidden,
        "children": [_node_value(run, runtime, child) for child in node.children],
    }
