"""Rows of a tree that is read a page at a time, against the tree read whole."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from agentrt.trace.reading import RecordedRun
from agentrt.trace.viewer.span_text import extent_of, tree_line, waterfall_line
from agentrt.trace.viewer.span_tree import SpanTree
from agentrt.trace.viewer.words import UNICODE
from tests.trace.viewer.recorded import record, record_many


def naive(run: RecordedRun, opened: set[int], parent: int | None = None) -> list[int]:
    """Ids of the rows, by the whole tree."""
    rows: list[int] = []
    for span in run.children(parent, limit=10**9):
        rows.append(span.id)
        if span.id in opened:
            rows += naive(run, opened, span.id)
    return rows


def shown(tree: SpanTree) -> list[int]:
    return [row.span.id for row in tree.rows(0, len(tree))]


@pytest.fixture
def run(tmp_path: Path):
    with record(tmp_path, branches=5) as run:
        yield run


def test_folding_and_unfolding_against_the_whole_tree(tmp_path: Path) -> None:
    choose = random.Random(0)
    with record_many(tmp_path, 600, fan=140) as run:
        tree, opened = SpanTree(run), set[int]()
        for _ in range(40):
            index = choose.randrange(len(tree))
            row = tree.row(index)
            tree.toggle(index)
            if row.span.children:
                opened ^= {row.span.id}
            visible = {i for i in opened if i in naive(run, opened)}
            assert shown(tree) == naive(run, visible)
            opened = visible
            assert len(tree) == len(shown(tree))


def test_everything_open(run: RecordedRun) -> None:
    tree = SpanTree(run)
    tree.open_all()
    assert shown(tree) == naive(run, {span.id for span in run.spans(limit=None)})
    first = tree.row(0)
    assert first.is_open
    assert first.lasts == (True,)


def test_every_span_can_be_found(run: RecordedRun) -> None:
    for span in run.spans(limit=None):
        tree = SpanTree(run)
        assert tree.row(tree.index_of(span.id)).span.id == span.id
    tree = SpanTree(run)
    tree.open_all()
    for index, span_id in enumerate(shown(tree)):
        assert tree.index_of(span_id) == index
        parent = run.span(span_id).parent_id
        above = tree.parent_index(index)
        assert (above is None) == (parent is None)
        assert above is None or tree.row(above).span.id == parent


def test_no_row_beyond_the_last(run: RecordedRun) -> None:
    tree = SpanTree(run)
    for index in (-1, len(tree)):
        with pytest.raises(IndexError):
            tree.row(index)


@pytest.mark.parametrize("room", [1, 3, 10, 200])
def test_opening_keeps_to_its_room(run: RecordedRun, room: int) -> None:
    tree = SpanTree(run)
    tree.open_around(room)
    assert len(tree) <= max(room, 3)  # the run itself is open, however much is in it


@pytest.mark.parametrize("width", [20, 40, 80, 200])
def test_lines_keep_to_their_width(run: RecordedRun, width: int) -> None:
    tree, extent = SpanTree(run), extent_of(run)
    tree.open_all()
    for row in tree.rows(0, len(tree)):
        assert tree_line(run, row, width, UNICODE).cell_len <= width
        assert waterfall_line(run, row, width, UNICODE, extent).cell_len <= width


@pytest.mark.parametrize("fan", [200, 20_000])
def test_only_what_is_seen_is_read(tmp_path: Path, fan: int) -> None:
    with record_many(tmp_path, fan + 1, fan=fan) as run:
        asked: list[str] = []
        run.db.set_trace_callback(asked.append)
        tree = SpanTree(run)
        tree.open_around(60)
        assert len(list(tree.rows(0, 50))) == 2
        tree.toggle(1)
        assert len(tree) == fan + 2
        for top in range(0, fan - 50, fan // 4):  # the longest way through it
            assert len(list(tree.rows(top, top + 50))) == 50
        assert len(asked) <= 14, "a few pages, however many spans there are"
