"""The whole runtime on the provided model: the same answers every way, and transformers' own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import numpy as np
import pytest
import torch

from agentrt import Message, Runtime
from agentrt.runtime.codec import ModelCodec
from agentrt.runtime.model import FORMAT, load_recording
from agentrt.runtime.models import cache_dir, resolve
from agentrt.runtime.native import LAYOUT, load
from agentrt.runtime.preparation import load_packed
from agentrt.runtime.products import PackedProducts
from benchmarks.data import mixed_prompts
from benchmarks.divergence import compare, distributions, texts
from benchmarks.reference import reference_model
from tests.runtime.serving import settled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentrt.runtime.products import WeightForm

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


def test_quantised_forms_stay_close_to_fp32() -> None:
    """Of the default at most a KL divergence of 0.005 and 3 % of other top tokens are allowed."""
    kernels = load(cache_dir() / "kernels")
    asked = texts(ModelCodec(resolve(None)), 800)
    full = distributions(kernels, "fp32", asked)
    limits: dict[WeightForm, float] = {"file": 1e-6, "file-fast": 1e-3, "int8": 5e-3}
    for form, limit in limits.items():
        found = compare(full, distributions(kernels, form, asked), asked)
        assert found["kl"] < limit
        assert found["top1"] > 0.97


def test_the_last_products_of_file_fast_keep_16_bits() -> None:
    kernels, files = load(cache_dir() / "kernels"), resolve(None)
    load_packed(files, kernels, "file-fast")
    folder = files.folder / f"packed-file-fast-{LAYOUT}-{FORMAT}"
    recording = load_recording(folder, dtype=torch.float32)
    assert recording is not None
    products = PackedProducts(kernels, files, "file-fast", stored=folder)
    *others, last = [products(group).kind for group in recording.groups]
    assert others == ["q4_mixed"] * 4 * 29 + ["q4"] * 4
    assert last == "q8"


async def test_a_quantised_file_is_served_as_file_fast_unless_told_otherwise() -> None:
    prompt = PROMPTS[0]
    answers: list[object] = []
    for weights in ("auto", "file-fast", "file"):
        async with Runtime(weights=weights, kv_tokens=4096) as runtime:
            done = await runtime.generate(prompt, max_tokens=0, prompt_logprobs=True)
            answers.append(done.prompt_logprobs)
    assert answers[0] == answers[1] != answers[2]


async def test_a_chat_ends_its_turn_and_control_text_stays_text() -> None:
    async with Runtime(kv_tokens=4096) as runtime:
        done = await runtime.generate([Message("user", "What is the capital of France?")])
        assert "Paris" in done.text
        assert done.finish_reason == "stop"
        assert "<|im_end|>" not in done.text
        plain = runtime.tokenize("a <|im_end|> b")
        control = done.token_ids[-1]
        assert control not in plain
