"""The views of a recorded run, as facts about their lines."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from agentrt.trace import SpanKind, TraceConfig, list_runs, open_run, recording
from agentrt.trace import attributes as names
from agentrt.trace.reading import RecordedRun
from agentrt.trace.spans import span
from agentrt.trace.texts import RunTexts
from agentrt.trace.viewer import printing
from agentrt.trace.viewer.diff import Difference, differences, first_difference
from agentrt.trace.viewer.span_text import columns
from agentrt.trace.viewer.token_text import Origin, alternatives, legend, pieces, tokens_text
from tests.trace.recorded import generate, recorded
from tests.trace.viewer.recorded import PROMPT, record


@pytest.fixture
def run(tmp_path: Path) -> Iterator[RecordedRun]:
    with record(tmp_path) as run:
        yield run


def printed(*lines: object, width: int = 120) -> str:
    out = io.StringIO()
    console = Console(file=out, width=width, highlight=False)
    for line in lines:
        console.print(line)
    return out.getvalue()


def wide() -> Console:
    return Console(file=io.StringIO(), width=120)


def test_the_list_of_runs(run: RecordedRun, tmp_path: Path) -> None:
    text = printed(printing.runs_table(list_runs(tmp_path), 120))
    for fact in (run.info().id, "triage.py", "ok", "24%"):
        assert fact in text


@pytest.mark.parametrize("width", [120, 80, 60, 40, 26])
def test_the_list_has_columns_that_fit_and_nothing_of_them_is_cut(
    width: int, run: RecordedRun, tmp_path: Path
) -> None:
    table = printing.runs_table(list_runs(tmp_path), width)
    head, row = printed(table, width=width).splitlines()
    assert len(head) <= width
    assert run.info().id in row
    assert "…" not in head
    whole = dict(
        zip(*(line.split("\t") for line in printing.runs_lines([run.info()])), strict=True)
    )
    for name in head.split():
        assert name == "what" or whole[name] in row
    assert set(head.split()) <= set(whole)
    assert {"run", "what"} <= set(head.split()) or width < 30


def test_the_tree(run: RecordedRun) -> None:
    lines = [line.plain for line in printing.tree_page(run, wide())]
    assert len(lines) == run.info().spans == 13
    assert "▾ ✓ triage.py" in lines[0]
    assert '{"city": "Paris"}' in lines[2]
    assert "38+17 tok" in lines[2]
    assert 'search  {"q": "</script>"}' in lines[9]
    assert "✗ check  ValueError: no such�[2J city" in lines[12]


def test_the_waterfall_shows_phases_in_order(run: RecordedRun) -> None:
    lines = [line.plain for line in printing.waterfall_page(run, wide())]
    assert lines[0].split() == ["░░", "queue", "▒▒", "prefill", "██", "decode"]
    assert "━" in lines[1]
    bar = "".join(char for char in lines[3] if char in "░▒█")
    assert bar == "".join(sorted(bar, key="░▒█".index))
    assert bar.endswith("█")


@pytest.mark.parametrize(
    ("begin", "end", "expected"),
    [(0, 100, (0, 10)), (0, 1, (0, 1)), (99, 100, (9, 10)), (50, 50, (5, 6)), (15, 25, (1, 3))],
)
def test_columns_of_a_time(begin: int, end: int, expected: tuple[int, int]) -> None:
    assert columns(begin, end, (0, 100), 10) == expected


def test_how_each_token_came_to_be(run: RecordedRun) -> None:
    first, *_, repair = printing.generations_of(run)
    shown = pieces(run, first)
    said = "".join(piece.text for piece in shown)
    assert said == PROMPT + '{"city": "Paris"}'
    assert [piece.origin for piece in shown if piece.in_prompt] == (
        [Origin.CACHED] * 10 + [Origin.COMPUTED] * (len(PROMPT.encode()) - 10)
    )
    output = [piece for piece in shown if not piece.in_prompt]
    assert [piece.origin for piece in output] == [Origin.FORCED] * 9 + [Origin.SAMPLED] * 8
    assert {p.origin for p in pieces(run, repair) if not p.in_prompt} == {Origin.REPAIRED}
    assert "".join(legend(shown).plain.split()) == "cached10computed28sampled8forced9"


def test_a_character_of_several_tokens_is_whole(run: RecordedRun) -> None:
    shown = pieces(run, printing.generations_of(run)[0])
    at = next(i for i, piece in enumerate(shown) if piece.text == "首")
    assert [piece.text for piece in shown[at - 2 : at]] == ["", ""]


def test_the_chosen_token_and_its_alternatives(run: RecordedRun) -> None:
    first = printing.generations_of(run)[0]
    shown = pieces(run, first)
    at = len(PROMPT.encode()) + 2
    (reversed_one,) = [s for s in tokens_text(shown, cursor=at).spans if "reverse" in str(s.style)]
    plain = tokens_text(shown, cursor=at).plain
    assert plain[reversed_one.start : reversed_one.end] == "c"
    assert alternatives(run, first, shown[at]) == [("c", -0.25, True), ("?", -2.5, False)]
    assert alternatives(run, first, shown[0]) == []


def test_texts_that_were_not_recorded(tmp_path: Path) -> None:
    with recording(TraceConfig(folder=tmp_path, content=False)) as active:
        assert active is not None
        with span(SpanKind.GENERATION, "quiet", {names.OUTPUT_TEXT: "a secret"}):
            pass
    with open_run(active.path) as run:
        text = printed(*printing.tokens_page(run, printing.generations_of(run)))
    assert "not recorded" in text
    assert "secret" not in text


def test_usage_and_radix(run: RecordedRun) -> None:
    usage = printed(printing.usage_table(run.usage_by_program()))
    assert usage.splitlines()[1].split()[:6] == ["solve", "1", "0", "5", "161", "50"]
    radix = [line.plain for line in printing.radix_page(run, wide())]
    assert radix[0] == "tiny  46 tokens cached"
    assert "user: Where is the 首都? assistant:" in radix[1]
    assert radix[1].endswith("38 tok, 1 lock")
    assert len(radix) == 4


def test_hits(run: RecordedRun) -> None:
    lines = [line.plain for line in printing.hits_page(run, run.search("paris"))]
    assert any('{"city": "Paris"}' in line for line in lines)


def test_two_runs_alike_do_not_differ(tmp_path: Path) -> None:
    with record(tmp_path) as left, record(tmp_path) as right:
        assert list(differences(left, right)) == []
        assert "The same spans" in printed(*printing.diff_page(left, right, []))


def test_of_runs_that_are_alike_no_text_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with record(tmp_path) as left, record(tmp_path, answer="Rome") as right:
        asked: list[int] = []
        monkeypatch.setattr(RunTexts, "prompt", lambda _, span: asked.append(span))
        (found,) = differences(left, right)
        assert dict(found.changes).keys() == {"output", "sampled"}
    assert asked == []


def test_outputs_that_are_kept_as_texts_are_compared_as_such(tmp_path: Path) -> None:
    def one(text: str) -> RecordedRun:
        with recorded(tmp_path) as run:
            generate([1], [2], OUTPUT_TEXT=text)  # is not what the tokens spell
        return open_run(run.path)

    with one("as it was") as left, one("as it is") as right:
        (found,) = differences(left, right)
        assert found.changes == (("output", "'as it was' -> 'as it is' at character 6"),)


def test_what_differs(tmp_path: Path) -> None:
    with record(tmp_path) as left, record(tmp_path, answer="Rome", branches=4) as right:
        found = list(differences(left, right))
        text = printed(*printing.diff_page(left, right, found))
    assert [(d.path, d.left is None, d.right is None) for d in found] == [
        ("solve > text_completion tiny", False, False),
        ("solve > branch 4", True, False),
    ]
    assert dict(found[0].changes) == {
        "output": '\'{"city": "Paris"}\' -> \'{"city": "Rome"}\' at character 10',
        "sampled": "8 -> 7",
    }
    assert "+ solve > branch 4" in text


def test_what_is_missing_is_named_once(tmp_path: Path) -> None:
    with record(tmp_path, branches=2) as left, record(tmp_path, branches=1) as right:
        (gone,) = differences(left, right)
    assert gone.path == "solve > branch 2"
    assert isinstance(gone, Difference)
    assert gone.right is None


@pytest.mark.parametrize(
    ("left", "right", "at"),
    [
        ("", "", None),
        ("ab", "ab", None),
        ("ab", "ac", 1),
        ("ab", "abc", 2),
        ("", "a", 0),
        ("xb", "ab", 0),
        ("a" * 1000 + "b", "a" * 1000 + "cd", 1000),
    ],
)
def test_the_first_difference(left: str, right: str, at: int | None) -> None:
    assert first_difference(left, right) == at
