"""What is found out about a model, and what is refused by name."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch
import transformers
from torch import nn

from agentrt.errors import InvalidRequest, UnsupportedModel
from agentrt.runtime.model import Model
from agentrt.runtime.model.masks import IrregularMask, window_of
from tests.runtime.decoding import Driver, Sequence
from tests.runtime.model_zoo import build, config_of, eager_logits, plain


def layers_of(name: str, **changes: Any) -> Any:
    return Model.from_module(build(config_of(name, **changes)), name=name).layers


def refusal(module: Any) -> str:
    with pytest.raises(UnsupportedModel) as caught:
        Model.from_module(module, name="some-model")
    return str(caught.value)


def test_grouped_heads_and_scale() -> None:
    first, _ = layers_of("qwen3")
    assert (first.num_heads, first.num_kv_heads, first.head_dim, first.v_head_dim) == (4, 2, 16, 16)
    assert first.scale == pytest.approx(16**-0.5)
    assert (first.window, first.softcap, first.has_sinks) == (None, None, False)


def test_windows_softcap_and_sinks_differ_by_layer() -> None:
    assert [layer.window for layer in layers_of("mistral")] == [5, 5]
    assert [(a.window, a.softcap) for a in layers_of("gemma2")] == [(5, 3.0), (None, 3.0)]
    assert [(a.window, a.has_sinks) for a in layers_of("gpt_oss")] == [(5, True), (None, True)]


def test_a_window_as_long_as_the_context_is_no_window() -> None:
    assert [layer.window for layer in layers_of("mistral", sliding_window=64)] == [None, None]
    assert [layer.window for layer in layers_of("mistral", sliding_window=63)] == [63, 63]


def test_keys_and_values_of_different_sizes() -> None:
    config = transformers.DeepseekV3Config(
        vocab_size=101,
        hidden_size=32,
        intermediate_size=48,
        moe_intermediate_size=16,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=4,
        n_routed_experts=4,
        num_experts_per_tok=2,
        n_group=1,
        topk_group=1,
        q_lora_rank=16,
        kv_lora_rank=16,
        qk_rope_head_dim=8,
        qk_nope_head_dim=8,
        v_head_dim=12,
        max_position_embeddings=64,
        pad_token_id=0,
    )
    first, _ = Model.from_module(build(config), name="mla").layers
    assert (first.head_dim, first.v_head_dim) == (16, 12)


def test_spec() -> None:
    spec = Model.from_module(build(config_of("llama", eos_token_id=[2, 7])), name="tiny").spec
    assert (spec.name, spec.vocab_size, spec.context_length) == ("tiny", 101, 64)
    assert spec.eos_token_ids == {2, 7}
    assert spec.kv_bytes_per_token == 2 * 2 * (8 + 8) * 4  # layers, heads, K and V, float32


def test_context_ends_where_positions_would_depend_on_the_batch() -> None:
    rope = {"rope_type": "longrope", "rope_theta": 10000.0, "factor": 4.0}
    rope |= {"short_factor": [1.0] * 4, "long_factor": [4.0] * 4}
    rope |= {"original_max_position_embeddings": 16}
    config = config_of("llama", rope_parameters=rope)
    assert Model.from_module(build(config), name="stretched").spec.context_length == 16


def test_scaled_positions_that_never_switch_keep_the_whole_context() -> None:
    assert Model.from_module(build(config_of("llama3_rope")), name="x").spec.context_length == 64


def test_refuses_position_biases() -> None:
    config = transformers.BloomConfig(vocab_size=101, hidden_size=32, n_layer=2, n_head=4)
    assert "takes no position_ids" in refusal(build(config))


def test_refuses_recurrent_layers_by_their_type() -> None:
    config = transformers.Lfm2Config(
        vocab_size=101,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        layer_types=["conv", "full_attention"],
    )
    assert "layers of type conv" in refusal(build(config))


def test_refuses_two_way_attention() -> None:
    config = config_of("llama")
    config.is_causal = False
    message = refusal(build(config))
    assert "attention layer 1 is neither causal nor a sliding window" in message


def test_refuses_layers_that_do_not_call_the_interface() -> None:
    config = transformers.GPTNeoConfig(
        vocab_size=101,
        hidden_size=32,
        num_layers=2,
        num_heads=4,
        attention_types=[[["global", "local"], 1]],
        max_position_embeddings=64,
    )
    assert "no layer calls transformers' attention interface" in refusal(build(config))


def test_refuses_a_layer_that_attends_twice() -> None:
    config = transformers.DiffLlamaConfig(**config_of("llama").to_diff_dict())
    assert "called twice in one forward" in refusal(build(config))


class _Around(nn.Module):
    """Wraps a module's forward; the model around it does not notice."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner


