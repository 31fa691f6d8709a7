"""Captured decoding, with a capture that repeats the work on the CPU as a replayed graph would."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from agentrt.runtime.attention.base import KVCache
from agentrt.runtime.attention.flashinfer import FlashInferAttention
from agentrt.runtime.attention.graphs import DecodeGraphs
from agentrt.runtime.attention.reference import TorchAttention
from tests.runtime.attention import flashinfer_model as model
from tests.runtime.attention.cases import CPU, Seq, build, layer

if TYPE_CHECKING:
    from collections.abc import Callable

    from agentrt.runtime.attention.base import AttentionBackend
    from agentrt.runtime.batch import Layout

SPEC = layer(num_heads=4, num_kv_heads=2, head_dim=64, v_head_dim=64, scale=0.3)
VOCABULARY, SLOTS = 50, 200


@dataclass
class Decoder:
    """One layer of attention between an embedding and its transpose: enough to see every input."""

    attention: AttentionBackend

    def __post_init__(self) -> None:
        generator = torch.Generator().manual_seed(0)
        self.embedding = torch.randn(VOCABULARY, 8, 64, generator=generator).half()

    def __call__(self, token_ids: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        hidden = self.embedding[token_ids] * torch.cos(positions)[:, None, None].half()
        q, k, v = hidden.split([4, 2, 2], dim=1)
        return self.attention.run(0, q, k, v).flatten(1)


@dataclass
class Recorder:
    """Keeps the work, and puts what it returns into the tensor it returned the first time."""

    captures: int = 0

    def __call__(self, work: Callable[[], torch.Tensor]) -> tuple[Callable[[], None], torch.Tensor]:
        self.captures += 1
        result = work()
        # A graph has one address for each of its tensors: what came back is overwritten later.
        result.fill_(torch.nan)
        return lambda: result.copy_(work()), result


def batch(lengths: list[int], seed: int) -> Layout:
    rng = np.random.default_rng(seed)
    layout = build([Seq(1, n - 1) for n in lengths], seed=seed)
    return layout._replace(token_ids=rng.integers(0, VOCABULARY, len(lengths)))


def pools() -> tuple[KVCache, KVCache]:
    generator = torch.Generator().manual_seed(1)
    ours, theirs = (
        KVCache([SPEC], num_slots=SLOTS, dtype=torch.float16, device=CPU) for _ in range(2)
    )
    for x, y in ((ours.k[0], theirs.k[0]), (ours.v[0], theirs.v[0])):
        x.copy_(torch.randn(x.shape, generator=generator))
        y.copy_(x)
    return ours, theirs


def test_replays_equal_the_reference_and_each_size_is_captured_once() -> None:
    ours, theirs = pools()
    attention = FlashInferAttention(ours, library=model)
    reference = Decoder(TorchAttention(theirs))
    recorder = Recorder()
    graphs = DecodeGraphs(attention, Decoder(attention), device=CPU, capture=recorder)
    for seed, lengths in enumerate([[9, 4, 30], [3], [7, 1, 2, 8], [50, 2, 11], [12]]):
        layout = batch(lengths, seed)
        reference.attention.plan(layout)
        want = reference(torch.from_numpy(layout.token_ids), torch.from_numpy(layout.positions))
        got = graphs.run(layout)
        assert got is not None
        torch.testing.assert_close(got, want, rtol=2**-9, atol=2e-3)
        assert torch.equal(ours.k[0], theirs.k[0])
        assert torch.equal(ours.v[0], theirs.v[0])
    assert recorder.captures == 2
    assert repr(graphs) == "<DecodeGraphs [1, 4]>"


def test_other_batches_are_left_to_the_usual_path() -> None:
    ours, _ = pools()
    attention = FlashInferAttention(ours, library=model)
    recorder = Recorder()
    graphs = DecodeGraphs(attention, Decoder(attention), device=CPU, capture=recorder)
    assert graphs.run(build([Seq(1, 4), Seq(3, 4)])) is None
    assert recorder.captures == 0


def test_the_usual_path_between_replays_does_not_disturb_them() -> None:
    ours, theirs = pools()
    attention = FlashInferAttention(ours, library=model)
    decoder, reference = Decoder(attention), Decoder(TorchAttention(theirs))
    graphs = DecodeGraphs(attention, decoder, device=CPU, capture=Recorder())
    mixed = build([Seq(1, 4), Seq(3, 4)], seed=3)._replace(token_ids=np.arange(4))
    for seed, layout in enumerate([batch([9, 4], 0), mixed, batch([5, 20], 1)]):
        inputs = torch.from_numpy(layout.token_ids), torch.from_numpy(layout.positions)
        reference.attention.plan(layout)
        want = reference(*inputs)
        got = graphs.run(layout)
        if got is None:
            assert seed == 1
            attention.plan(layout)
            got = decoder(*inputs)
        torch.testing.assert_close(got, want, rtol=2**-9, atol=2e-3)
