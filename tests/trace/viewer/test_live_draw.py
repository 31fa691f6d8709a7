"""What the live view shows, as facts about its lines."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from agentrt.generation import Usage
from agentrt.runtime.stats import RuntimeStats
from agentrt.trace import attributes as names
from agentrt.trace.privacy import Privacy
from agentrt.trace.spans import Span, SpanKind, span, start_span
from agentrt.trace.viewer.live_draw import Left, clipped, clipped_left
from agentrt.trace.viewer.live_fold import folded
from agentrt.trace.viewer.live_model import LiveModel, Node
from agentrt.trace.viewer.words import UNICODE
from tests.trace.viewer.scene import generation, screen_of, watching, written

STATS = RuntimeStats(
    running=8,
    waiting=3,
    slots_free=500,
    slots_cached=3_400,
    slots_held=1_200,
    usage=Usage(1_000, 890, 0, 0),
    tokens_per_s=412.3,
)
SIZES = [(80, 23), (40, 20), (200, 50), (20, 6), (10, 3), (3, 2)]


def row(lines: list[str], word: str) -> str:
    (found,) = [line for line in lines if word in line]
    return found


def branches(count: int) -> list[Span]:
    run = start_span(SpanKind.RUN, "triage.py")
    program = start_span(SpanKind.PROGRAM, "solve", parent=run)
    return [start_span(SpanKind.BRANCH, f"branch {i}", parent=program) for i in range(1, count + 1)]


def test_a_small_run() -> None:
    with watching() as model:
        first, second, third = branches(3)
        written(generation(first), "Paris is the capital")
        first.end()
        generation(second).event(names.CHUNK, {names.OUTPUT_TEXT: "It could be"})
        third.end(ValueError("no such\ncity"))
        lines = screen_of(model, 80, 23, stats=STATS, left=Left(1_234, 2, 14.2))
    assert "triage.py" in lines[0]
    assert "3 branches ●1 ✓1 ✗1" in lines[0]
    figures = " ".join(lines[1:5])
    for fact in (
        "20 computed",
        "80 cached",
        "3 forced",
        "12 sampled",
        "412 tok/s",
        "1,200 held",
        "3,400 cached",
        "500 free",
        "hit rate 80%",
        "8 decoding, 3 waiting",
        "left: 1,234 tokens, 2 calls, 14s",
    ):
        assert fact in figures
    assert row(lines, "solve").startswith("└ ● solve")
    assert "15 tok" in row(lines, "solve")
    assert row(lines, "branch 1").startswith("  ├ ✓ branch 1  Paris is the capital")
    assert row(lines, "branch 2").startswith("  ├ ● branch 2  It could be")
    assert row(lines, "branch 3").startswith("  └ ✗ branch 3  ValueError: no such city")


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_200_branches_fit(width: int, height: int) -> None:
    with watching() as model:
        all_of_them = branches(200)
        for at, branch in enumerate(all_of_them):
            asked = generation(branch)
            if at < 60:
                written(asked, "das 首都 ist " * 20)
                branch.end(None if at % 10 else RuntimeError("broken"))
        lines = screen_of(model, width, height, stats=STATS)
    assert len(lines) <= height
    assert all(cell_len(line) <= width for line in lines)
    if (width, height) == (80, 23):
        assert len(lines) == height
        assert "200 branches ●140 ✓54 ✗6" in lines[0]
        shown = sum("branch " in line for line in lines)
        assert lines[-1] == f"  └ … {140 - shown} running  54 done  6 failed"
        assert shown >= 15


def test_rows_stay_where_they_are_while_they_run() -> None:
    with watching() as model:
        all_of_them = branches(200)
        before = screen_of(model, 80, 23)
        for branch in all_of_them[:50]:
            generation(branch)
        all_of_them[199].end()
        after = screen_of(model, 80, 23)
    assert [line.split("  ")[1] for line in before[3:22]] == [
        line.split("  ")[1] for line in after[3:22]
    ]


def test_a_cancelled_program_says_so() -> None:
    with watching() as model:
        (branch,) = branches(1)
        generation(branch).end(KeyboardInterrupt())
        branch.end(KeyboardInterrupt())
        assert branch.parent is not None
        branch.parent.end(KeyboardInterrupt())
        lines = screen_of(model, 80, 23)
    assert "⊘ branch 1" in row(lines, "branch 1")
    assert "⊘ solve" in row(lines, "solve")
    assert model.branches.total() == 1


def test_tools_and_waiting_generations() -> None:
    with watching() as model:
        first, second = branches(2)
        start_span(
            SpanKind.TOOL,
            "search",
            {names.TOOL_NAME: "search", names.TOOL_CALL_ARGUMENTS: '{"q": "x"}'},
            parent=first,
        )
        generation(second)
        generation(second)
        lines = screen_of(model, 80, 23)
    assert 'tool search {"q": "x"}' in row(lines, "branch 1")
    assert "(2 at once) reading…" in row(lines, "branch 2")


def test_a_narrow_screen_says_the_same_on_more_lines() -> None:
    with watching() as model:
        branches(200)
        lines = screen_of(model, 40, 20, stats=STATS)
    head = " ".join(lines[:7])
    for fact in ("200 branches ●200", "1,200 held 3,400 cached 500 free", "hit rate", "3 waiting"):
        assert fact in head


def test_tokens_are_counted_while_they_are_written() -> None:
    with watching() as model:
        (branch,) = branches(1)
        asked = generation(branch)
        for piece in ("on", "ce"):
            asked.event(names.CHUNK, {names.OUTPUT_TEXT: piece, names.TOKEN_IDS: [1, 2]})
        asked.progress = lambda: Usage(10, 6, 3, 1)
        model.refresh()
        while_it_runs = screen_of(model, 80, 23)
        asked.progress = None  # it has ended, and nobody has said so yet
        model.refresh()
        assert screen_of(model, 80, 23)[1:] == while_it_runs[1:]
        written(asked, "once", (10, 6, 4, 1))
        model.refresh()
        lines = screen_of(model, 80, 23)
    assert "once" in row(while_it_runs, "branch 1")
    assert "4 tok" in row(while_it_runs, "branch 1")
    assert "5 tok" in row(lines, "branch 1")
    figures = "4 computed · 6 cached · 1 forced · {} sampled · hit rate 60%"
    assert figures.format(3) in while_it_runs[1]
    assert figures.format(4) in lines[1]


def test_what_has_ended_is_counted_once_whenever_the_last_frame_was() -> None:
    with watching() as model:
        four = branches(4)
        asked = [generation(branch) for branch in four]
        for each in asked:
            each.progress = lambda: Usage(10, 6, 4, 1)
        model.refresh()  # the last frame that saw them run
        for branch, each in zip(four, asked, strict=True):
            written(each, "once", (10, 6, 9, 1))
            branch.end()
        lines = screen_of(model, 80, 23)
    assert "16 computed · 24 cached · 4 forced · 36 sampled" in lines[1]
    for at in range(1, 5):
        assert "10 tok" in row(lines, f"branch {at}")
    assert "40 tok" in row(lines, "solve")


def test_a_generation_that_outlasts_its_branch_is_counted_once() -> None:
    with watching() as model:
        (branch,) = branches(1)
        asked = generation(branch)
        asked.progress = lambda: Usage(10, 6, 4, 1)
        model.refresh()
        branch.end()
        written(asked, "once", (10, 6, 9, 1))
        model.refresh()
        lines = screen_of(model, 80, 23)
    assert "4 computed · 6 cached · 1 forced · 9 sampled" in lines[1]
    assert "10 tok" in row(lines, "branch 1")
    assert "10 tok" in row(lines, "solve")


@pytest.mark.parametrize(
    ("privacy", "running", "done"),
    [
        (Privacy(content=False), "reading…", ""),
        (Privacy(redact=lambda text: text.replace("secret", "[...]")), "reading…", "a [...] word"),
    ],
)
def test_no_more_is_shown_of_texts_than_is_stored(
    privacy: Privacy, running: str, done: str
) -> None:
    with watching() as model:
        model.privacy = privacy
        one, two, three = branches(3)
        asked = generation(one)
        asked.event(names.CHUNK, {names.OUTPUT_TEXT: "a secret w"})
        with span(SpanKind.TOOL, "find", {names.TOOL_CALL_ARGUMENTS: "secret"}, parent=two):
            early = screen_of(model, 80, 23)
        three.end(ValueError("the secret"))
        written(asked, "a secret word")
        one.end()
        late = screen_of(model, 80, 23)
    assert running in row(early, "branch 1")
    assert "tool find" in row(early, "branch 2")
    assert done in row(late, "branch 1")
    assert "ValueError" in row(late, "branch 3")
    assert "secret" not in "".join((*early, *late))


def test_text_from_a_model_cannot_move_the_cursor() -> None:
    with watching() as model:
        (branch,) = branches(1)
        generation(branch).event(names.CHUNK, {names.OUTPUT_TEXT: "a\x1b[2J\r\nb\u202e"})
        lines = screen_of(model, 80, 23)
    assert "a�[2J b�" in row(lines, "branch 1")


def test_a_view_opened_in_the_middle_of_a_run_catches_up() -> None:
    (branch,) = branches(1)
    with watching() as model:
        written(generation(branch), "done")
        lines = screen_of(model, 80, 23)
    assert "triage.py" in lines[0]
    assert row(lines, "branch 1").startswith("  └ ● branch 1")


def test_what_ended_is_forgotten_but_counted() -> None:
    with watching() as model:
        for at, branch in enumerate(branches(1_000)):
            written(generation(branch), "x")
            branch.end(None if at % 100 else RuntimeError("broken"))
        lines = screen_of(model, 80, None)
        nodes = sum(1 for _ in all_below(model.root))
    assert nodes < 40
    assert "1,000 branches ✓990 ✗10" in lines[0]
    assert lines[-1] == "  └ … 976 done"
    assert sum("RuntimeError: broken" in line for line in lines) == 10


def test_a_generation_outside_of_any_program_counts() -> None:
    with watching() as model:
        written(generation(None), "x", (10, 0, 4, 0))
        assert "10 computed" in screen_of(model, 80, 23)[1]


@pytest.mark.parametrize("room", [*range(12), 100])
def test_folding_keeps_to_its_room_and_loses_nobody(room: int) -> None:
    with watching() as model:
        program = branches(7)[0].parent
        assert program is not None
        for _ in range(3):
            inner = start_span(SpanKind.PROGRAM, "inner", parent=program)
            for _ in range(2):
                start_span(SpanKind.BRANCH, "b", parent=inner)
        rows = folded(model.root, room)
    assert len(rows) <= room
    shown = [r.node for r in rows if r.hidden is None]
    counters = [r for r in rows if r.hidden is not None]
    assert len({id(node) for node in shown}) == len(shown)
    for counter in counters:
        below = [node for node in shown if node.parent is counter.node]
        assert counter.hidden is not None
        assert counter.hidden.total() + len(below) == len(counter.node.children)
        assert counter.hidden.total() > 0
    for node in shown:  # whoever is shown stands below a parent that is shown
        assert node.parent is model.root or node.parent in shown
    if room == 100:
        assert len(shown) == 1 + 1 + 7 + 3 + 6
        assert counters == []


def test_clipping_minds_wide_characters() -> None:
    for width in range(12):
        for text in ("首都首都首都", "abcdefghijkl", "a首b都c"):
            assert cell_len(clipped(text, width, UNICODE)) <= width
            assert cell_len(clipped_left(text, width, UNICODE)) <= width
    assert clipped("abcdef", 4, UNICODE) == "abc…"
    assert clipped_left("abcdef", 4, UNICODE) == "…def"


def all_below(node: Node) -> list[Node]:
    return [node, *(below for child in node.children.values() for below in all_below(child))]


def test_an_empty_model_draws() -> None:
    assert len(screen_of(LiveModel(0), 80, 23)) == 2
