"""What a generation is: its text, its counts, its order, whatever it shares the engine with."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

import anyio
import pytest

from agentrt.errors import (
    DeadlineExceeded,
    EngineFailed,
    GenerationFailed,
    InvalidRequest,
    PromptTooLong,
)
from agentrt.generation import FinishReason, SamplingParams
from agentrt.messages import Message
from agentrt.runtime.runtime import Runtime
from agentrt.testing import EOS, ScriptedModel
from tests.runtime.serving import LONG, Gate, settled

if TYPE_CHECKING:
    from agentrt.runtime.batch import Batch

pytestmark = pytest.mark.anyio


async def test_a_reply_ends_by_itself() -> None:
    async with Runtime(ScriptedModel.replying({"6 x 7?": "42"})) as runtime:
        done = await runtime.generate("6 x 7?")
        assert (done.text, done.finish_reason, done.stopped_by) == ("42", FinishReason.STOP, EOS)
        assert (done.usage.prompt_tokens, done.usage.sampled_tokens) == (6, 3)
        assert done.seed is None
        await settled(runtime)


async def test_chunks_add_up_to_the_completion() -> None:
    reply = "caffè ☕ and more"
    async with Runtime(ScriptedModel.replying(reply)) as runtime:
        async with runtime.stream("order") as stream:
            chunks = [chunk async for chunk in stream]
        assert "".join(chunk.text for chunk in chunks) == stream.completion.text == reply
        ids = [token for chunk in chunks for token in chunk.token_ids]
        assert tuple(ids) == stream.completion.token_ids
        assert all("�" not in chunk.text for chunk in chunks)


async def test_a_stop_string_is_never_streamed() -> None:
    async with Runtime(ScriptedModel.replying("one, two. END three")) as runtime:
        async with runtime.stream("count", stop=[" END", ". E"]) as stream:
            text = "".join([chunk.text async for chunk in stream])
        done = stream.completion
        assert text == done.text == "one, two"
        assert done.stopped_by == ". E"


async def test_what_is_shared_is_computed_once() -> None:
    model = ScriptedModel.babbling()
    prefix = "a shared prefix of forty characters....."
    async with Runtime(model, max_step_tokens=16) as runtime:
        done: list[int] = []

        async def branch(i: int) -> None:
            completion = await runtime.generate(f"{prefix}{i}", max_tokens=1)
            done.append(completion.usage.computed_tokens)

        async with anyio.create_task_group() as group:
            for i in range(8):
                group.start_soon(branch, i)
        assert sum(model.steps) == len(prefix) + 8
        assert sorted(done) == [1] * 7 + [len(prefix) + 1]
        await settled(runtime)


async def test_a_prompt_without_a_scripted_reply_is_said_with_those_that_have_one() -> None:
    async with Runtime(ScriptedModel.replying({"6 x 7?": "42"})) as runtime:
        with pytest.raises(
            EngineFailed, match=r"no reply is scripted for the prompt '6 x 8\?'"
        ) as no:
            await runtime.generate("6 x 8?")
        assert "there are: '6 x 7?'" in str(no.value)


async def test_equal_prompts_get_equal_answers_whatever_the_pool_does() -> None:
    async def answers(**options: object) -> list[str]:
        async with Runtime(ScriptedModel.babbling(), **options) as runtime:
            texts = [""] * 60

            async def ask(i: int) -> None:
                done = await runtime.generate(f"question {i % 20}", max_tokens=5 + i % 7)
                texts[i] = done.text

            async with anyio.create_task_group() as group:
                for i in range(60):
                    group.start_soon(ask, i)
            await settled(runtime)
            return texts

    plain = await answers()
    assert await answers(kv_tokens=64) == plain
    assert await answers(cache=False) == plain
    assert await answers(max_step_tokens=3) == plain
    assert await answers(max_step_tokens=None, policy="fcfs") == plain
    assert await answers(policy="dfs-weight", max_running=2) == plain


async def test_without_the_cache_nothing_is_reused() -> None:
    model = ScriptedModel.babbling()
    async with Runtime(model, cache=False) as runtime:
        for _ in range(3):
            done = await runtime.generate("the same again", max_tokens=2)
            assert done.usage.cached_tokens == 0
        assert runtime.stats().slots_cached == 0
        await settled(runtime)


async def test_namespaces_never_share() -> None:
    async with Runtime(ScriptedModel.babbling()) as runtime:
        await runtime.generate("a secret prompt", max_tokens=1, namespace="one")
        other = await runtime.generate("a secret prompt", max_tokens=1, namespace="two")
        same = await runtime.generate("a secret prompt", max_tokens=1, namespace="one")
        assert (other.usage.cached_tokens, same.usage.cached_tokens) == (0, 14)


async def test_a_pinned_prompt_stays_while_others_are_evicted() -> None:
    async with Runtime(ScriptedModel.babbling(num_slots=64)) as runtime:
        async with runtime.pinned("keep these twenty tk"):
            for i in range(20):
                await runtime.generate(f"{i} something else", max_tokens=20)
            again = await runtime.generate("keep these twenty tk!", max_tokens=1)
            assert again.usage.cached_tokens == 20
        for i in range(20):
            await runtime.generate(f"{i} something else", max_tokens=40)
        gone = await runtime.generate("keep these twenty tk!", max_tokens=1)
        assert gone.usage.cached_tokens == 0
        await settled(runtime)


async def test_what_pins_leave_no_room_for_fails_by_what_they_hold() -> None:
    """At once: the one who pinned may be the one who waits, so waiting could last for ever."""
    async with Runtime(ScriptedModel.babbling(num_slots=64)) as runtime:
        async with runtime.pinned("a" * 20), runtime.pinned("b" * 20):
            with pytest.raises(GenerationFailed, match="hold 40 of the KV pool's 64 slots"):
                await runtime.generate("c" * 20, max_tokens=20)
            assert (await runtime.generate("c" * 20, max_tokens=4)).usage.output_tokens == 4
        assert (await runtime.generate("c" * 20, max_tokens=20)).usage.output_tokens == 20
        await settled(runtime)


async def test_with_a_timeout_a_request_waits_for_pins_to_be_let_go() -> None:
    async with Runtime(ScriptedModel.babbling(num_slots=64)) as runtime:
        lengths: list[int] = []

        async def ask(timeout: float) -> None:
            done = await runtime.generate("c" * 20, max_tokens=20, timeout=timeout)
            lengths.append(done.usage.output_tokens)

        async with (
            anyio.create_task_group() as group,
            runtime.pinned("a" * 20),
            runtime.pinned("b" * 20),
        ):
            for timeout in (LONG, math.inf):
                group.start_soon(ask, timeout)
            await anyio.wait_all_tasks_blocked()
            # Nobody is in its way meanwhile, and it is in nobody's.
            assert (await runtime.generate("d", max_tokens=3)).usage.output_tokens == 3
            with pytest.raises(DeadlineExceeded):
                await runtime.generate("e" * 20, max_tokens=20, timeout=0.01)
            assert lengths == []
        assert lengths == [20, 20]
        await settled(runtime)


async def test_a_flush_forgets_everything_unused() -> None:
    async with Runtime(ScriptedModel.babbling()) as runtime:
        await runtime.generate("remember me", max_tokens=1)
        assert await runtime.flush_cache() == len("remember me")
        assert (await runtime.generate("remember me", max_tokens=1)).usage.cached_tokens == 0


async def test_higher_priorities_go_first() -> None:
    order: list[str] = []
    gate = Gate()

    def on_step(batch: Batch) -> None:
        gate(batch)
        starts = batch.layout.token_ids[batch.layout.positions == 0]
        order.extend(chr(token) for token in starts)

    async with (
        Runtime(ScriptedModel.replying("x", on_step=on_step), max_running=1) as runtime,
        anyio.create_task_group() as group,
    ):
        group.start_soon(runtime.generate, "first")
        await gate.reached()
        for prompt, priority in (("low", 1), ("high", 3), ("middle", 2)):
            group.start_soon(partial(runtime.generate, prompt, priority=priority))
        await anyio.wait_all_tasks_blocked()
        gate.open()
    assert order == ["f", "h", "m", "l"]


async def test_chats_are_rendered_by_the_model() -> None:
    async with Runtime(ScriptedModel.replying(lambda prompt: prompt)) as runtime:
        done = await runtime.generate([Message("system", "be brief"), Message("user", "hi")])
        assert done.text == "system: be brief\nuser: hi\nassistant: "


async def test_token_ids_are_a_prompt() -> None:
    async with Runtime(ScriptedModel.replying(lambda prompt: prompt.upper())) as runtime:
        assert (await runtime.generate(list(b"abc"))).text == "ABC"


async def test_n_generations_share_their_prompt_and_differ_in_seed() -> None:
    model = ScriptedModel.babbling()
    async with Runtime(model) as runtime:
        done = await runtime.generate_n("p" * 50, 4, max_tokens=2, temperature=1.0, seed=7)
        assert [completion.seed for completion in done] == [7, 8, 9, 10]
        assert sum(model.steps) == 50 + 3 + 4


async def test_max_tokens_zero_computes_the_prompt_alone() -> None:
    model = ScriptedModel.babbling()
    async with Runtime(model) as runtime:
        done = await runtime.prefill("just compute this")
        assert (done.text, done.finish_reason) == ("", FinishReason.LENGTH)
        assert sum(model.steps) == 17
        after = await runtime.generate("just compute this, please", max_tokens=1)
        assert after.usage.cached_tokens == 17


@pytest.mark.parametrize("prompt", ["", []])
async def test_an_empty_prompt_is_refused(prompt: str) -> None:
    async with Runtime(ScriptedModel.replying("x")) as runtime:
        with pytest.raises(InvalidRequest, match="empty"):
            await runtime.generate(prompt)


async def test_a_prompt_of_the_wrong_kind_is_refused_by_name() -> None:
    async with Runtime(ScriptedModel.replying("x")) as runtime:
        with pytest.raises(InvalidRequest, match="float"):
            await runtime.generate([1.5])  # pyright: ignore[reportArgumentType]
        with pytest.raises(InvalidRequest, match="NoneType"):
            await runtime.generate(None)  # pyright: ignore[reportArgumentType]
        with pytest.raises(InvalidRequest, match="bytes"):
            await runtime.generate(b"raw")  # pyright: ignore[reportArgumentType]


async def test_an_over_long_prompt_is_an_error_with_the_counts() -> None:
    async with Runtime(ScriptedModel.replying("x", context_length=100)) as runtime:
        with pytest.raises(PromptTooLong) as error:
            await runtime.generate("y" * 150)
        assert (error.value.prompt_tokens, error.value.limit_tokens) == (150, 100)


async def test_options_are_checked_before_anything_runs() -> None:
    async with Runtime(ScriptedModel.replying("x")) as runtime:
        with pytest.raises(InvalidRequest, match="top_p"):
            await runtime.generate("a", top_p=2.0)
        with pytest.raises(InvalidRequest, match="both"):
            await runtime.generate("a", SamplingParams(), max_tokens=2)
        with pytest.raises(InvalidRequest, match="timeout"):
            await runtime.generate("a", timeout=-1.0)
        with pytest.raises(InvalidRequest, match="n=0"):
            await runtime.generate_n("a", 0)
        with pytest.raises(InvalidRequest, match="stop"):
            await runtime.generate("a", stop=[""])
    with pytest.raises(InvalidRequest, match="policy"):
        Runtime(ScriptedModel.replying("x"), policy="random")


async def test_thousand_generations_through_a_pool_for_ten() -> None:
    async with Runtime(ScriptedModel.babbling(), kv_tokens=10 * 32) as runtime:
        texts: dict[int, str] = {}

        async def ask(i: int) -> None:
            texts[i] = (await runtime.generate(f"prompt {i % 250:05}", max_tokens=20)).text

        async with anyio.create_task_group() as group:
            for i in range(1000):
                group.start_soon(ask, i)
        assert len(texts) == 1000
        assert all(texts[i] == texts[i % 250] for i in range(1000))
        assert len(set(texts.values())) == 250
        assert all(len(text) == 20 for text in texts.values())
        await settled(runtime)
