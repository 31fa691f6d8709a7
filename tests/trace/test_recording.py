"""What is recorded is read back as it was, while it is written, after a kill, and in bounds."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt.errors import InvalidRequest
from agentrt.trace import (
    RunState,
    SpanKind,
    SpanStatus,
    TraceConfig,
    add_sink,
    current_recording,
    latest_run,
    recording,
    remove_sink,
    span,
    start_span,
)
from agentrt.trace import attributes as names
from agentrt.trace.chunks import CHUNK
from agentrt.trace.engines import EngineStep, Tree, TreeNode
from agentrt.trace.recorder import Recorder
from agentrt.trace.spans import now_ns
from tests.trace.recorded import generate, reading, recorded, text_of


def test_a_tree_of_spans_is_read_back_as_it_was(tmp_path: Path) -> None:
    with recorded(tmp_path), span(SpanKind.PROGRAM, "main", {"agentrt.program.arguments": "x"}):
        with span(SpanKind.STEP, "plan") as plan:
            plan.set(hits=3, near=[1.5, None], nested={"a": ["b"]})
            plan.event("found", what="thing")
        with pytest.raises(ValueError, match="page"), span(SpanKind.TOOL, "search"):
            raise ValueError("no such page")
        cancelled = start_span(SpanKind.GENERATION, "g")
        cancelled.cancel()
    with reading(tmp_path) as run:
        (main,) = run.children(run.root().id)
        step, tool, generation = run.children(main.id)
        assert [s.name for s in run.ancestors(step.id)] == ["test", "main"]
        assert [s.status for s in (main, step, tool, generation)] == [
            SpanStatus.OK,
            SpanStatus.OK,
            SpanStatus.ERROR,
            SpanStatus.CANCELLED,
        ]
        assert (main.kind, main.children, step.parent_id) == (SpanKind.PROGRAM, 3, main.id)
        assert (step.started_ns, step.ended_ns) == (plan.started_ns, plan.ended_ns)
        assert run.attributes(step.id) == {"hits": 3, "near": [1.5, None], "nested": {"a": ["b"]}}
        assert run.attributes(main.id) == {}
        assert run.attributes(main.id, large=True) == {"agentrt.program.arguments": "x"}
        assert run.attributes(tool.id) == {
            "error.type": "ValueError",
            "exception.message": "no such page",
        }
        ((name, attributes),) = [(e.name, e.attributes) for e in run.events(step.id)]
        assert (name, attributes) == ("found", {"what": "thing"})
        assert run.info().failed == 1


def test_a_generation_is_read_back_token_by_token(tmp_path: Path) -> None:
    prompt, output = list(range(100)), [7, 8, 9]
    with recorded(tmp_path):
        made = generate(
            prompt,
            output,
            USAGE_CACHED_TOKENS=64,
            TOKEN_KINDS="sfs",
            TOKEN_LOGPROBS=[-0.5, None, -2.0],
            TOKEN_TOP=[[[7, -0.5], [1, -1.0]], [], [[9, -2.0]]],
            RESPONSE_SEED=5,
        )
    with reading(tmp_path) as run:
        assert run.texts.prompt_ids(made.id) == prompt
        assert run.texts.prompt(made.id) == text_of(prompt)
        assert run.texts.output(made.id) == text_of(output)
        assert [t.origin for t in run.texts.prompt_tokens(made.id)] == (
            ["cached"] * 64 + ["computed"] * 36
        )
        tokens = run.texts.output_tokens(made.id)
        assert [(t.id, t.text, t.origin, t.logprob, t.top) for t in tokens] == [
            (7, b"t7 ", "sampled", -0.5, ((7, -0.5), (1, -1.0))),
            (8, b"t8 ", "forced", None, ()),
            (9, b"t9 ", "sampled", -2.0, ((9, -2.0),)),
        ]
        row = run.generation(made.id)
        assert row is not None
        assert row.usage is not None
        assert row.timings is not None
        assert (row.usage.cached_tokens, row.timings.decode_s, row.response_seed) == (64, 0.5, 5)
        assert run.attributes(made.id)[names.USAGE_COMPUTED_TOKENS] == 36
        info = run.info()
        assert (info.generations, info.usage) == (1, row.usage)


def test_a_text_that_stopped_before_its_tokens_did_is_read_back_as_it_was(tmp_path: Path) -> None:
    with recorded(tmp_path):
        shorter = generate([1], [2, 3], OUTPUT_TEXT="t2 ")
        other = generate([1], [2, 3], OUTPUT_TEXT="something else")
    with reading(tmp_path) as run:
        assert run.texts.output(shorter.id) == "t2 "
        assert run.texts.output(other.id) == "something else"
        assert run.texts.output_ids(other.id) == [2, 3]


@settings(deadline=None)  # every example writes a file
@given(st.lists(st.lists(st.integers(0, 70_000), min_size=1, max_size=200), max_size=8))
def test_prompts_of_any_kind_come_back(
    tmp_path_factory: pytest.TempPathFactory, prompts: list[list[int]]
) -> None:
    folder = tmp_path_factory.mktemp("runs")
    with recorded(folder):
        start_span(SpanKind.STEP, "so that there is a file").end()
        made = [generate(prompt, [1]) for prompt in prompts]
    with reading(folder) as run:
        assert [run.texts.prompt_ids(span.id) for span in made] == prompts


def test_what_prompts_begin_with_together_is_stored_once(tmp_path: Path) -> None:
    shared, branches = list(range(CHUNK * 30)), 200
    with recorded(tmp_path):
        for branch in range(branches):
            generate([*shared, branch], [branch])
    with reading(tmp_path) as run:
        (chunks,) = run.db.execute("SELECT count(*) FROM chunks").fetchone()
    assert chunks == 30 + branches


def test_what_is_wrong_with_a_request_is_no_reason_not_to_record_it(tmp_path: Path) -> None:
    with recorded(tmp_path):
        negative = generate([-1, 2**40], [])
        start_span(SpanKind.STEP, "impossible", {names.PROMPT_IDS: 5, names.RUNTIME_ID: 1}).end()
        cyclic: list[object] = []
        cyclic.append(cyclic)
        start_span(SpanKind.STEP, "cyclic", {"a": cyclic}).end()  # type: ignore[dict-item]
        start_span(SpanKind.STEP, "odd", {"path": tmp_path, "set": {1}}).end()  # type: ignore[dict-item]
    with reading(tmp_path) as run:
        assert run.texts.prompt_ids(negative.id) == [-1, 2**40]
        (odd,) = run.spans(name="odd")
        assert run.attributes(odd.id) == {"path": repr(tmp_path), "set": [1]}
        assert run.info().dropped == 2


def test_a_run_is_read_while_it_is_written(tmp_path: Path) -> None:
    with recorded(tmp_path) as writing:
        first = start_span(SpanKind.STEP, "first")
        writing.flush()
        with reading(tmp_path) as run:
            assert run.info().state is RunState.RUNNING
            assert run.span(first.id).status is SpanStatus.RUNNING
            assert run.has_changed()
            assert not run.has_changed()
            first.set(n=1)
            first.end()
            second = start_span(SpanKind.STEP, "second")
            writing.flush()
            assert run.has_changed()
            assert run.span(first.id).status is SpanStatus.OK
            assert run.attributes(first.id) == {"n": 1}
            assert [s.id for s in run.children(run.root().id)] == [first.id, second.id]
        second.end()


def test_the_file_that_is_left_is_one_plain_file_of_the_user_alone(tmp_path: Path) -> None:
    with recorded(tmp_path):
        generate([1], [2])
    (path,) = tmp_path.iterdir()
    assert path.name.endswith(".sqlite")
    if os.name == "posix":
        assert path.stat().st_mode & 0o077 == 0


def test_nothing_said_leaves_no_file(tmp_path: Path) -> None:
    with recorded(tmp_path):
        pass
    assert list(tmp_path.iterdir()) == []


def test_spans_that_never_ended_are_cancelled_when_the_run_ends(tmp_path: Path) -> None:
    with recorded(tmp_path):
        left = start_span(SpanKind.STEP, "left behind")
    with reading(tmp_path) as run:
        assert run.span(left.id).status is SpanStatus.CANCELLED
        assert run.span(left.id).ended_ns == run.info().ended_ns


KILLED = """
import os, signal, sys
from pathlib import Path
sys.path[:0] = sys.argv[2:]
from agentrt.trace import SpanKind, span
from tests.trace.recorded import generate, recorded
with recorded(Path(sys.argv[1])) as run, span(SpanKind.PROGRAM, "main"):
    for i in range(50):
        generate([1, 2, i], [i])
    run.flush()
    generate([9], [9])
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="there is no SIGKILL here")
def test_after_a_kill_everything_committed_is_there(tmp_path: Path) -> None:
    root = str(Path(__file__).parents[2])
    env = {**os.environ, "PYTHONPATH": root}
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path), root], env=env, check=False)
    assert done.returncode == -signal.SIGKILL
    with latest_run(tmp_path) as run:
        info = run.info()
        assert info.state is RunState.INTERRUPTED
        assert info.duration_s is None
        assert info.generations in {50, 51}
        (main,) = run.children(run.root().id)
        assert main.status is SpanStatus.RUNNING
        made = run.children(main.id)
        assert [run.texts.output_ids(s.id) for s in made[:50]] == [[i] for i in range(50)]
        assert run.db.execute("PRAGMA integrity_check").fetchone() == ("ok",)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_child_records_nothing_and_can_record_a_run_of_its_own(tmp_path: Path) -> None:
    def child() -> int:
        assert current_recording() is None
        with recorded(tmp_path / "child"):
            generate([1], [2])
        return 0

    with recorded(tmp_path / "parent"):
        generate([1], [2])
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                status = child()
            finally:
                os._exit(status)
        assert os.waitpid(pid, 0)[1] == 0
        generate([1], [2])
    for name, count in (("parent", 2), ("child", 1)):
        with reading(tmp_path / name) as run:
            assert run.info().generations == count


