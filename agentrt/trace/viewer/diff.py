"""What is different between two recorded runs."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agentrt.trace.spans import SpanKind
from agentrt.trace.viewer.span_text import GENERATING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from agentrt.trace.reading import RecordedRun
    from agentrt.trace.records import SpanRow

_UNSEEN = {SpanKind.BATCH}


@dataclass(frozen=True, slots=True)
class Difference:
    """One span that is in one run only (the other id is None), or not the same in both.

    `changes` are pairs of what differs and how, such as ("output", "'Paris' -> 'Rome'").
    """

    path: str
    left: int | None
    right: int | None
    changes: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Figure:
    """One number of both runs."""

    name: str
    left: float
    right: float


def figures(left: RecordedRun, right: RecordedRun) -> list[Figure]:
    """Totals of two runs, side by side."""
    one, two = left.info(), right.info()
    return [
        Figure("seconds", one.duration_s or 0.0, two.duration_s or 0.0),
        Figure("spans", one.spans, two.spans),
        Figure("failed", one.failed, two.failed),
        Figure("generations", one.generations, two.generations),
        Figure("computed tokens", one.usage.computed_tokens, two.usage.computed_tokens),
        Figure("cached tokens", one.usage.cached_tokens, two.usage.cached_tokens),
        Figure("sampled tokens", one.usage.sampled_tokens, two.usage.sampled_tokens),
        Figure("forced tokens", one.usage.forced_tokens, two.usage.forced_tokens),
    ]


def differences(left: RecordedRun, right: RecordedRun) -> Iterator[Difference]:
    """Where two runs differ, in the order of the tree.

    Spans are matched from the top: the n-th of a name and kind inside matching spans with the n-th.
    Of what is in one run only, what is inside is not listed again. Times are no differences.
    """
    one, two = _by_parent(left), _by_parent(right)
    waiting = list(_matched(one.get(None, ()), two.get(None, ()), ""))[::-1]
    while waiting:
        path, mine, theirs = waiting.pop()
        if mine is None or theirs is None:
            yield Difference(path, mine and mine.id, theirs and theirs.id)
            continue
        changes = tuple(_changes(left, mine, right, theirs))
        if changes:
            yield Difference(path, mine.id, theirs.id, changes)
        inner = _matched(one.get(mine.id, ()), two.get(theirs.id, ()), path)
        waiting += list(inner)[::-1]


def first_difference(left: Sequence[object], right: Sequence[object]) -> int | None:
    """The first place where two sequences differ, None where they are the same."""
    for at, (mine, theirs) in enumerate(zip(left, right, strict=False)):
        if mine != theirs:
            return at
    return None if len(left) == len(right) else min(len(left), len(right))


Pair = tuple[str, "SpanRow | None", "SpanRow | None"]


def _matched(left: Sequence[SpanRow], right: Sequence[SpanRow], path: str) -> Iterator[Pair]:
    """Pairs of spans that stand for each other; those of the left in order, then what is new."""
    theirs: dict[tuple[SpanKind, str], list[SpanRow]] = defaultdict(list)
    for span in reversed(right):
        theirs[_key(span)].append(span)
    counts: dict[tuple[SpanKind, str], int] = defaultdict(int)
    taken: set[int] = set()
    for span in left:
        same = theirs[_key(span)]
        other = same.pop() if same else None
        if other is not None:
            taken.add(other.id)
        yield _step(path, span, counts), span, other
    for span in right:
        if span.id not in taken:
            yield _step(path, span, counts), None, span


def _key(span: SpanRow) -> tuple[SpanKind, str]:
    return span.kind, "" if span.kind is SpanKind.RUN else span.name


def _step(path: str, span: SpanRow, counts: dict[tuple[SpanKind, str], int]) -> str:
    """A path with one more span; the second of a name is `name#2`."""
    if span.kind is SpanKind.RUN:
        return path  # every path would begin with it
    counts[span.kind, span.name] += 1
    number = counts[span.kind, span.name]
    name = span.name if number == 1 else f"{span.name}#{number}"
    return f"{path} > {name}" if path else name


def _changes(
    left: RecordedRun, mine: SpanRow, right: RecordedRun, theirs: SpanRow
) -> Iterator[tuple[str, str]]:
    if mine.status is not theirs.status:
        yield "status", f"{mine.status} -> {theirs.status}"
    if mine.kind not in GENERATING:
        return
    for name, one, two in (
        ("prompt", left.texts.prompt(mine.id), right.texts.prompt(theirs.id)),
        ("output", left.texts.output(mine.id), right.texts.output(theirs.id)),
    ):
        at = first_difference(one or "", two or "")
        if at is not None:
            yield name, f"{_around(one or '', at)} -> {_around(two or '', at)} at character {at}"
    one, two = left.generation(mine.id), right.generation(theirs.id)
    for name in ("cached", "computed", "sampled", "forced"):
        key = f"{name}_tokens"
        mine_count = getattr(one.usage, key) if one and one.usage else 0
        their_count = getattr(two.usage, key) if two and two.usage else 0
        if mine_count != their_count:
            yield name, f"{mine_count} -> {their_count}"


def _around(text: str, at: int) -> str:
    """Some of a text about a place, quoted."""
    begin = max(0, at - 12)
    return repr(("..." if begin else "") + text[begin : at + 28])


def _by_parent(run: RecordedRun) -> dict[int | None, list[SpanRow]]:
    found: dict[int | None, list[SpanRow]] = defaultdict(list)
    for span in run.spans(limit=None):
        if span.kind not in _UNSEEN:
            found[span.parent_id].append(span)
    return found
