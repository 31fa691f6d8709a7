"""Linear layers become as few products as they have inputs, whatever they are called."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from agentrt.runtime.model import Model
from agentrt.runtime.model.linears import LinearGroup, Product, SharedProduct
from tests.runtime.decoding import Driver, Sequence
from tests.runtime.model_zoo import ARCHITECTURES, build, config_of, eager_logits, plain


class Recording:
    """A plain torch factory: one matrix product per group, of which it keeps count."""

    def __init__(self) -> None:
        self.groups: list[tuple[str, ...]] = []
        self.calls: list[str] = []

    def __call__(self, group: LinearGroup) -> Product:
        self.groups.append(group.names)
        weight, bias, key = torch.cat(list(group.weights)), group.bias, group.key

        def product(x: torch.Tensor) -> torch.Tensor:
            self.calls.append(key)
            return nn.functional.linear(x, weight, bias)

        return product


@pytest.mark.parametrize("name", list(ARCHITECTURES))
def test_fused_models_give_the_same_logits(name: str) -> None:
    model = Model.from_module(build(config_of(name)), name=name, products=Recording())
    driver, sequence = Driver(model), Sequence([(17 * i + 3) % 101 for i in range(16)])
    for count in (10, 1, 5):
        driver.step((sequence, count))
    wanted = eager_logits(plain(name), sequence.tokens)
    torch.testing.assert_close(sequence.all_logits(), wanted, atol=1e-4, rtol=0)


def test_what_shares_an_input_is_one_product() -> None:
    factory = Recording()
    Model.from_module(build(config_of("llama")), name="llama", products=factory)
    layer = "model.layers.0."
    assert factory.groups[:4] == [
        (f"{layer}self_attn.q_proj", f"{layer}self_attn.k_proj", f"{layer}self_attn.v_proj"),
        (f"{layer}self_attn.o_proj",),
        (f"{layer}mlp.gate_proj", f"{layer}mlp.up_proj"),
        (f"{layer}mlp.down_proj",),
    ]
    assert factory.groups[-1] == ("lm_head",)
    assert len(factory.groups) == 9


def test_a_step_computes_each_product_once() -> None:
    factory = Recording()
    driver = Driver(Model.from_module(build(config_of("llama")), name="x", products=factory))
    factory.calls.clear()
    driver.step((Sequence([3, 1, 4, 1, 5]), 5))
    assert factory.calls == ["+".join(names) for names in factory.groups]


def test_no_weight_is_kept_beside_its_product() -> None:
    module = build(config_of("llama", tie_word_embeddings=True))
    Model.from_module(module, name="x", products=Recording())
    left = {name for name, _ in module.named_parameters()}
    assert "model.embed_tokens.weight" in left
    assert not [name for name in left if "proj" in name or "lm_head" in name]


def shared_pair() -> tuple[SharedProduct, list[torch.Tensor], list[int]]:
    generator = torch.Generator().manual_seed(0)
    weights = [torch.randn(rows, 4, generator=generator) for rows in (3, 2)]
    shared = SharedProduct(LinearGroup(("a", "b"), tuple(weights)))
    plain_product, calls = shared.product, [0]

    def counted(x: torch.Tensor) -> torch.Tensor:
        calls[0] += 1
        return plain_product(x)

    shared.product = counted
    return shared, weights, calls


def test_a_result_is_only_given_out_for_the_tensor_it_is_of() -> None:
    shared, weights, calls = shared_pair()
    x = torch.ones(1, 2, 4)
    twin = x.clone()
    first, other = shared(x), shared(twin * 3)
    assert calls == [2]
    torch.testing.assert_close(first, nn.functional.linear(x, torch.cat(weights)))
    torch.testing.assert_close(other, 3 * first)


def test_members_called_out_of_turn_stay_right() -> None:
    shared, weights, calls = shared_pair()
    x, y = torch.ones(2, 4), torch.full((2, 4), 2.0)
    results = [shared(t) for t in (x, y, x, x, y, y, y)]
    for t, result in zip((x, y, x, x, y, y, y), results, strict=True):
        torch.testing.assert_close(result, t @ torch.cat(weights).T)
    assert calls[0] < len(results)


def test_subclasses_of_linear_are_left_alone() -> None:
    class Doubled(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return 2 * super().forward(x)

    def with_doubled() -> Any:
        module = build(config_of("llama"))
        inner = module.model.layers[0].mlp.down_proj
        module.model.layers[0].mlp.down_proj = doubled = Doubled(48, 32, bias=False)
        doubled.weight.data = inner.weight.data
        return module

    factory = Recording()
    model = Model.from_module(with_doubled(), name="x", products=factory)
    assert ("model.layers.0.mlp.down_proj",) not in factory.groups
    driver, sequence = Driver(model), Sequence([3, 1, 4, 1, 5])
    driver.step((sequence, 5))
    wanted = eager_logits(with_doubled(), sequence.tokens)
    torch.testing.assert_close(sequence.all_logits(), wanted, atol=1e-4, rtol=0)