def test_where_nothing_can_be_written_a_run_goes_on_unrecorded(tmp_path: Path) -> None:
    occupied = tmp_path / "file"
    occupied.write_text("no folder")
    with recording(TraceConfig(folder=occupied)) as run:
        assert run is not None
        start_span(SpanKind.STEP, "s").end()
        with pytest.warns(UserWarning, match="recorded no further"):
            run.flush()
        start_span(SpanKind.STEP, "t").end()
        run.flush()
    assert occupied.read_text() == "no folder"


def test_a_recorder_that_is_too_slow_drops_details_first_and_says_so(tmp_path: Path) -> None:
    root = start_span(SpanKind.RUN, "run", is_root=True)
    recorder = Recorder(root, TraceConfig(), tmp_path, most_pending=10)  # nothing empties it
    add_sink(recorder)
    try:
        first = [start_span(SpanKind.STEP, f"s{i}", parent=root) for i in range(12)]
        for s in first:
            s.event("detail")
            s.set(n=1)
        refused = [start_span(SpanKind.STEP, f"r{i}", parent=root) for i in range(20)]
        for s in (*refused, *first):
            s.end()
        root.end()
    finally:
        remove_sink(recorder)
    recorder.start()
    recorder.close()
    with reading(tmp_path) as run:
        # 12 events and 12 changes found the queue full, 20 - 7 of the later spans no room in it.
        assert run.info().dropped == 24 + 13
        assert {s.name for s in run.spans(kinds=[SpanKind.STEP])} >= {s.name for s in first}
        assert all(s.status is SpanStatus.OK for s in run.spans(name="s"))
        assert run.info().without_content > 0


