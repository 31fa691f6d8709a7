"""What is different between two recorded runs."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agentrt.trace.spans import SpanKind
from agentrt.trace.viewer.diff_side import COUNTS, Chunks, Side, Spanned

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from agentrt.trace.reading import RecordedRun


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
    known: Chunks = {}
    one, two = Side(left, known), Side(right, known)
    waiting = list(_matched(one.inside(None), two.inside(None), ""))[::-1]
    while waiting:
        path, mine, theirs = waiting.pop()
        if mine is None or theirs is None:
            yield Difference(path, mine and mine.id, theirs and theirs.id)
            continue
        changes = tuple(_changes(one, mine, two, theirs))
        if changes:
            yield Difference(path, mine.id, theirs.id, changes)
        inner = _matched(one.inside(mine.id), two.inside(theirs.id), path)
        waiting += list(inner)[::-1]


def first_difference(left: str, right: str) -> int | None:
    """The first place where two texts differ, None where they are the same."""
    if left == right:
        return None
    same, other = 0, min(len(left), len(right)) + 1
    while other - same > 1:  # by halves: comparing slices takes no step of ours a character
        middle = (same + other) // 2
        if left[same:middle] == right[same:middle]:
            same = middle
        else:
            other = middle
    return same


Pair = tuple[str, "Spanned | None", "Spanned | None"]


def _matched(left: Sequence[Spanned], right: Sequence[Spanned], path: str) -> Iterator[Pair]:
    """Pairs of spans that stand for each other; those of the left in order, then what is new."""
    theirs: dict[tuple[str, str], list[Spanned]] = defaultdict(list)
    for span in reversed(right):
        theirs[_key(span)].append(span)
    counts: dict[tuple[str, str], int] = defaultdict(int)
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


def _key(span: Spanned) -> tuple[str, str]:
    return span.kind, "" if span.kind == SpanKind.RUN else span.name


def _step(path: str, span: Spanned, counts: dict[tuple[str, str], int]) -> str:
    """A path with one more span; the second of a name is `name#2`."""
    if span.kind == SpanKind.RUN:
        return path  # every path would begin with it
    counts[span.kind, span.name] += 1
    number = counts[span.kind, span.name]
    name = span.name if number == 1 else f"{span.name}#{number}"
    return f"{path} > {name}" if path else name


def _changes(one: Side, mine: Spanned, two: Side, theirs: Spanned) -> Iterator[tuple[str, str]]:
    if mine.status != theirs.status:
        yield "status", f"{mine.status} -> {theirs.status}"
    left, right = one.generations.get(mine.id), two.generations.get(theirs.id)
    if left is None or right is None:
        return
    if left.prompt is None or left.prompt != right.prompt:
        yield from _change("prompt", one.prompt(mine.id), two.prompt(theirs.id))
    if left.output is None or left.output != right.output:
        yield from _change("output", one.output(mine.id), two.output(theirs.id))
    for name, before, after in zip(COUNTS, left.counts, right.counts, strict=True):
        if before != after:
            yield name, f"{before} -> {after}"


def _change(name: str, left: str, right: str) -> Iterator[tuple[str, str]]:
    at = first_difference(left, right)
    if at is not None:
        yield name, f"{_around(left, at)} -> {_around(right, at)} at character {at}"


def _around(text: str, at: int) -> str:
    """Some of a text about a place, quoted."""
    begin = max(0, at - 12)
    return repr(("..." if begin else "") + text[begin : at + 28])
