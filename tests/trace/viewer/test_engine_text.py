"""What the engine did, as lines above the waterfall."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentrt.trace.engine_log import STRETCH_NS
from agentrt.trace.viewer.engine_text import engine_lines, lanes
from agentrt.trace.viewer.span_text import extent_of
from agentrt.trace.viewer.words import ASCII, UNICODE
from tests.trace.viewer.recorded import record


@pytest.mark.parametrize("width", [12, 40, 80, 200])
def test_lines_keep_to_the_columns_of_the_waterfall(tmp_path: Path, width: int) -> None:
    with record(tmp_path, steps=200) as run:
        lines = engine_lines(run, width, UNICODE, extent_of(run))
    assert {line.cell_len for line in lines} <= {width}
    assert len(lines) == (5 if width > 20 else 0)


def test_what_is_drawn_is_what_was_recorded(tmp_path: Path) -> None:
    with record(tmp_path, steps=200) as run:
        held, cached, speed, hits, evicted = lanes(run, 1, extent_of(run), 50)
        line = engine_lines(run, 100, ASCII, extent_of(run))[0].plain
    assert (held.said, cached.said, evicted.said) == ("50%", "25%", "200")
    assert set(held.values) in ({0.5}, {0.5, 0.0})  # the run may go on a little after it
    assert set(cached.values) in ({0.25}, {0.25, 0.0})
    assert max(speed.values) == 1.0
    assert hits.said == "24%"  # 10 of each prompt
    assert "engine pool held" in line
    assert "==" in line  # the middle one of the levels


def test_nothing_is_drawn_where_no_step_is_recorded(tmp_path: Path) -> None:
    with record(tmp_path) as run:
        assert engine_lines(run, 100, UNICODE, extent_of(run)) == []


@pytest.mark.parametrize("stretch", [1, STRETCH_NS // 10, STRETCH_NS, 10 * STRETCH_NS, 2**62])
def test_stretches_of_any_length_add_up(tmp_path: Path, stretch: int) -> None:
    with record(tmp_path, steps=150) as run:
        batches = list(run.batches(1, stretch_ns=stretch))
        for _ in range(2):  # what is remembered of them is the same
            assert list(run.batches(1, stretch_ns=stretch)) == batches
        steps = list(run.steps(1))
    assert sum(batch.steps for batch in batches) == len(steps) == 150
    assert sum(batch.written for batch in batches) == 150
    assert batches[0].started_ns == steps[0].ended_ns
    assert batches[-1].ended_ns == steps[-1].ended_ns
    assert [b.ended_ns for b in batches] == sorted(b.ended_ns for b in batches)