def test_engine_steps_and_the_cache_are_read_back(tmp_path: Path) -> None:
    steps = [EngineStep(now_ns() + i, 0.5, 10, 2, 3, 4, 50, 30, 20, i) for i in range(5)]
    leaf = TreeNode(length=2, tokens=(5, 6), locks=1, last_use=9, pinned=True, hidden=3)
    tree = Tree(now_ns(), {"": TreeNode(length=0, tokens=(), children=(leaf,))})
    with recorded(tmp_path):
        generate([5], [6])
        (runtime,) = current_recording().recorder._runtimes  # type: ignore[union-attr]
        runtime.steps.extend(steps)
        runtime.trees.append(tree)
    with reading(tmp_path) as run:
        assert list(run.steps(1)) == steps
        assert list(run.steps(1, from_ns=steps[2].ended_ns)) == steps[2:]
        assert list(run.steps(2)) == []
        assert run.trees(1) == [tree]
        assert run.texts.spell(1, leaf.tokens or ()) == b"t5 t6 "


def test_above_its_limit_a_run_goes_on_without_texts(tmp_path: Path) -> None:
    with recorded(tmp_path, limit_bytes=1 << 16) as writing:
        generate(list(range(50_000)), [1])
        writing.flush()
        late = generate([4, 5], [6])
    with reading(tmp_path) as run:
        assert run.span(late.id).status is SpanStatus.OK
        assert run.texts.prompt_ids(late.id) is None
        assert run.info().without_content >= 1


def test_recordings_nest_and_the_last_one_out_ends_the_run(tmp_path: Path) -> None:
    with recorded(tmp_path) as outer:
        with recording() as inner:
            assert inner is outer
            start_span(SpanKind.STEP, "inner").end()
        with recording(False) as off:
            assert off is None
        assert current_recording() is outer
        start_span(SpanKind.STEP, "outer").end()
        with (
            pytest.raises(InvalidRequest, match="other trace options"),
            recording(TraceConfig(folder=tmp_path / "elsewhere")),
        ):
            pass
    assert current_recording() is None
    with reading(tmp_path) as run:
        assert [s.name for s in run.children(run.root().id)] == ["inner", "outer"]


def test_a_run_says_how_it_ended(tmp_path: Path) -> None:
    def stopped() -> None:
        with recorded(tmp_path):
            start_span(SpanKind.STEP, "s").end()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stopped()
    with reading(tmp_path) as run:
        assert run.info().state is RunState.CANCELLED


def test_what_starts_in_another_thread_belongs_to_the_run(tmp_path: Path) -> None:
    with recorded(tmp_path):
        thread = threading.Thread(target=lambda: start_span(SpanKind.STEP, "elsewhere").end())
        thread.start()
        thread.join()
    with reading(tmp_path) as run:
        assert [s.name for s in run.children(run.root().id)] == ["elsewhere"]


def test_what_belongs_to_another_run_is_not_recorded(tmp_path: Path) -> None:
    stranger = start_span(SpanKind.STEP, "stranger")
    with recorded(tmp_path):
        start_span(SpanKind.STEP, "child of the stranger", parent=stranger).end()
        start_span(SpanKind.STEP, "ours").end()
    with reading(tmp_path) as run:
        assert [s.name for s in run.spans(kinds=[SpanKind.STEP])] == ["ours"]
