"""What runs now: the tree of programs and branches, kept small however long the run is."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from agentrt.generation import Usage
from agentrt.trace import attributes as names
from agentrt.trace.privacy import Privacy
from agentrt.trace.spans import SpanKind, SpanStatus

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentrt.trace.spans import Event, Span

ROWS = {SpanKind.RUN, SpanKind.PROGRAM, SpanKind.STEP, SpanKind.BRANCH}
"""Kinds that have a row of their own; the others are what a row is doing."""
_MOST_ENDED = 24
"""Rows kept of what has ended, by parent: the rest is only counted."""
_TAIL = 400
"""Characters kept of a text that is being written."""


@dataclass(slots=True, eq=False)
class Node:
    """A program, a branch or a step: what it is doing, what it did, what is inside it."""

    id: int
    kind: SpanKind
    name: str
    started_ns: int
    parent: Node | None = None
    status: SpanStatus = SpanStatus.RUNNING
    ended_ns: int | None = None
    doing: dict[int, Span] = field(default_factory=dict[int, "Span"])
    """Generations, tools and the like that run in it now."""
    said: str = ""
    """The text of the last one that ended."""
    error: str = ""
    usage: Usage = field(default_factory=Usage)
    """Of the generations in it and below it; of those that still run, as of the last `refresh`."""
    children: dict[int, Node] = field(default_factory=dict[int, "Node"])
    ended: Counter[SpanStatus] = field(default_factory=Counter[SpanStatus])
    """How its children ended, those no longer in `children` included."""
    forgotten: Counter[SpanStatus] = field(default_factory=Counter[SpanStatus])
    """Children that are only counted."""

    @property
    def running(self) -> int:
        return sum(child.status is SpanStatus.RUNNING for child in self.children.values())

    @property
    def is_running(self) -> bool:
        return self.status is SpanStatus.RUNNING

    def seconds(self, now_ns: int) -> float:
        return ((self.ended_ns or now_ns) - self.started_ns) / 1e9


class LiveModel:
    """Spans as they were told of, digested. Used by one thread."""

    def __init__(self, started_ns: int) -> None:
        self.privacy = Privacy()
        """What may be shown: what may be stored, and no more."""
        self.root = Node(0, SpanKind.RUN, "", started_ns)
        """Above every run, so that what is outside of any has a place."""
        self.programs: Counter[SpanStatus] = Counter()
        self.branches: Counter[SpanStatus] = Counter()
        self._nodes: dict[int, Node] = {}
        self._streamed: dict[int, str] = {}
        self._so_far: dict[int, tuple[Node, Usage]] = {}
        """By generation that runs: where it is counted, and what of it is."""

    @property
    def usage(self) -> Usage:
        """What everything took up to now."""
        return self.root.usage

    def started(self, span: Span) -> None:
        """Takes in a span; nothing happens if it is known or ended a while ago."""
        if span.id in self._nodes:
            return
        owner = self._owner(span)
        if span.kind not in ROWS:
            owner.doing[span.id] = span
            return
        name = self.privacy.text(span.name)
        node = Node(span.id, span.kind, name, span.started_ns, owner)
        owner.children[span.id] = self._nodes[span.id] = node
        self._count(node, 1)

    def event(self, span: Span, event: Event) -> None:
        """A piece of a text that is being written adds to what is shown of it."""
        if event.name != names.CHUNK or span.ended_ns is not None:
            return
        piece = event.attributes.get(names.OUTPUT_TEXT)
        if isinstance(piece, str):
            self._streamed[span.id] = (self._streamed.get(span.id, "") + piece)[-_TAIL:]

    def refresh(self) -> None:
        """Asks what runs how far it is: between two frames, and nothing where nobody looks."""
        for node in (self.root, *self._nodes.values()):
            for span in node.doing.values():
                # One that has just ended, which nobody said yet, stays where it was.
                if (progress := span.progress) is not None:
                    self._counted(span, progress(), node)

    def ended(self, span: Span) -> Node | None:
        """Closes a span and returns its row, if it has one of its own: it stays in the tree until
        there are too many that ended."""
        if span.kind in ROWS:
            if span.id not in self._nodes:
                self.started(span)
            return self._close(self._nodes.pop(span.id), span)
        owner = self._owner(span)
        owner.doing.pop(span.id, None)
        self._streamed.pop(span.id, None)
        owner.said = self.text_of(span)[-_TAIL:] or owner.said
        if span.kind in {SpanKind.GENERATION, SpanKind.SELECT}:
            self._counted(span, usage_of(span), owner)
            del self._so_far[span.id]
        return None

    def close(self, status: SpanStatus, at_ns: int) -> None:
        """Nothing more will be told: what is above the programs ends with the view."""
        for node in (self.root, *self.root.children.values()):
            if node.kind is SpanKind.RUN and node.is_running:
                node.status, node.ended_ns = status, at_ns

    def text_of(self, span: Span) -> str:
        """What a span has written so far, or is about."""
        if span.kind is SpanKind.TOOL:
            return tool_call(span, self.privacy)
        streamed = self._streamed.get(span.id)
        if streamed is not None and self.privacy.redacts:
            return ""  # half a secret is not known for one
        text = streamed or span.attributes.get(names.OUTPUT_TEXT)
        return str(self.privacy.value(names.OUTPUT_TEXT, text) or "")

    def _counted(self, span: Span, taken: Usage, owner: Node) -> None:
        """Counts what a generation has taken in place of what was counted of it before, in the same
        rows: the one it ran in may have closed meanwhile, and the sums above it must still agree.
        """
        place, before = self._so_far.get(span.id, (owner, Usage()))
        for node in _upwards(place):
            node.usage += taken - before
        self._so_far[span.id] = place, taken

    def _close(self, node: Node, span: Span) -> Node:
        self._count(node, -1)
        node.status = span.status
        node.ended_ns = span.ended_ns
        node.error = error_of(span, self.privacy)
        node.doing.clear()
        self._count(node, 1)
        parent = node.parent
        assert parent is not None
        parent.ended[node.status] += 1
        _forget(parent)
        return node

    def _count(self, node: Node, by: int) -> None:
        if node.kind is SpanKind.BRANCH:
            self.branches[node.status] += by
        elif node.kind is SpanKind.PROGRAM:
            self.programs[node.status] += by

    def _owner(self, span: Span) -> Node:
        """The row that a span belongs to, made with those above it where they were never told of:
        they began before anybody looked."""
        above = span.parent
        while above is not None and above.kind not in ROWS:
            above = above.parent
        if above is None:
            return self.root
        if above.id not in self._nodes and above.status is SpanStatus.RUNNING:
            self.started(above)
        return self._nodes.get(above.id) or self._owner(above)


def usage_of(span: Span) -> Usage:
    """What a generation took, nothing where it does not say."""
    counts = (
        span.attributes.get(key, 0)
        for key in (
            names.USAGE_INPUT_TOKENS,
            names.USAGE_CACHED_TOKENS,
            names.USAGE_SAMPLED_TOKENS,
            names.USAGE_FORCED_TOKENS,
        )
    )
    return Usage(*[cast("int", count or 0) for count in counts])


def tool_call(span: Span, privacy: Privacy) -> str:
    """A tool and what it was called with."""
    given = span.attributes.get(names.TOOL_CALL_ARGUMENTS)
    arguments = privacy.value(names.TOOL_CALL_ARGUMENTS, given)
    name = privacy.text(str(span.attributes.get(names.TOOL_NAME) or span.name))
    return f"{name} {arguments}" if arguments else str(name)


def error_of(span: Span, privacy: Privacy) -> str:
    """What ended a span that failed, in words."""
    if span.status is not SpanStatus.ERROR:
        return ""
    kind = str(span.attributes.get(names.ERROR_TYPE) or "error").rpartition(".")[2]
    given = span.attributes.get(names.EXCEPTION_MESSAGE)
    message = privacy.value(names.EXCEPTION_MESSAGE, given)
    return f"{kind}: {message}" if message else kind


def _upwards(node: Node | None) -> Iterator[Node]:
    while node is not None:
        yield node
        node = node.parent


def _forget(parent: Node) -> None:
    """Drops the oldest rows of what ended: those that went well first."""
    over = len(parent.children) - parent.running - _MOST_ENDED
    for wanted in (SpanStatus.OK, SpanStatus.CANCELLED, SpanStatus.ERROR):
        if over <= 0:
            return
        gone = [child for child in parent.children.values() if child.status is wanted][:over]
        for child in gone:
            del parent.children[child.id]
            parent.forgotten[child.status] += 1
        over -= len(gone)
