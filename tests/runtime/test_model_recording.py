"""Recorded models give the bits of the eager ones, and fail to be recorded when they must."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

from agentrt.errors import ModelCorrupt
from agentrt.runtime.attention.native import NativeAttention
from agentrt.runtime.attention.reference import TorchAttention
from agentrt.runtime.model import Model, NotCapturable, record
from agentrt.runtime.model.graph import capture as capture_module
from agentrt.runtime.model.graph.kernels import TorchKernels
from agentrt.runtime.model.linears import LinearGroup, Product, separate_products
from agentrt.runtime.model.recording import Recording, load_recording
from agentrt.runtime.native import replay as replay_module
from agentrt.runtime.operators import NativeOperators
from tests.runtime.decoding import Driver, Sequence
from tests.runtime.model_zoo import ARCHITECTURES, build, config_of, eager_logits, plain

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from agentrt.runtime.attention.base import AttentionBackend, KVCache
    from agentrt.runtime.native import Kernels

CPU = torch.device("cpu")
TOKENS = [(7 * i * i + 3 * i + 5) % 101 for i in range(23)]


def loaded(folder: Path) -> Recording:
    recording = load_recording(folder, dtype=torch.float32)
    assert recording is not None
    return recording


_recordings: dict[str, Recording] = {}


def recording_of(name: str) -> Recording:
    if name not in _recordings:
        _recordings[name] = record(build(config_of(name)), name=name)
    return _recordings[name]


def decoded(
    model: Model, attention: Callable[[KVCache], AttentionBackend] = TorchAttention
) -> torch.Tensor:
    """Logits of a prompt in chunks, then token by token, beside another sequence."""
    driver = Driver(model, attention=attention)
    sequence, other = Sequence(TOKENS), Sequence(TOKENS[::-1])
    driver.step((other, 4))
    driver.step((sequence, 9), (other, 1))
    driver.step((sequence, 4), (other, 5))
    driver.step((sequence, 5))
    driver.step((sequence, 2))
    for _ in range(3):
        driver.step((sequence, 1))
    return sequence.all_logits()


def biases(group: LinearGroup) -> list[torch.Tensor] | None:
    if group.bias is None:
        return None
    return list(group.bias.split([len(weight) for weight in group.weights]))


@pytest.mark.parametrize("name", ["llama", "qwen2", "qwen3", "phi3", "gemma3", "mixtral"])
def test_lists_of_kernel_calls_change_no_bit(
    name: str, kernels: Kernels, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = recording_of(name).model(
        device=CPU,
        products=lambda group: kernels.pack_f32(group.weights, biases(group)),
        kernels=NativeOperators(kernels),
    )
    replays: list[int] = []
    replay = replay_module.CallList.replay
    monkeypatch.setattr(
        replay_module.CallList, "replay", lambda *a: replays.append(1) or replay(*a)
    )
    # Twice: each time into a new pool, of which the lists of the last one know nothing.
    attention = partial(NativeAttention, kernels)
    listed = [decoded(model, attention) for _ in range(2)]
    # The last two of five sizes, and the last two times of one token.
    assert len(replays) >= 2 * (2 + 2)
    monkeypatch.setattr(replay_module, "MOST_TOKENS", 0)
    called = decoded(model, attention)
    assert all(torch.equal(logits, called) for logits in listed)


@pytest.mark.parametrize("name", ["llama", "qwen2", "qwen3", "phi3", "gemma3", "mixtral"])
def test_the_last_layer_ends_for_the_wanted_rows_alone(name: str, kernels: Kernels) -> None:
    rows: dict[str, int] = {}

    def product(group: LinearGroup) -> Product:
        packed = kernels.pack_f32(group.weights, biases(group))

        def counted(x: torch.Tensor) -> torch.Tensor:
            rows[group.key] = x.numel() // x.shape[-1]
            return packed(x)

        return counted

    def logits(recording: Recording) -> torch.Tensor:
        native = NativeOperators(kernels)
        model = recording.model(device=CPU, products=product, kernels=native)
        driver = Driver(model, attention=partial(NativeAttention, kernels))
        layout = driver.layout((Sequence(TOKENS), 13), (Sequence(TOKENS[::-1]), 4))
        return model.forward(layout, np.array([12, 15], np.int64))

    recording = recording_of(name)
    early = logits(recording)
    few = {key for key, count in rows.items() if count == 2}
    assert set(rows.values()) == {2, 17}
    assert torch.equal(early, logits(replace(recording, early=recording.graph)))
    assert {key for key, count in rows.items() if count == 2} == {"lm_head"}
    # A mixture's experts are chosen in operations that do not say they are row by row.
    after_attention = () if name == "mixtral" else ("o_proj", "gate", "down_proj")
    assert few == {
        key
        for key in rows
        if key == "lm_head"
        or (".layers.1." in key and any(part in key for part in after_attention))
    }


@pytest.mark.parametrize("name", list(ARCHITECTURES))
def test_replay_gives_the_bits_of_the_eager_model(name: str) -> None:
    eager = decoded(Model.from_module(build(config_of(name)), name=name))
    replayed = decoded(recording_of(name).model(device=CPU))
    assert torch.equal(replayed, eager)
    wanted = eager_logits(plain(name), TOKENS)
    torch.testing.assert_close(replayed, wanted, atol=1e-4, rtol=0)


class InPlaceKernels(TorchKernels):
    """Rotates as a native kernel may: over the memory it is given."""

    def rotate(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        return x.copy_(super().rotate(x, cos, sin))


@pytest.mark.parametrize("name", list(ARCHITECTURES))
def test_rotating_in_place_disturbs_nothing(name: str) -> None:
    model = recording_of(name).model(device=CPU, kernels=InPlaceKernels())
    wanted = eager_logits(plain(name), TOKENS)
    torch.testing.assert_close(decoded(model), wanted, atol=1e-4, rtol=0)


@pytest.mark.parametrize("name", ["llama", "gemma3", "mixtral"])
def test_save_and_load(name: str, tmp_path: Path) -> None:
    recording_of(name).save(tmp_path)
    again = loaded(tmp_path)
    assert again.spec == recording_of(name).spec
    assert again.layers == recording_of(name).layers
    # Not to the bit: a matrix product may round by how its operands are aligned in memory.
    wanted = decoded(recording_of(name).model(device=CPU))
    torch.testing.assert_close(decoded(again.model(device=CPU)), wanted, atol=1e-5, rtol=0)


def test_half_precision_models_are_recorded_too() -> None:
    module = build(config_of("llama")).to(torch.bfloat16)
    model = record(module, name="half").model(device=CPU)
    again = build(config_of("llama")).to(torch.bfloat16)
    assert torch.equal(decoded(model), decoded(Model.from_module(again, name="half")))


def test_loading_and_running_import_no_transformers(tmp_path: Path) -> None:
    recording_of("llama").save(tmp_path)
    script = f"""
