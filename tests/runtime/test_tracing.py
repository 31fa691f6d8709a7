"""What a runtime tells the trace: what is asked, what comes of it, how it fails, what it ran on."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from agentrt.errors import EngineFailed, InvalidRequest, PromptTooLong
from agentrt.generation import Completion, SamplingParams
from agentrt.messages import Message
from agentrt.runtime.runtime import Runtime
from agentrt.testing import ScriptedModel
from agentrt.trace import (
    RecordedRun,
    SpanKind,
    SpanStatus,
    TraceConfig,
    add_sink,
    current_recording,
    current_span,
    list_runs,
    remove_sink,
    span,
)
from agentrt.trace import attributes as names
from agentrt.trace.records import SpanRow
from tests.runtime.serving import Broken, Gate, settled
from tests.trace.recorded import reading
from tests.trace.sinks import Remembering, listening

pytestmark = pytest.mark.anyio

PROMPT = "The quick brown fox jumps over the lazy dog. " * 4


def tracing(folder: Path, model: ScriptedModel | None = None, **options: Any) -> Runtime:
    return Runtime(model or ScriptedModel.babbling(), trace=TraceConfig(folder=folder), **options)


def asked_in(run: RecordedRun) -> list[SpanRow]:
    return run.spans(kinds=[SpanKind.GENERATION, SpanKind.SELECT])


async def test_a_generation_is_recorded_as_it_was(tmp_path: Path) -> None:
    params = SamplingParams(max_tokens=6, temperature=0.7, top_k=40, seed=11, logprobs=True)
    async with tracing(tmp_path) as runtime:
        with span(SpanKind.PROGRAM, "main") as main:
            done = await runtime.generate(PROMPT, params)
        prompt = runtime.tokenize(PROMPT)
    with reading(tmp_path) as run:
        (generation,) = run.children(main.id)
        assert (generation.name, generation.status) == ("text_completion scripted", SpanStatus.OK)
        found = run.attributes(generation.id, large=True)
        assert {
            names.REQUEST_MAX_TOKENS: 6,
            names.REQUEST_TEMPERATURE: 0.7,
            names.REQUEST_TOP_K: 40,
            names.REQUEST_SEED: 11,
            names.RESPONSE_SEED: 11,
            names.RESPONSE_FINISH_REASONS: ["length"],
            names.PROVIDER_NAME: "agentrt",
            names.REQUEST_MODEL: "scripted",
            names.PROMPT_IDS: prompt,
            names.PROMPT_TEXT: PROMPT,
            names.TOKEN_IDS: list(done.token_ids),
            names.OUTPUT_TEXT: done.text,
        }.items() <= found.items()
        assert names.REQUEST_TOP_P not in found  # as always
        row = run.generation(generation.id)
        assert row is not None
        assert (row.usage, row.timings) == (done.usage, done.timings)
        assert done.logprobs is not None
        assert [t.logprob for t in run.texts.output_tokens(generation.id)] == [
            pytest.approx(entry.logprob) for entry in done.logprobs
        ]
        (used,) = run.runtimes()
        assert used.model == "scripted"
        assert used.attributes[names.RUNTIME_SLOTS] == 4096


async def test_the_second_of_two_prompts_says_what_it_did_not_compute(tmp_path: Path) -> None:
    async with tracing(tmp_path) as runtime:
        await runtime.generate(PROMPT, max_tokens=1)
        await runtime.generate(PROMPT + "And then?", max_tokens=1)
    with reading(tmp_path) as run:
        _, second = asked_in(run)
        origins = [t.origin.value for t in run.texts.prompt_tokens(second.id)]
        assert origins == ["cached"] * len(PROMPT) + ["computed"] * len("And then?")


async def test_several_generations_are_spans_of_their_own(tmp_path: Path) -> None:
    async with tracing(tmp_path) as runtime:
        done = await runtime.generate_n(PROMPT, 5, max_tokens=3, temperature=1.0, seed=3)
    with reading(tmp_path) as run:
        made = asked_in(run)
        assert [run.texts.output(s.id) for s in made] == [c.text for c in done]
        assert [run.attributes(s.id)[names.REQUEST_SEED] for s in made] == [3, 4, 5, 6, 7]


async def test_a_selection_is_one_span(tmp_path: Path) -> None:
    async with tracing(tmp_path) as runtime:
        chosen = await runtime.select("yes or no? ", ["yes", "no"])
    with reading(tmp_path) as run:
        (select,) = asked_in(run)
        found = run.attributes(select.id, large=True)
        assert select.kind is SpanKind.SELECT
        assert found[names.SELECT_CHOICES] == ["yes", "no"]
        assert found[names.SELECT_SCORES] == [choice.score for choice in chosen.choices]
        assert found[names.SELECT_INDEX] == chosen.index
        assert found[names.OUTPUT_TEXT] == chosen.text
        assert found[names.USAGE_INPUT_TOKENS] == chosen.usage.prompt_tokens


async def test_a_stream_is_a_span_from_its_entry_to_its_end(tmp_path: Path) -> None:
    async with tracing(tmp_path) as runtime:
        async with runtime.stream(PROMPT, max_tokens=4) as whole:
            text = "".join([chunk.text async for chunk in whole])
        async with runtime.stream(PROMPT, max_tokens=2000) as part:
            async for _ in part:
                break
        await settled(runtime)
    with reading(tmp_path) as run:
        first, second = asked_in(run)
        assert (first.status, run.texts.output(first.id)) == (SpanStatus.OK, text)
        assert run.attributes(first.id)[names.REQUEST_STREAM] is True
        assert second.status is SpanStatus.CANCELLED
        found = run.attributes(second.id, large=True)
        assert found[names.RESPONSE_FINISH_REASONS] == ["abort"]
        assert found[names.USAGE_INPUT_TOKENS] == len(PROMPT)
        written = run.texts.output_tokens(second.id)
        assert len(written) == found[names.USAGE_OUTPUT_TOKENS] >= 1
        assert (
            b"".join(token.text for token in written)
            .decode()
            .startswith(run.texts.output(second.id) or "?")
        )


async def test_prefilled_and_pinned_prompts_are_recorded_as_such(tmp_path: Path) -> None:
    async with tracing(tmp_path) as runtime:
        await runtime.prefill(PROMPT)
        async with runtime.pinned(PROMPT):
            pass
    with reading(tmp_path) as run:
        assert [s.name for s in asked_in(run)] == ["prefill scripted"] * 2


async def test_what_fails_says_why(tmp_path: Path) -> None:
    async with tracing(tmp_path) as runtime:
        with pytest.raises(PromptTooLong):
            await runtime.generate("x" * 5000)
        with pytest.raises(InvalidRequest):
            await runtime.generate([10**9], max_tokens=1)
    with reading(tmp_path) as run:
        too_long, no_token = asked_in(run)
        assert (too_long.status, no_token.status) == (SpanStatus.ERROR, SpanStatus.ERROR)
        found = run.attributes(too_long.id)
        assert found[names.ERROR_TYPE] == "agentrt.errors.PromptTooLong"
        assert "5000 tokens" in str(found[names.EXCEPTION_MESSAGE])
        assert run.texts.prompt_ids(no_token.id) == [10**9]
        assert run.info().failed == 2


async def test_what_a_failed_engine_took_down_says_so(tmp_path: Path) -> None:
    broken = ScriptedModel.babbling(on_step=Broken(at_step=1))
    async with tracing(tmp_path, broken) as runtime:
        with pytest.raises(EngineFailed):
            await runtime.generate(PROMPT, max_tokens=50)
        await runtime.restart()
        await runtime.generate(PROMPT, max_tokens=1)
    with reading(tmp_path) as run:
        assert [s.status for s in asked_in(run)] == [SpanStatus.ERROR, SpanStatus.OK]
        assert len(run.runtimes()) == 1
        assert [step.computed >= 0 for step in run.steps(1)] == [True] * len(list(run.steps(1)))


async def test_what_is_cancelled_says_so(tmp_path: Path) -> None:
    gate = Gate(at_step=2)
    async with tracing(tmp_path, ScriptedModel.babbling(on_step=gate)) as runtime:
        async with anyio.create_task_group() as group:

            async def ask() -> None:
                await runtime.generate_n(PROMPT, 2, max_tokens=50)

            group.start_soon(ask)
            await gate.reached()
            group.cancel_scope.cancel()
            gate.open()
        await settled(runtime)
    with reading(tmp_path) as run:
        assert [s.status for s in asked_in(run)] == [SpanStatus.CANCELLED] * 2
        assert run.info().state == "ok"


async def test_what_runs_says_how_far_it_is(tmp_path: Path) -> None:
    gate = Gate(at_step=3)
    model = ScriptedModel.babbling(on_step=gate)
    async with tracing(tmp_path, model, max_step_tokens=32) as runtime:
        await runtime.generate(PROMPT[:20], max_tokens=1)
        with listening() as sink:
            async with anyio.create_task_group() as group:
                group.start_soon(partial(runtime.generate, PROMPT, max_tokens=50))
                await gate.reached()
                (asked,) = [s for s in sink.spans if s.kind is SpanKind.GENERATION]
                assert asked.progress is not None
                usage = asked.progress()
                # One step for the first prompt; two of this one are done, and the third stands.
                assert usage.cached_tokens == 20
                assert 20 < usage.prompt_tokens < len(PROMPT)
                assert usage.output_tokens == 0
                group.cancel_scope.cancel()
            assert asked.progress is None
            gate.open()
        await settled(runtime)
    with reading(tmp_path) as run:
        row = run.generation(asked.id)
        assert row is not None
        assert row.usage == usage


async def test_steps_add_up_to_what_was_done(tmp_path: Path) -> None:
    async with tracing(tmp_path) as runtime:
        done = [await runtime.generate(PROMPT + str(i), max_tokens=5) for i in range(3)]
        stats = runtime.stats()
    with reading(tmp_path) as run:
        steps = list(run.steps(1))
        assert len(steps) == stats.steps
        assert sum(step.written for step in steps) == sum(len(d.token_ids) for d in done)
        assert sum(step.computed for step in steps) == stats.computed_tokens
        for step in steps:
            assert step.slots_free + step.slots_cached + step.slots_held == 4096


async def test_the_cache_is_recorded_when_asked_for_and_at_the_end(tmp_path: Path) -> None:
    async with tracing(tmp_path) as runtime:
        await runtime.generate("shared a", max_tokens=1)
        early = await runtime.cache_tree()
        await runtime.generate("shared b", max_tokens=1)
    with reading(tmp_path) as run:
        first, last = run.trees(1)
        assert first == early
        (shared,) = last.roots[""].children
        assert run.texts.spell(1, shared.tokens or ()) == b"shared "
        assert len(shared.children) == 2


async def test_the_cache_can_be_looked_at_where_nothing_is_recorded() -> None:
    async with Runtime(ScriptedModel.babbling()) as runtime:
        await runtime.generate("abc", max_tokens=1)
        (node,) = (await runtime.cache_tree()).roots[""].children
        assert node.tokens == tuple(b"abc")


async def test_runtimes_that_are_open_at_once_are_one_run(tmp_path: Path) -> None:
    async with tracing(tmp_path) as first, Runtime(ScriptedModel.replying("ok")) as second:
        await first.generate("a", max_tokens=1)
        await second.generate("b", max_tokens=1)
    assert current_recording() is None
    (info,) = list_runs(tmp_path)
    assert info.generations == 2
    with reading(tmp_path) as run:
        ids = [run.attributes(s.id)[names.RUNTIME_ID] for s in asked_in(run)]
        assert ids == [1, 2]
        assert all(s.parent_id == run.root().id for s in asked_in(run))


async def test_a_runtime_can_stay_out_of_the_record(tmp_path: Path) -> None:
    async with (
        tracing(tmp_path) as open_one,
        Runtime(ScriptedModel.babbling(), trace=False) as silent,
    ):
        await open_one.generate("a", max_tokens=1)
        with listening() as sink:
            await silent.generate("b", max_tokens=1)
            await silent.select("c", ["a", "b"])
        assert sink.told == []
    with reading(tmp_path) as run:
        assert len(asked_in(run)) == 1


async def test_other_options_than_the_run_is_recorded_with_are_refused(tmp_path: Path) -> None:
    async with tracing(tmp_path) as runtime:
        with pytest.raises(InvalidRequest, match="other trace options"):
            async with Runtime(ScriptedModel.babbling(), trace=TraceConfig(content=False)):
                pass
        await runtime.generate("a", max_tokens=1)
    (info,) = list_runs(tmp_path)
    assert info.state == "ok"


async def test_a_runtime_that_cannot_be_opened_leaves_no_run_open(tmp_path: Path) -> None:
    class Missing:
        def open(self, config: object) -> object:
            raise FileNotFoundError("weights")

    with pytest.raises(FileNotFoundError):
        async with Runtime(Missing(), trace=TraceConfig(folder=tmp_path)):  # type: ignore[arg-type]
            pass
    assert current_recording() is None


async def test_the_run_ends_as_its_block_does(tmp_path: Path) -> None:
    async def failing() -> None:
        async with tracing(tmp_path) as runtime:
            await runtime.generate("a", max_tokens=1)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await failing()
    assert current_span() is None
    (info,) = list_runs(tmp_path)
    assert info.state == "error"


async def test_without_content_no_prompt_leaves_the_process(tmp_path: Path) -> None:
    config = TraceConfig(folder=tmp_path, content=False)
    async with Runtime(ScriptedModel.replying("secret answer"), trace=config) as runtime:
        await runtime.generate("secret question")
        await runtime.cache_tree()
    stored = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert b"secret" not in stored
    with reading(tmp_path) as run:
        assert run.info().usage.prompt_tokens == len("secret question")


Ask = Callable[[Runtime], Any]


@pytest.mark.parametrize("streams", [False, True])
async def test_a_live_view_hears_the_text_as_it_is_written(streams: bool) -> None:
    async def ask(runtime: Runtime) -> Completion:
        if not streams:
            return await runtime.generate("Say it", max_tokens=20)
        async with runtime.stream("Say it", max_tokens=20) as stream:
            assert "".join([chunk.text async for chunk in stream]) == stream.completion.text
        return stream.completion

    async with Runtime(ScriptedModel.replying("one two three")) as runtime:
        sink = Remembering()
        add_sink(sink, chunks=True)
        try:
            done = await ask(runtime)
        finally:
            remove_sink(sink)
        await ask(runtime)
    heard = [told for what, _, told in sink.told if what == "event"]
    assert all(name == names.CHUNK for name, _ in heard)  # type: ignore[misc]
    assert len(heard) > 1
    assert "".join(chunk[names.OUTPUT_TEXT] for _, chunk in heard) == done.text  # type: ignore[misc]
    assert sink.told[-1][0] == "ended"


async def test_who_did_not_ask_for_chunks_hears_none() -> None:
    async with Runtime(ScriptedModel.replying("one two three")) as runtime:
        with listening() as sink:
            await runtime.generate([Message("user", "Say it")], max_tokens=20)
    assert [what for what, _, _ in sink.told] == ["started", "changed", "ended"]
