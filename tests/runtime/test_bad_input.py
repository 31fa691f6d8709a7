"""Whatever a call is given, it is refused by name where it was made, and nobody else notices."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

from agentrt.errors import InvalidRequest, ModelNotFound
from agentrt.generation import SamplingParams
from agentrt.messages import Message
from agentrt.runtime.batch import SampleRow
from agentrt.runtime.models import resolve
from agentrt.runtime.runtime import Runtime
from agentrt.runtime.sampler import sample
from agentrt.testing import ScriptedModel
from tests.runtime.serving import settled

if TYPE_CHECKING:
    from pathlib import Path

NO_PROMPTS: dict[str, Any] = {
    "nothing": None,
    "a number": 5,
    "bytes": b"abc",
    "a view of bytes": memoryview(b"abc"),
    "a set of ids": {1, 2},
    "a mapping from ids": {1: "a"},
    "a table of ids": np.array([[1, 2], [3, 4]]),
    "an array without dimensions": np.array(3),
    "floats": np.array([1.0, 2.0]),
    "truth values": [True],
    "texts": ["a", "b"],
    "ids and messages": [Message("user", "x"), 1],
    "one message": Message("user", "x"),
    "a lone surrogate": "a\ud800b",
    "a lone surrogate in a message": [Message("user", "\ud800")],
    "a message without content": [Message("user", None)],  # pyright: ignore[reportArgumentType]
    "a message without a role": [Message(None, "x")],  # pyright: ignore[reportArgumentType]
    "content in parts": [Message("user", [{"text": "x"}])],  # pyright: ignore[reportArgumentType]
    "an id beyond any integer type": [10**30],
    "an id below zero": [0, -1],
}

NO_OPTIONS: list[dict[str, Any]] = [
    {"priority": "high"},
    {"priority": None},
    {"priority": 1.5},
    {"priority": math.nan},
    {"priority": 10**40},
    {"priority": -(2**63)},
    {"timeout": "5"},
    {"timeout": -math.inf},
    {"timeout": math.nan},
    {"timeout": 10**400},
    {"namespace": None},
    {"namespace": 5},
    {"namespace": ["a"]},
    {"namespace": "\udc80"},
    {"constraint": 5},
    {"constraint": "a+"},
    {"params": {"max_tokens": 2}},
    {"params": 5},
]


@pytest.mark.anyio
@pytest.mark.parametrize("what", NO_PROMPTS)
async def test_what_is_no_prompt_is_refused(what: str) -> None:
    prompt = NO_PROMPTS[what]
    async with Runtime(ScriptedModel.babbling()) as runtime:
        with pytest.raises(InvalidRequest):
            await runtime.generate(prompt, max_tokens=1)
        with pytest.raises(InvalidRequest):
            await runtime.select(prompt, ["a", "b"])
        with pytest.raises(InvalidRequest):
            async with runtime.stream(prompt):
                pass
        with pytest.raises(InvalidRequest):
            async with runtime.pinned(prompt):
                pass
        await settled(runtime)


@pytest.mark.anyio
@pytest.mark.parametrize("options", NO_OPTIONS, ids=str)
async def test_an_option_that_makes_no_sense_is_refused_before_it_reaches_the_engine(
    options: dict[str, Any],
) -> None:
    async with Runtime(ScriptedModel.babbling()) as runtime:
        with pytest.raises(InvalidRequest, match=next(iter(options))):
            await runtime.generate("hello", **options)
        with pytest.raises(InvalidRequest, match=next(iter(options))):
            runtime.stream("hello", **options)
        assert (await runtime.generate("hello", max_tokens=1)).usage.output_tokens == 1
        await settled(runtime)


@pytest.mark.anyio
@pytest.mark.parametrize("n", [0, -1, 1.5, "2", None])
async def test_a_count_that_is_none_is_refused(n: Any) -> None:
    async with Runtime(ScriptedModel.babbling()) as runtime:
        with pytest.raises(InvalidRequest, match="n="):
            await runtime.generate_n("hello", n, max_tokens=1)
        assert len(await runtime.generate_n("hello", np.int64(2), max_tokens=1)) == 2  # pyright: ignore[reportArgumentType]


@pytest.mark.anyio
@pytest.mark.parametrize(
    "choices", [None, 5, "ab", b"ab", {"a", "b"}, {"a": 1}, [], iter(()), [1], ["\ud800"]], ids=repr
)
async def test_what_are_no_choices_is_refused(choices: Any) -> None:
    async with Runtime(ScriptedModel.babbling()) as runtime:
        with pytest.raises(InvalidRequest):
            await runtime.select("hello", choices)


@pytest.mark.anyio
async def test_choices_may_come_from_an_array_or_an_iterator() -> None:
    async with Runtime(ScriptedModel.babbling()) as runtime:
        wanted = (await runtime.select("hello", ["a", "b"])).choices
        for choices in (np.array(["a", "b"]), iter(["a", "b"])):
            given: Any = choices
            assert (await runtime.select("hello", given)).choices == wanted


@pytest.mark.parametrize("model", [5, b"x", ScriptedModel])
def test_what_is_no_model_is_refused(model: Any) -> None:
    from agentrt.runtime.assembly import open_model

    with pytest.raises(InvalidRequest, match="is no model"):
        open_model(model, Runtime().config)


@pytest.mark.parametrize("config", [5, {}, "fast"])
def test_what_is_no_config_is_refused(config: Any) -> None:
    with pytest.raises(InvalidRequest, match="RuntimeConfig"):
        Runtime(config=config)
    with pytest.raises(InvalidRequest, match="max_passed_over"):
        Runtime(max_passed_over=0)


@pytest.mark.parametrize("name", ["x" * 5000, "~nobody-of-that-name/model", "\0", "a/b/c"])
def test_a_name_that_no_file_can_have_is_no_model(name: str) -> None:
    with pytest.raises(ModelNotFound):
        resolve(name)


def test_a_folder_that_may_not_be_read_is_no_model(tmp_path: Path) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    with pytest.raises(ModelNotFound):
        resolve(loop / "model")


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("penalty", [5e-324, 1e308])
def test_a_penalty_beyond_float32_fails_its_row_and_warns_nobody(penalty: float) -> None:
    params = SamplingParams(repetition_penalty=penalty)
    logits = torch.tensor([[0.0, 1.0, -1.0, 0.5]])
    rows = [SampleRow(0, params, 0, position=4, prompt=[0, 1, 2])]
    (sampled,) = sample(logits, rows)
    assert sampled.error is None or "float32" in sampled.error