import sys, pathlib, torch
import agentrt.runtime.model as m
from tests.runtime.decoding import Driver, Sequence
recording = m.load_recording(pathlib.Path({str(tmp_path)!r}), dtype=torch.float32)
model = recording.model(device=torch.device("cpu"))
Driver(model).step((Sequence([1, 2, 3]), 3))
print("transformers" in sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"


def test_a_recording_for_other_circumstances_is_not_used(tmp_path: Path) -> None:
    recording_of("llama").save(tmp_path)
    assert load_recording(tmp_path, dtype=torch.float32) is not None
    assert load_recording(tmp_path, dtype=torch.bfloat16) is None
    file = tmp_path / "recording.json"
    data = json.loads(file.read_text())
    for key, value in (("version", 0), ("torch", "1.0")):
        file.write_text(json.dumps({**data, key: value}))
        assert load_recording(tmp_path, dtype=torch.float32) is None


@pytest.mark.parametrize("file", ["recording.json", "recording.safetensors"])
def test_a_damaged_recording_is_named(tmp_path: Path, file: str) -> None:
    recording_of("llama").save(tmp_path)
    whole = (tmp_path / file).read_bytes()
    (tmp_path / file).write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ModelCorrupt, match="is damaged"):
        load_recording(tmp_path, dtype=torch.float32)


def test_tied_weights_are_stored_once(tmp_path: Path) -> None:
    for tied in (True, False):
        folder = tmp_path / str(tied)
        folder.mkdir()
        record(build(config_of("llama", tie_word_embeddings=tied)), name="x").save(folder)
    sizes = {
        tied: (tmp_path / str(tied) / "recording.safetensors").stat().st_size
        for tied in (True, False)
    }
    assert sizes[False] - sizes[True] == pytest.approx(101 * 32 * 4, abs=200)
    model = loaded(tmp_path / "True").model(device=CPU)
    assert decoded(model).shape == (23, 101)