class _TokenShift(_Around):
    def forward(self, x: torch.Tensor, **kwargs: Any) -> torch.Tensor:
        return self.inner(x + 0.5 * torch.roll(x, 1, dims=1), **kwargs)


def test_refuses_mixing_that_no_layer_declares() -> None:
    model = build(config_of("llama"))
    model.model.layers[1].mlp = _TokenShift(model.model.layers[1].mlp)
    message = refusal(model)
    assert "LlamaForCausalLM" in message
    assert "something other than the attention it declares" in message


def _pass_on(model: Any, **extra: Any) -> None:
    """Makes the first attention layer pass something more to the attention function."""
    inner = model.model.layers[0].self_attn.forward
    model.model.layers[0].self_attn.forward = lambda *a, **k: inner(*a, **k, **extra)


def test_refuses_unknown_arguments_of_the_attention_function() -> None:
    model = build(config_of("llama"))
    _pass_on(model, position_bias=torch.zeros(1, 4, 1, 1))
    assert "attention layer 0 passes 'position_bias' to attention" in refusal(model)


def test_arguments_that_ask_for_nothing_are_no_reason_to_refuse() -> None:
    model = build(config_of("llama"))
    _pass_on(model, position_bias=None, output_attentions=False, dropout_rate=0.0)
    assert len(Model.from_module(model, name="quiet").layers) == 2


def test_refuses_a_mask_of_the_models_own_making() -> None:
    model = build(config_of("llama"))
    inner = model.model.layers[1].self_attn.forward

    def forward(*args: Any, **kwargs: Any) -> Any:
        kwargs["attention_mask"] = torch.zeros(1, 1, 7, 7)
        return inner(*args, **kwargs)

    model.model.layers[1].self_attn.forward = forward
    assert "attention layer 1 attends under a mask of the model's own making" in refusal(model)


def test_mask_rules() -> None:
    assert window_of(lambda b, h, q, k: k <= q, 100) is None
    assert window_of(lambda b, h, q, k: (k <= q) & (k > q - 12), 100) == 12
    for irregular in (
        lambda b, h, q, k: k <= q + 1,  # looks one ahead
        lambda b, h, q, k: (k <= q) & (k // 8 == q // 8),  # chunks
        lambda b, h, q, k: (k <= q) & (k % 2 == 0),  # strides
        lambda b, h, q, k: (k <= q) & torch.ones(7, dtype=torch.bool)[k],  # reads data
    ):
        with pytest.raises(IrregularMask):
            window_of(irregular, 100)


def test_one_module_serves_one_model() -> None:
    module = build(config_of("llama"))
    Model.from_module(module, name="first")
    with pytest.raises(InvalidRequest, match="already serves another Model"):
        Model.from_module(module, name="second")


def test_forward_without_a_backend_is_an_error() -> None:
    model = Model.from_module(build(config_of("llama")), name="tiny")
    driver = Driver(model)
    layout = driver.layout((Sequence([1, 2, 3]), 3))
    model.detach()
    with pytest.raises(InvalidRequest, match="call attach first"):
        model.forward(layout, layout.positions)


def test_models_built_from_one_configuration_do_not_touch_each_other() -> None:
    config = config_of("llama")
    served, untouched = build(config), build(config)
    Model.from_module(served, name="served")
    tokens = [5, 6, 7, 8]
    torch.testing.assert_close(
        eager_logits(untouched, tokens), eager_logits(plain("llama"), tokens), atol=0, rtol=0
    )


def test_two_models_in_two_threads() -> None:
    names = ("gemma2", "gpt_oss")
    tokens = [(13 * i + 4) % 101 for i in range(24)]
    barrier = threading.Barrier(2)
    got: dict[str, torch.Tensor] = {}

    def run(name: str) -> None:
        barrier.wait()
        driver = Driver(Model.from_module(modules[name], name=name))
        sequence = Sequence(tokens)
        for _ in tokens:
            driver.step((sequence, 1))
        got[name] = sequence.all_logits()

    # Built here, since weights are drawn from a generator that all threads share.
    modules = {name: build(config_of(name)) for name in names}
    threads = [threading.Thread(target=run, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for name in names:
        wanted = eager_logits(plain(name), tokens)
        torch.testing.assert_close(got[name], wanted, atol=1e-4, rtol=0)
