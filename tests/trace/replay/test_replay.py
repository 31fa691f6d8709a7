"""A recorded run as a runtime."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import pytest

from agentrt.errors import DeadlineExceeded, InvalidRequest, PromptTooLong, ReplayDrift
from agentrt.generation import Completion
from agentrt.programs import State, call_tools, program, tool
from agentrt.runtime.runtime import Runtime
from agentrt.schema import compile_regex
from agentrt.testing import ScriptedModel
from agentrt.trace import TraceConfig
from agentrt.trace.replay import Replay

pytestmark = pytest.mark.anyio

ANSWERS = ("one", "two", "three")


def recording(folder: Path, reply: Any = ANSWERS, **config: Any) -> Runtime:
    config = {"folder": folder, **config}
    return Runtime(ScriptedModel.replying(reply), trace=TraceConfig(**config))


def record_of(folder: Path) -> Path:
    (path,) = folder.glob("*.sqlite")
    return path


def same(replayed: Completion, recorded: Completion) -> None:
    """Equal in all that was said, and in how long it took."""
    assert replayed == recorded


async def test_a_completion_comes_back_as_it_was(tmp_path: Path) -> None:
    async with recording(tmp_path) as runtime:
        recorded = await runtime.generate("Count:", max_tokens=9, stop="w", seed=1, temperature=1.0)
    async with Replay(record_of(tmp_path)) as runtime:
        asked: Any = {"max_tokens": 9, "stop": "w", "seed": 1, "temperature": 1.0}
        same(await runtime.generate("Count:", **asked), recorded)
        assert (runtime.answered, runtime.unasked) == (1, [])


async def test_a_redacted_answer_comes_back_as_it_is_kept(tmp_path: Path) -> None:
    hide = {"redact": lambda text: text.replace("two", "[...]")}
    async with recording(tmp_path, ("one two",), **hide) as runtime:
        await runtime.generate("Count:", logprobs=True)
    async with Replay(record_of(tmp_path)) as runtime:
        again = await runtime.generate("Count:", logprobs=True)
    assert (again.text, again.token_ids, again.logprobs) == ("one [...]", (), None)


async def test_log_probabilities_come_back(tmp_path: Path) -> None:
    async with recording(tmp_path) as runtime:
        recorded = await runtime.generate("Count:", prompt_logprobs=True, top_logprobs=2)
    async with Replay(record_of(tmp_path)) as runtime:
        again = await runtime.generate("Count:", prompt_logprobs=True, top_logprobs=2)
    assert again.logprobs is not None
    assert recorded.logprobs is not None
    assert [t.token_id for t in again.logprobs] == [t.token_id for t in recorded.logprobs]
    assert [t.logprob for t in again.logprobs] == pytest.approx(
        [t.logprob for t in recorded.logprobs]
    )
    assert [len(t.top) for t in again.logprobs] == [len(t.top) for t in recorded.logprobs]
    assert again.prompt_logprobs is not None
    assert len(again.prompt_logprobs) == len(recorded.prompt_logprobs or ())


async def test_several_equal_requests_get_their_answers_in_order(tmp_path: Path) -> None:
    async with recording(tmp_path) as runtime:
        recorded = [await runtime.generate("Count:", temperature=1.0) for _ in range(6)]
        several = await runtime.generate_n("Count more:", 3, temperature=1.0, seed=4)
    assert len({completion.text for completion in recorded}) > 1
    async with Replay(record_of(tmp_path)) as runtime:
        again = [await runtime.generate("Count:", temperature=1.0) for _ in range(6)]
        assert again == recorded
        assert await runtime.generate_n("Count more:", 3, temperature=1.0, seed=4) == several
        with pytest.raises(ReplayDrift, match="asked once more"):
            await runtime.generate("Count:", temperature=1.0)
        runtime.drifts.clear()


async def test_a_stream_is_the_recorded_text(tmp_path: Path) -> None:
    async with recording(tmp_path, "naïve café") as runtime, runtime.stream("Say:") as stream:
        _ = [chunk async for chunk in stream]
    async with Replay(record_of(tmp_path)) as runtime, runtime.stream("Say:") as stream:
        chunks = [chunk async for chunk in stream]
    assert "".join(chunk.text for chunk in chunks) == "naïve café"
    assert stream.completion.text == "naïve café"
    assert tuple(i for chunk in chunks for i in chunk.token_ids) == stream.completion.token_ids
    assert len(chunks) > 3


async def test_a_selection_comes_back(tmp_path: Path) -> None:
    async with recording(tmp_path, "yes") as runtime:
        recorded = await runtime.select("Sure? ", ["no", "yes"])
    async with Replay(record_of(tmp_path)) as runtime:
        again = await runtime.select("Sure? ", ["no", "yes"])
        assert (again.index, again.text, again.usage) == (1, "yes", recorded.usage)
        assert [c.score for c in again.choices] == [c.score for c in recorded.choices]
        ids = [[t.token_id for t in choice.logprobs] for choice in again.choices]
        assert ids == [[t.token_id for t in choice.logprobs] for choice in recorded.choices]
        with pytest.raises(ReplayDrift, match="choices"):
            await runtime.select("Sure? ", ["no", "maybe"])
        runtime.drifts.clear()


async def test_a_constraint_is_part_of_what_is_asked(tmp_path: Path) -> None:
    async with recording(tmp_path, "42") as runtime:
        digits = compile_regex("[0-9]{2}", runtime.vocabulary)
        recorded = await runtime.generate("Number:", constraint=digits)
    async with Replay(record_of(tmp_path)) as runtime:
        assert await runtime.generate("Number:", constraint=digits) == recorded
        letters = compile_regex("[a-z]{2}", runtime.vocabulary)
        with pytest.raises(ReplayDrift, match="constraint"):
            await runtime.generate("Number:", constraint=letters)
        runtime.drifts.clear()


@program
async def greet(s: State, who: str) -> str:
    s.user(f"Hello, I am {who}.")
    return await s.gen(max_tokens=20)


async def test_drift_names_the_first_token_that_differs(tmp_path: Path) -> None:
    async with recording(tmp_path):
        await greet("Bob")
        await greet("Anna")
    async with Replay(record_of(tmp_path)) as runtime:
        assert await greet("Bob") == "one"
        with pytest.raises(ReplayDrift) as caught:
            await greet("Anne")
        runtime.drifts.clear()
    drift = caught.value
    assert (drift.recorded, drift.asked) == ("a", "e")
    assert drift.index == len("user: Hello, I am Ann")
    assert drift.nearest == "user: Hello, I am Anna.\nassistant: "
    assert f"span {drift.span_id} (in greet)" in str(drift)


async def test_drift_at_the_end_of_a_prompt(tmp_path: Path) -> None:
    async with recording(tmp_path) as runtime:
        await runtime.generate("Count")
    async with Replay(record_of(tmp_path)) as runtime:
        with pytest.raises(ReplayDrift, match="':' where its end was recorded") as caught:
            await runtime.generate("Count:")
        assert (caught.value.recorded, caught.value.asked) == (None, ":")
        runtime.drifts.clear()


async def test_another_parameter_is_named(tmp_path: Path) -> None:
    async with recording(tmp_path) as runtime:
        await runtime.generate("Count:", max_tokens=3)
    async with Replay(record_of(tmp_path)) as runtime:
        with pytest.raises(ReplayDrift, match="max_tokens 4 in place of 3"):
            await runtime.generate("Count:", max_tokens=4)
        runtime.drifts.clear()


async def test_a_drift_that_was_caught_is_raised_in_the_end(tmp_path: Path) -> None:
    async with recording(tmp_path) as runtime:
        await runtime.generate("Count:")
    replay = Replay(record_of(tmp_path))

    async def swallowing() -> None:
        async with replay as runtime:
            with suppress(ReplayDrift):
                await runtime.generate("different")

    with pytest.raises(ReplayDrift, match="'d' where 'C'"):
        await swallowing()
    assert [each.span_id for each in replay.unasked] == [replay.drifts[0].span_id]


async def test_what_failed_fails_again(tmp_path: Path) -> None:
    async with recording(tmp_path) as runtime:
        with pytest.raises(PromptTooLong) as recorded:
            await runtime.generate("x" * 5000)
    async with Replay(record_of(tmp_path)) as runtime:
        with pytest.raises(PromptTooLong) as again:
            await runtime.generate("x" * 5000)
        assert runtime.unasked == []
    assert str(again.value) == str(recorded.value)


async def test_a_cancelled_generation_waits_to_be_cancelled_again(tmp_path: Path) -> None:
    texts: list[str] = []

    async def first_only(runtime: Runtime) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(runtime.generate, "forever")
            await anyio.wait_all_tasks_blocked()
            texts.append((await runtime.generate("short", max_tokens=2)).text)
            group.cancel_scope.cancel()

    config = TraceConfig(folder=tmp_path)
    async with Runtime(ScriptedModel.babbling(num_slots=4096), trace=config) as runtime:
        await first_only(runtime)
    async with Replay(record_of(tmp_path)) as runtime:
        await first_only(runtime)
    assert texts[0] == texts[1]
    assert len(texts[0]) == 2


async def test_a_record_without_content_cannot_be_replayed(tmp_path: Path) -> None:
    async with recording(tmp_path, content=False) as runtime:
        await runtime.generate("Count:")
    with pytest.raises(InvalidRequest, match="without content"):
        async with Replay(record_of(tmp_path)):
            pytest.fail("it was opened")


async def test_a_run_without_a_model_cannot_be_replayed(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="live"):
        Replay(tmp_path / "x.sqlite", tools="never")  # pyright: ignore[reportArgumentType]
    with pytest.raises(InvalidRequest, match="no file"):
        async with Replay(tmp_path / "x.sqlite"):
            pytest.fail("it was opened")


CALL = '{"name":"price","arguments":{"what":"tea"}}'


def shop(calls: list[str], result: float | Exception = 2.5) -> Any:
    @tool
    def price(what: str) -> float:
        """The price of a thing."""
        calls.append(what)
        if isinstance(result, Exception):
            raise result
        return result

    return price


@program
async def buy(s: State, price: Any) -> tuple[Any, str]:
    s.user("What is the price?")
    [found] = await call_tools(s, [price])
    s.user("Sure?")
    return found.value, await s.gen(max_tokens=20)


def says(prompt: str) -> str:
    return "Quite." if prompt.endswith("Sure?\nassistant: ") else CALL


async def test_tools_answer_from_the_record_without_being_called(tmp_path: Path) -> None:
    calls: list[str] = []
    async with recording(tmp_path, says):
        assert await buy(shop(calls)) == (2.5, "Quite.")
    async with Replay(record_of(tmp_path)) as runtime:
        assert await buy(shop(calls, 99.0)) == (2.5, "Quite.")
        assert (runtime.answered, runtime.tools_answered, runtime.unasked) == (2, 1, [])
    assert calls == ["tea"]


async def test_live_tools_are_called_and_what_they_change_is_drift(tmp_path: Path) -> None:
    calls: list[str] = []
    async with recording(tmp_path, says):
        await buy(shop(calls))
    async with Replay(record_of(tmp_path), tools="live"):
        assert await buy(shop(calls)) == (2.5, "Quite.")
    with pytest.raises(ReplayDrift) as caught:
        async with Replay(record_of(tmp_path), tools="live"):
            await buy(shop(calls, 2.75))
    assert (caught.value.recorded, caught.value.asked) == ("5", "7")
    assert calls == ["tea", "tea", "tea"]


async def test_a_tool_that_failed_fails_with_the_same_words(tmp_path: Path) -> None:
    calls: list[str] = []
    async with recording(tmp_path, says):
        await buy(shop(calls, ValueError("sold out")))
    async with Replay(record_of(tmp_path)) as runtime:
        assert await buy(shop(calls)) == (None, "Quite.")
        assert runtime.unasked == []
    assert calls == ["tea"]


async def test_a_tool_call_that_was_not_recorded_is_drift(tmp_path: Path) -> None:
    async with recording(tmp_path, says):
        await buy(shop([]))
    async with Replay(record_of(tmp_path)) as runtime:
        assert runtime.recorded_tool("price", '{ "what": "tea" }') == "2.5"
        with pytest.raises(ReplayDrift, match=r'price\(\{"what":"milk"\}\) is called') as caught:
            runtime.recorded_tool("price", '{"what":"milk"}')
        assert caught.value.recorded == '{"what":"tea"}'
        with pytest.raises(ReplayDrift, match="never was"):
            runtime.recorded_tool("cost", "{}")
        runtime.drifts.clear()


async def test_a_failed_generation_fails_again(tmp_path: Path) -> None:
    async with recording(tmp_path) as runtime:
        with pytest.raises(DeadlineExceeded) as recorded:
            await runtime.generate("Count:", timeout=0)
    async with Replay(record_of(tmp_path)) as runtime:
        with pytest.raises(DeadlineExceeded) as again:
            await runtime.generate("Count:", timeout=60)
    assert str(again.value) == str(recorded.value)