def test_products_may_keep_their_own_weights(tmp_path: Path) -> None:
    recording = recording_of("qwen2")
    recording.save(tmp_path, linear_weights=False)
    own = {group.key: separate_products(group) for group in recording.groups}

    def stored(group: LinearGroup) -> Product:
        assert group.weights == ()
        return own[group.key]

    model = loaded(tmp_path).model(device=CPU, products=stored)
    assert torch.equal(decoded(model), decoded(recording.model(device=CPU)))


def test_recordings_of_one_model_do_not_share_a_backend() -> None:
    first, second = (recording_of("llama").model(device=CPU) for _ in range(2))
    a, b = Driver(first, seed=1), Driver(second, seed=2)
    one, two = Sequence(TOKENS), Sequence(TOKENS)
    for _ in TOKENS:
        a.step((one, 1))
        b.step((two, 1))
    assert torch.equal(one.all_logits(), two.all_logits())


def refusal(module: Any) -> str:
    with pytest.raises(NotCapturable) as caught:
        record(module, name="x")
    return str(caught.value)


def around_mlp(change: Any) -> Any:
    """A Llama whose first MLP's output goes through `change`."""
    module = build(config_of("llama"))
    inner = module.model.layers[0].mlp.forward
    module.model.layers[0].mlp.forward = lambda x: change(inner(x))
    return module


def test_refuses_branches_on_values() -> None:
    module = around_mlp(lambda x: x * 2 if bool(x.sum() > 0) else x + x)
    assert "looks at the value of a tensor" in refusal(module)


def test_refuses_branches_on_the_number_of_tokens() -> None:
    module = around_mlp(lambda x: x + 0 if x.shape[1] > 10 else x + 0 + 0)
    assert "number of operations depends" in refusal(module)


def test_refuses_numbers_that_do_not_follow_the_sizes() -> None:
    module = around_mlp(lambda x: x * (1.0 + x.shape[1] ** 2 * 1e-9))
    assert "an operation is given" in refusal(module)


def test_refuses_tensors_made_from_the_number_of_tokens() -> None:
    module = around_mlp(lambda x: x + 0 * torch.tensor(x.shape[1]))
    assert "depends on the tokens" in refusal(module)


def test_refuses_state_that_outlives_a_step() -> None:
    rope = {"rope_type": "longrope", "rope_theta": 10000.0, "factor": 4.0}
    rope |= {"short_factor": [1.0] * 4, "long_factor": [4.0] * 4}
    rope |= {"original_max_position_embeddings": 16}
    module = build(config_of("llama", rope_parameters=rope))
    assert "it may write to model.rotary_emb.inv_freq" in refusal(module)


def test_refuses_a_replay_with_other_results() -> None:
    # A branch that none of the recorded sizes takes and one of the compared sizes does.
    module = around_mlp(lambda x: x * 1.00001 if x.shape[1] == 2 else x)
    assert "gives other logits" in refusal(module)


def test_kernels_that_round_otherwise_are_not_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    class Rounding(TorchKernels):
        def rms_norm(
            self, x: torch.Tensor, weight: torch.Tensor | None, eps: float
        ) -> torch.Tensor:
            return super().rms_norm(x, weight, eps * 1.5)

    monkeypatch.setattr(capture_module, "TorchKernels", Rounding)
    graph = record(build(config_of("llama")), name="x").graph
    assert not [node.op for node in graph.nodes if node.op.endswith("rms_norm")]


def test_in_place_operations_are_replayed_in_order() -> None:
    def messy(x: torch.Tensor) -> torch.Tensor:
        y = x * 1.0
        z = y.view(-1)
        before = z + 0.0
        y.add_(1.0).mul_(2.0)
        return z.view_as(x) - before.view_as(x)

    model = record(around_mlp(messy), name="x").model(device=CPU)
    eager = Model.from_module(around_mlp(messy), name="x")
    assert torch.equal(decoded(model), decoded(eager))


def test_eos_and_context_survive(tmp_path: Path) -> None:
    module = build(config_of("llama", eos_token_id=[2, 9]))
    record(module, name="tiny").save(tmp_path)
    spec = loaded(tmp_path).spec
    assert (spec.name, spec.context_length, spec.eos_token_ids) == ("tiny", 64, {2, 9})
