"""The real FlashInfer against TorchAttention, on a CUDA device."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch

from agentrt.runtime.attention import flashinfer_plan as fp
from agentrt.runtime.attention.base import KVCache
from agentrt.runtime.attention.choose import choose_backend
from agentrt.runtime.attention.flashinfer import FlashInferAttention
from agentrt.runtime.attention.graphs import DecodeGraphs
from agentrt.runtime.attention.reference import TorchAttention
from tests.runtime.attention.cases import Seq, World, build, expected, layer, random_layout, world

if TYPE_CHECKING:
    from agentrt.runtime.attention.base import AttentionBackend, LayerAttention
    from agentrt.runtime.batch import Layout

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
    pytest.mark.skipif(
        importlib.util.find_spec("flashinfer") is None, reason="flashinfer is not installed"
    ),
]

DEVICE = torch.device("cuda")
FEATURES = {
    "plain": {},
    "window": {"window": 9},
    "softcap": {"softcap": 5.0},
    "sinks": {"has_sinks": True},
    "everything": {"window": 11, "softcap": 3.0, "has_sinks": True},
    "wide heads": {"head_dim": 128, "v_head_dim": 128},
    "many heads a KV head": {"num_heads": 24, "num_kv_heads": 1},
}
# Probabilities are rounded to the model's dtype before they meet V, and so is the answer.
CLOSE = {
    torch.float16: {"rtol": 2e-3, "atol": 4e-3},
    torch.bfloat16: {"rtol": 2e-2, "atol": 3e-2},
}


def spec(**changes: object) -> LayerAttention:
    sizes = {"num_heads": 8, "num_kv_heads": 2, "head_dim": 64, "v_head_dim": 64, "scale": 0.125}
    return layer(**{**sizes, **changes})


def on_device(spec: LayerAttention, layout: Layout, dtype: torch.dtype, seed: int = 0) -> World:
    return world(spec, layout, dtype=dtype, device=DEVICE, seed=seed)


@pytest.mark.parametrize("dtype", CLOSE, ids=str)
@pytest.mark.parametrize("features", FEATURES.values(), ids=FEATURES.keys())
@pytest.mark.parametrize("decode", [False, True], ids=["mixed", "decode"])
@pytest.mark.parametrize("groups", [False, True], ids=["alone", "groups"])
def test_equals_the_reference(
    dtype: torch.dtype, features: dict[str, object], decode: bool, groups: bool
) -> None:
    for seed in range(3):
        layout = random_layout(seed, decode=decode, groups=groups)
        w = on_device(spec(**features), layout, dtype, seed)
        want = w.run(TorchAttention(w.cache))
        got = w.run(FlashInferAttention(w.cache))
        torch.testing.assert_close(got, want, **CLOSE[dtype])


@pytest.mark.parametrize("dtype", CLOSE, ids=str)
def test_long_rows_are_split_and_equal_the_reference(dtype: torch.dtype) -> None:
    layout = build([Seq(1, fp.LONG + 700), Seq(3, fp.LONG), Seq(1, 50), Seq(700, 900)])
    w = on_device(spec(), layout, dtype)
    want = w.run(TorchAttention(w.cache))
    torch.testing.assert_close(w.run(FlashInferAttention(w.cache)), want, **CLOSE[dtype])


def test_the_reference_itself_is_right_on_this_device() -> None:
    w = on_device(spec(softcap=5.0, has_sinks=True), random_layout(2, groups=True), torch.float32)
    want = expected(w)
    torch.testing.assert_close(w.run(TorchAttention(w.cache)), want.float(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "row", [Seq(1, 200), Seq(1, fp.LONG + 900), Seq(3, 90), Seq(12, 90), Seq(90, 300)], ids=str
)
def test_a_sequence_gets_the_same_bits_whatever_else_is_in_the_batch(row: Seq) -> None:
    others = [Seq(1, 30), Seq(1, fp.LONG + 3), Seq(2, 7), Seq(11, 50), Seq(300, 0), Seq(1, 1)]
    w = on_device(spec(), build([row, *others]), torch.bfloat16)
    backend = FlashInferAttention(w.cache)
    together = w.run(backend)[: row.new]
    alone = build([row])._replace(
        out_slots=w.layout.out_slots[: row.new],
        kv_slots=w.layout.kv_slots[: row.new + row.old],
    )
    backend.plan(alone)
    by_itself = backend.run(0, w.q[: row.new], w.k[: row.new], w.v[: row.new])
    assert torch.equal(together, by_itself)


def test_a_repeated_batch_gets_the_same_bits() -> None:
    w = on_device(spec(), random_layout(1, groups=True), torch.bfloat16)
    backend = FlashInferAttention(w.cache)
    assert torch.equal(w.run(backend), w.run(backend))


class Decoder:
    """One layer of attention on made-up embeddings."""

    def __init__(self, attention: AttentionBackend) -> None:
        generator = torch.Generator().manual_seed(0)
        self.attention = attention
        self.embedding = torch.randn(50, 12, 64, generator=generator).to(DEVICE, torch.bfloat16)

    def __call__(self, token_ids: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        hidden = self.embedding[token_ids] * torch.cos(positions)[:, None, None].bfloat16()
        q, k, v = hidden.split([8, 2, 2], dim=1)
        return self.attention.run(0, q, k, v).flatten(1)


def test_captured_decoding_gets_the_bits_of_the_usual_path() -> None:
    rng = np.random.default_rng(0)
    cache = KVCache([spec()], num_slots=4000, dtype=torch.bfloat16, device=DEVICE)
    cache.k[0].normal_()
    cache.v[0].normal_()
    attention = FlashInferAttention(cache)
    decoder = Decoder(attention)
    graphs = DecodeGraphs(attention, decoder, device=DEVICE)
    with torch.inference_mode():
        for seed, count in enumerate([3, 1, 4, 3, 7, 2]):
            seqs = [Seq(1, int(n)) for n in rng.integers(0, 500, count)]
            layout = build(seqs, seed=seed)._replace(token_ids=rng.integers(0, 50, count))
            replayed = graphs.run(layout)
            assert replayed is not None
            replayed = replayed.clone()
            attention.plan(layout)
            usual = decoder(
                torch.from_numpy(layout.token_ids).to(DEVICE),
                torch.from_numpy(layout.positions).to(DEVICE),
            )
            assert torch.equal(replayed, usual)
    assert repr(graphs) == "<DecodeGraphs [1, 2, 4, 8]>"


def test_it_is_the_one_chosen() -> None:
    cache = KVCache([spec()], num_slots=1, dtype=torch.bfloat16, device=DEVICE)
    assert isinstance(choose_backend(DEVICE, [spec()], cache), FlashInferAttention)
