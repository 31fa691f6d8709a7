"""The spans of a recorded run as rows that can be folded; only those asked for are read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentrt.trace.reading import RecordedRun
    from agentrt.trace.records import SpanRow

_PAGE = 128
_MOST_PAGES = 512
_MOST_OPENED = 2_000


class TreeRow(NamedTuple):
    """A span in its place; `lasts` says for each level of it whether it is the last one there."""

    span: SpanRow
    lasts: tuple[bool, ...]
    is_open: bool


@dataclass(slots=True)
class _Open:
    """A span whose children are shown: how many there are, and which of them are open, by place."""

    id: int | None
    count: int
    open: dict[int, _Open] = field(default_factory=dict[int, "_Open"])

    @property
    def rows(self) -> int:
        return self.count + sum(child.rows for child in self.open.values())


class SpanTree:
    """Rows of a run's spans, from 0 to `len`. What is open can be a part of a very long list: the
    time a row takes grows with how many spans were opened, not with how many there are."""

    def __init__(self, run: RecordedRun) -> None:
        self._run = run
        self._pages: dict[tuple[int | None, int], list[SpanRow]] = {}
        self._top = _Open(None, _count(run, None))

    def __len__(self) -> int:
        return self._top.rows

    def row(self, index: int) -> TreeRow:
        """The row at a place. Raises IndexError."""
        if not 0 <= index < len(self):
            raise IndexError(index)
        node, lasts = self._top, ()
        while True:
            place, inside = _located(node, index)
            lasts = (*lasts, place == node.count - 1)
            if inside is None:
                return TreeRow(self._child(node, place), lasts, place in node.open)
            node, index = node.open[place], inside

    def rows(self, start: int, stop: int) -> Iterator[TreeRow]:
        """Rows from one place to another, as far as there are any."""
        for index in range(start, min(stop, len(self))):
            yield self.row(index)

    def toggle(self, index: int) -> None:
        """Opens the row at a place, or closes it; what has nothing inside stays as it is."""
        node, place = self._at(index)
        if place in node.open:
            del node.open[place]
        else:
            self._open(node, place)

    def open_around(self, room: int) -> None:
        """Opens the run, and from there down what fits in `room` rows, level by level."""
        if self._top.count == 1 and not self._top.open:
            self._open(self._top, 0)
        level = [self._top, *self._top.open.values()]
        while level:
            below: list[_Open] = []
            for node in level:
                for place in range(min(node.count, room)):
                    if place in node.open or len(self) + self._child(node, place).children > room:
                        continue
                    opened = self._open(node, place)
                    below += [opened] if opened is not None else []
            level = below

    def open_all(self) -> None:
        """Opens everything, up to a limit no screen can show and no reader wants."""
        self.open_around(_MOST_OPENED)

    def index_of(self, span_id: int) -> int:
        """The place of a span; what it is inside of is opened. Raises InvalidRequest."""
        path = [*self._run.ancestors(span_id), self._run.span(span_id)]
        node, index = self._top, -1
        for span in path:
            place = self._place(span)
            index += 1 + place + sum(n.rows for p, n in node.open.items() if p < place)
            if span.id == span_id:
                break
            opened = node.open.get(place) or self._open(node, place)
            assert opened is not None  # it has at least the next one of the path inside
            node = opened
        return index

    def parent_index(self, index: int) -> int | None:
        """The place of the row that one is inside of."""
        parent = self.row(index).span.parent_id
        return None if parent is None else self.index_of(parent)

    def refresh(self) -> None:
        """Reads again what may have changed; what is open stays open."""
        self._pages.clear()
        for node in _all_open(self._top):
            node.count = _count(self._run, node.id)

    def _at(self, index: int) -> tuple[_Open, int]:
        node = self._top
        while True:
            place, inside = _located(node, index)
            if inside is None:
                return node, place
            node, index = node.open[place], inside

    def _open(self, node: _Open, place: int) -> _Open | None:
        span = self._child(node, place)
        if not span.children:
            return None
        node.open[place] = _Open(span.id, span.children)
        node.open = dict(sorted(node.open.items()))
        return node.open[place]

    def _child(self, node: _Open, place: int) -> SpanRow:
        page, at = divmod(place, _PAGE)
        key = (node.id, page)
        if key not in self._pages:
            while len(self._pages) >= _MOST_PAGES:
                del self._pages[next(iter(self._pages))]
            self._pages[key] = self._run.children(node.id, limit=_PAGE, offset=page * _PAGE)
        return self._pages[key][at]

    def _place(self, span: SpanRow) -> int:
        (place,) = self._run.db.execute(
            "SELECT count(*) FROM spans WHERE parent IS ? AND id < ?", (span.parent_id, span.id)
        ).fetchone()
        return place


def _located(node: _Open, index: int) -> tuple[int, int | None]:
    """The child that a row below a node is or is in, and which row below that child it is then."""
    extra = 0
    for place, child in node.open.items():
        start = place + extra
        if index <= start:
            break
        if index <= start + child.rows:
            return place, index - start - 1
        extra += child.rows
    return index - extra, None


def _all_open(node: _Open) -> Iterator[_Open]:
    yield node
    for child in node.open.values():
        yield from _all_open(child)


def _count(run: RecordedRun, parent: int | None) -> int:
    (count,) = run.db.execute("SELECT count(*) FROM spans WHERE parent IS ?", (parent,)).fetchone()
    return count
