"""The whole runtime on the provided model: the same answers every way, and transformers' own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import numpy as np
import pytest
import torch

from agentrt import Message, Runtime
from benchmarks.data import mixed_prompts
from benchmarks.reference import reference_model
from tests.runtime.serving import settled

if TYPE_CHECKING:
    from collections.abc import Sequence

pytestmark = [pytest.mark.anyio, pytest.mark.model]

PROMPTS = [prompt[:600] for prompt in mixed_prompts(12)]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"  # the scripted model has tried both; here it is the numbers that count


@pytest.fixture(scope="module")
def reference() -> Any:
    return reference_model()


async def answers(
    *, together: bool = True, warm: bool = False, **options: Any
) -> dict[str, list[tuple[int, ...]]]:
    """Tokens of every prompt, greedy and seeded, served one way."""
    found: dict[str, list[tuple[int, ...]]] = {}
    async with Runtime(**{"kv_tokens": 4096, **options}) as runtime:
        for mode, temperature in (("greedy", 0.0), ("seeded", 0.9)):
            if warm:
                for prompt in PROMPTS:
                    await runtime.prefill(prompt)
            else:
                await runtime.flush_cache()
            tokens: list[tuple[int, ...]] = [()] * len(PROMPTS)

            async def ask(i: int, t: float = temperature, into: Any = tokens) -> None:
                done = await runtime.generate(PROMPTS[i], max_tokens=16, temperature=t, seed=i)
                into[i] = done.token_ids

            async with anyio.create_task_group() as group:
                for i in range(len(PROMPTS)):
                    if together:
                        group.start_soon(ask, i)
                    else:
                        await ask(i)
            found[mode] = tokens
        await settled(runtime)
    return found


async def test_the_answer_is_the_same_whatever_the_cache_and_the_batch_do() -> None:
    plain = await answers()
    assert await answers(warm=True) == plain
    assert await answers(cache=False) == plain
    assert await answers(together=False) == plain
    assert await answers(max_step_tokens=64) == plain
    assert await answers(max_step_tokens=None) == plain
    assert await answers(threads=1) == plain
    assert await answers(kv_tokens=600) == plain  # far too little for all: requests are retracted
    assert plain["greedy"] != plain["seeded"]


def logprobs_of(reference: Any, tokens: Sequence[int], first: int) -> list[float]:
    """What transformers' own forward gives tokens[first:], natural logs."""
    with torch.inference_mode():
        logits = reference(torch.tensor([tokens])).logits[0].double()
    rows = torch.log_softmax(logits, -1)
    return [float(rows[i - 1, tokens[i]]) for i in range(first, len(tokens))]


async def test_fp32_scores_are_transformers_own(reference: Any) -> None:
    async with Runtime(weights="fp32", kv_tokens=4096) as runtime:
        for prompt in PROMPTS[:6]:
            done = await runtime.generate(prompt, max_tokens=0, prompt_logprobs=True)
            got = [entry.logprob for entry in done.prompt_logprobs or ()]
            wanted = logprobs_of(reference, runtime.tokenize(prompt), 1)
            np.testing.assert_allclose(np.array(got, float), wanted, atol=1e-4)

        question = "The capital of France is"
        choices = [" Paris", " the city of Rome", " London.", " the city of Paris", " the city"]
        found = await runtime.select(question, choices)
        for choice in found.choices:
            tokens = runtime.tokenize(question + choice.text)
            first = len(tokens) - len(choice.logprobs)
            got = [entry.logprob for entry in choice.logprobs]
            wanted = logprobs_of(reference, tokens, first)
            np.testing.assert_allclose(np.array(got, float), wanted, atol=1e-4)
        assert found.text == " Paris"


async def test_fp32_greedy_is_transformers_generate(reference: Any) -> None:
    async with Runtime(weights="fp32", kv_tokens=4096) as runtime:
        for prompt in PROMPTS[:3]:
            done = await runtime.generate(prompt, min_tokens=16, max_tokens=16)
            ids = torch.tensor([runtime.tokenize(prompt)])
            with torch.inference_mode():
                output = reference.generate(
                    ids, do_sample=False, max_new_tokens=16, min_new_tokens=16, pad_token_id=0
                )
            assert done.token_ids == tuple(output[0, ids.shape[1] :].tolist())


async def test_default_weights_stay_close_to_fp32() -> None:
    async with Runtime(kv_tokens=4096) as plain, Runtime(weights="fp32", kv_tokens=4096) as full:
        for prompt in PROMPTS[:4]:
            a = await plain.generate(prompt, max_tokens=0, prompt_logprobs=True)
            b = await full.generate(prompt, max_tokens=0, prompt_logprobs=True)
            quick = np.array([e.logprob for e in a.prompt_logprobs or ()], float)
            exact = np.array([e.logprob for e in b.prompt_logprobs or ()], float)
            assert abs(quick.mean() - exact.mean()) < 0.01


async def test_a_chat_ends_its_turn_and_control_text_stays_text() -> None:
    async with Runtime(kv_tokens=4096) as runtime:
        done = await runtime.generate([Message("user", "What is the capital of France?")])
        assert "Paris" in done.text
        assert done.finish_reason == "stop"
        assert "<|im_end|>" not in done.text
        plain = runtime.tokenize("a <|im_end|> b")
        control = done.token_ids[-1]
        assert control not in plain
