"""The live view where there is no terminal: a line for each thing that ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentrt.trace.spans import SpanKind, SpanStatus
from agentrt.trace.viewer.live_model import error_of, tool_call
from agentrt.trace.viewer.words import counted, lasted, one_line, plural, share

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentrt.generation import Usage
    from agentrt.trace.privacy import Privacy
    from agentrt.trace.spans import Span
    from agentrt.trace.viewer.live_model import LiveModel, Node

_SAID = {SpanKind.PROGRAM, SpanKind.BRANCH, SpanKind.TOOL}
_WORDS = {
    SpanStatus.OK: "done",
    SpanStatus.ERROR: "failed",
    SpanStatus.CANCELLED: "cancelled",
    SpanStatus.RUNNING: "running",
}
_LONGEST = 200


def plain_line(span: Span, node: Node | None, privacy: Privacy) -> str | None:
    """What is said of a span that ended and of its row; None of most kinds."""
    if span.kind not in _SAID:
        return None
    where = " > ".join(reversed([one_line(privacy.text(s.name)) for s in _path(span)]))
    took = lasted(((span.ended_ns or span.started_ns) - span.started_ns) / 1e9)
    line = f"{took:>6} {_WORDS[span.status]:9} {where}"
    did = tool_call(span, privacy) if node is None else node.said
    detail = error_of(span, privacy) or did
    return f"{line}  {one_line(detail)}"[:_LONGEST] if detail else line


def plain_summary(model: LiveModel, now_ns: int) -> Iterator[str]:
    """What it came to, in three lines at the most."""
    for counts, noun in ((model.programs, "program"), (model.branches, "branch")):
        if counts.total():
            states = [f"{counts[s]} {word}" for s, word in _WORDS.items() if counts[s]]
            yield f"{plural(counts.total(), noun)}: {', '.join(states)}"
    seconds = model.root.seconds(now_ns)
    speed = f"{counted(model.usage.output_tokens / seconds)} tok/s" if seconds else ""
    yield f"{lasted(seconds)}: {used(model.usage)}, {speed}"


def used(usage: Usage) -> str:
    """Tokens in words."""
    return (
        f"{counted(usage.computed_tokens)} computed, {counted(usage.cached_tokens)} cached "
        f"({share(usage.cached_tokens, usage.prompt_tokens)}), "
        f"{counted(usage.forced_tokens)} forced, {counted(usage.sampled_tokens)} sampled"
    )


def _path(span: Span) -> Iterator[Span]:
    above: Span | None = span
    while above is not None and above.kind is not SpanKind.RUN:
        yield above
        above = above.parent
