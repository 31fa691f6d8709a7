"""Replayed kernel calls: the bits of the function they were recorded from, for any contents."""

from __future__ import annotations

import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest
import torch

from agentrt.runtime.attention.base import KVCache, LayerAttention
from agentrt.runtime.attention.native import NativeAttention
from agentrt.runtime.native.replay import MOST_TOKENS, Replayed
from tests.runtime.native.test_attention import layout_of, make_sequences

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from agentrt.runtime.native import Kernels

DIM = 64
SHAPE = LayerAttention(num_heads=2, num_kv_heads=1, head_dim=16, v_head_dim=16, scale=0.25)


class Counted:
    """A function and how often it was called."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.calls = 0

    def __call__(self, *args: Any) -> Any:
        self.calls += 1
        return self.function(*args)


class Block:
    """Every kind of call in a row, attention included, and results that are views."""

    def __init__(self, kernels: Kernels, pack: str) -> None:
        self.kernels = kernels
        weights = [torch.randn(96, DIM), torch.randn(2 * DIM, DIM), torch.randn(DIM, 32)]
        make = getattr(kernels, f"pack_{pack}")
        self.qkv, self.gate_up, self.back = (make([weight]) for weight in weights)
        self.norm = torch.rand(DIM)
        self.cache = KVCache([SHAPE], num_slots=64, dtype=torch.float32, device=torch.device("cpu"))
        for pool in (*self.cache.k, *self.cache.v):
            pool.normal_()
        self.attention = NativeAttention(kernels, self.cache)
        (self.sequence,) = make_sequences(SHAPE, [40], torch.randperm(64)[:40].numpy())

    def plan(self, start: int, tokens: int) -> None:
        self.attention.plan(layout_of([(self.sequence, start, start + tokens)]))

    def __call__(
        self, sizes: tuple[int], x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        (tokens,) = sizes
        kernels = self.kernels
        qkv = self.qkv(kernels.rms_norm(x, self.norm, 1e-6))
        qk = qkv.as_strided((tokens, 3, 16), (96, 16, 1), 0)
        kernels.rotate(qk, cos, sin)
        v = qkv.as_strided((tokens, 1, 16), (96, 16, 1), 48)
        attended = self.attention.run(0, qk[:, :2], qk[:, 2:], v)
        del qkv, qk, v
        total, normed = kernels.add_rms_norm(
            x, self.back(attended.view(tokens, 32)), self.norm, 1e-6
        )
        both = self.gate_up(normed)
        return kernels.gate(both, "silu"), total, total[:, 8:24]


def calls_for(kernels: Kernels, pack: str, steps: list[tuple[int, int]]) -> int:
    """Runs steps, (start, tokens), by replays and as they are, and holds their bits, strides and
    what they write to each other; returns how often the function itself was called by replays."""
    block = Block(kernels, pack)
    counted = Counted(block)
    replayed = Replayed(kernels, counted)
    results: list[tuple[torch.Tensor, ...]] = []
    wanted: list[tuple[torch.Tensor, ...]] = []
    with torch.inference_mode():
        for start, tokens in steps:
            inputs = torch.randn(tokens, DIM), torch.rand(tokens, 16), torch.rand(tokens, 16)
            block.plan(start, tokens)
            results.append(replayed((tokens,), *inputs))
            k, v = block.cache.k[0].clone(), block.cache.v[0].clone()
            wanted.append(block((tokens,), *inputs))
            assert torch.equal(block.cache.k[0], k)
            assert torch.equal(block.cache.v[0], v)
    for got, expected in zip(results, wanted, strict=True):  # all of them: none is overwritten
        assert all(torch.equal(a, b) for a, b in zip(got, expected, strict=True))
        assert [t.stride() for t in got] == [t.stride() for t in expected]
    return counted.calls


@pytest.mark.parametrize("pack", ["f32", "q8"])
def test_replays_have_the_bits_of_the_calls(kernels: Kernels, pack: str) -> None:
    steps = [(6 + start, tokens) for start in range(5) for tokens in (3, 1)]
    assert calls_for(kernels, pack, steps) == 2  # of each size the first, which is recorded


@pytest.mark.parametrize("pack", ["f32", "q8"])
def test_three_numbers_of_tokens_tell_all_others(kernels: Kernels, pack: str) -> None:
    steps = [(40 - tokens, tokens) for tokens in (4, 2, 7, 3, 33, 1, 9, 30, 1, 2, 17, 40)]
    # Three of them, and one token, which may be strided otherwise.
    assert calls_for(kernels, pack, steps) == 4


def test_results_of_several_replays_are_apart(kernels: Kernels) -> None:
    norm = torch.rand(DIM)
    replayed = Replayed(kernels, lambda sizes, x: (kernels.rms_norm(x, norm, 1e-6),))
    with torch.inference_mode():
        given = [torch.randn(tokens, DIM) for tokens in (2, 3, 5, 8, 8, 4, 8)]
        results = [replayed((len(x),), x)[0] for x in given]
        for x, result in zip(given, results, strict=True):
            assert torch.equal(result, kernels.rms_norm(x, norm, 1e-6))


def test_what_does_not_grow_by_the_token_is_not_foretold(kernels: Kernels) -> None:
    norm = torch.rand(DIM)
    counted = Counted(lambda sizes, x: (kernels.rms_norm(x, norm, 1e-6),))
    replayed = Replayed(kernels, counted)
    with torch.inference_mode():
        for tokens in (2, 3, 4, 5, 6, 2, 3, 4):
            x = torch.randn(tokens * tokens, DIM)
            assert torch.equal(replayed((tokens,), x)[0], kernels.rms_norm(x, norm, 1e-6))
        assert counted.calls == 5  # each of its own
        for tokens in range(7, 20):
            replayed((tokens,), torch.randn(tokens * tokens, DIM))
        before = counted.calls
        replayed((20,), torch.randn(400, DIM))
        replayed((20,), torch.randn(400, DIM))
        assert counted.calls == before + 2  # recordings that never agree are given up


def test_other_sizes_are_told_apart(kernels: Kernels) -> None:
    norm = torch.rand(DIM)
    replayed = Replayed(kernels, lambda sizes, x, y: (kernels.rms_norm(y, norm, 1e-6),))
    with torch.inference_mode():
        for tokens, rows in [(2, 1), (3, 1), (4, 1), (5, 1), (5, 2), (6, 3), (6, 1), (2, 2)]:
            x, y = torch.randn(tokens, DIM), torch.randn(rows, DIM)
            (got,) = replayed((tokens, (rows, DIM)), x, y)
            assert torch.equal(got, kernels.rms_norm(y, norm, 1e-6))


def test_what_else_is_computed_is_found_out(kernels: Kernels) -> None:
    norm = torch.rand(DIM)
    scale = {"by": 1.0}

    def multiplies(sizes: tuple[int], x: torch.Tensor) -> tuple[torch.Tensor]:
        return (kernels.rms_norm(x * scale["by"], norm, 1e-6).view(-1, DIM),)

    def copies(sizes: tuple[int], x: torch.Tensor) -> tuple[torch.Tensor]:
        return (kernels.rms_norm(x.t(), norm[: sizes[0]], 1e-6),)

    def returns_what_it_got(sizes: tuple[int], x: torch.Tensor) -> tuple[torch.Tensor]:
        return (x.view(-1),)

    for function in (multiplies, copies, returns_what_it_got):
        replayed = Replayed(kernels, function)
        with torch.inference_mode():
            for by in (1.0, 2.0, 3.0, 4.0):
                scale["by"] = by
                x = torch.randn(3, DIM)
                assert torch.equal(replayed((3,), x)[0], function((3,), x)[0])


def test_many_tokens_are_not_replayed(kernels: Kernels) -> None:
    norm = torch.rand(DIM)
    counted = Counted(lambda sizes, x: (kernels.rms_norm(x, norm, 1e-6),))
    replayed = Replayed(kernels, counted)
    with torch.inference_mode():
        for _ in range(4):
            replayed((MOST_TOKENS + 1,), torch.randn(MOST_TOKENS + 1, DIM))
    assert counted.calls == 4


def test_calls_of_another_thread_are_not_recorded(kernels: Kernels) -> None:
    norm = torch.rand(DIM)
    others: list[torch.Tensor] = []

    def meanwhile(sizes: tuple[int], x: torch.Tensor) -> tuple[torch.Tensor]:
        first = kernels.rms_norm(x, norm, 1e-6)
        other = threading.Thread(target=lambda: others.append(kernels.rms_norm(x, norm, 1.0)))
        other.start()
        other.join()
        return (kernels.rms_norm(first, norm, 1e-6),)

    replayed = Replayed(kernels, meanwhile)
    with torch.inference_mode():
        for _ in range(3):
            x = torch.randn(2, DIM)
            wanted = kernels.rms_norm(kernels.rms_norm(x, norm, 1e-6), norm, 1e-6)
            assert torch.equal(replayed((2,), x)[0], wanted)
    assert len(others) == 1  # from then on nothing but the two calls was made


def test_recording_does_not_load_what_takes_seconds(build_dir: Path) -> None:
    program = f"""
import sys, torch
from pathlib import Path
from agentrt.runtime.native import load
from agentrt.runtime.native.replay import Replayed
kernels = load(Path({str(build_dir)!r}))
norm = torch.ones(8)
replayed = Replayed(kernels, lambda sizes, x: (kernels.rms_norm(x, norm, 1e-6),))
with torch.inference_mode():
    for _ in range(3):
        replayed((1,), torch.ones(1, 8))
assert (1,) in replayed._alone
assert "torch._dynamo" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)
