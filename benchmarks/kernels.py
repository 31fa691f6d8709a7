"""Times the CPU kernels on the shapes of SmolLM2-135M: `python -m benchmarks.kernels`.

Prints milliseconds for all 30 layers, the least of several runs, by number of rows. With one thread
it counts processor time, which other programs on the machine disturb less.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from tempfile import gettempdir
from typing import TYPE_CHECKING

import numpy as np
import torch

from agentrt.runtime.attention.base import KVCache, LayerAttention
from agentrt.runtime.attention.native import NativeAttention
from agentrt.runtime.batch import Layout, PrefixGroup
from agentrt.runtime.native import Kernels, PackedLinear, Q4Weight, load

if TYPE_CHECKING:
    from collections.abc import Callable

LAYERS = 30
# q/k/v, output, gate/up and down products, [outputs, inputs].
SHAPES = ((960, 576), (576, 576), (3072, 576), (576, 1536))
HEAD = (49152, 576)
SHAPE = LayerAttention(num_heads=9, num_kv_heads=3, head_dim=64, v_head_dim=64, scale=0.125)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument("--runs", type=int, default=15)
    options = parser.parse_args()
    kernels = load(Path(gettempdir()) / "agentrt-kernels", options.threads)
    clock = time.thread_time if kernels.threads == 1 else time.perf_counter

    def least(run: Callable[[], object]) -> float:
        times: list[float] = []
        for _ in range(options.runs):
            start = clock()
            run()
            times.append(clock() - start)
        return min(times)

    print(f"{kernels}, torch {torch.get_num_threads()} threads")
    rows = (1, 2, 4, 8, 32, 128, 512)
    for kind in ("q4", "q4_mixed", "f32"):
        time_products(kernels, kind, rows, least)
    time_head(kernels, least)
    time_attention(kernels, least)


def random_weight(kernels: Kernels, kind: str, shape: tuple[int, int]) -> PackedLinear:
    if kind == "f32":
        return kernels.pack_f32([torch.randn(shape)])
    if kind == "q8":
        return kernels.pack_q8([torch.randn(shape)])
    scales = torch.rand(shape[0], shape[1] // 32).half() / 64
    quants = torch.randint(0, 16, shape, dtype=torch.uint8)
    weight = Q4Weight(quants, scales, -8 * scales)
    return kernels.pack_q4([weight], mixed=kind == "q4_mixed")


def time_products(
    kernels: Kernels, kind: str, rows: tuple[int, ...], least: Callable[..., float]
) -> None:
    products = [random_weight(kernels, kind, s) for _ in range(LAYERS) for s in SHAPES]
    weights = sum(p.in_features * p.out_features for p in products)
    size = sum(p.nbytes for p in products)
    for n in rows:
        inputs = {k: torch.randn(n, k) for k in (576, 1536)}
        seconds = least(lambda inputs=inputs: [p(inputs[p.in_features]) for p in products])
        print(
            f"{kind} layers, {n:3} rows: {seconds * 1e3:8.2f} ms"
            f"  {size / seconds / 1e9:5.1f} GB/s  {n * weights / seconds / 1e9:6.1f} G mul-add/s"
        )


def time_head(kernels: Kernels, least: Callable[..., float]) -> None:
    head = random_weight(kernels, "q8", HEAD)
    for n in (1, 8, 32):
        x = torch.randn(n, HEAD[1])
        seconds = least(lambda x=x: head(x))
        rate = head.nbytes / seconds / 1e9
        print(f"q8 head,   {n:3} rows: {seconds * 1e3:8.2f} ms  {rate:5.1f} GB/s")


def time_attention(kernels: Kernels, least: Callable[..., float]) -> None:
    free = np.arange(16384)
    shared = [np.concatenate([free[:448], free[448 + 64 * i :][:64]]) for i in range(32)]
    cases = {
        "1 query, 512 keys": ([(1, free[:512])], ()),
        "1 query, 512 scattered keys": (
            [(1, np.random.default_rng(0).permutation(free)[:512])],
            (),
        ),
        "32 queries, 128 keys each": ([(1, free[128 * i :][:128]) for i in range(32)], ()),
        "32 queries, 512 keys, 448 shared": ([(1, slots) for slots in shared], ()),
        "the same, grouped": ([(1, slots) for slots in shared], (PrefixGroup(0, 32, 448),)),
        "prompt of 512": ([(512, free[:512])], ()),
    }
    cache = KVCache(
        [SHAPE] * LAYERS, num_slots=len(free), dtype=torch.float32, device=torch.device("cpu")
    )
    backend = NativeAttention(kernels, cache)
    for name, (sequences, groups) in cases.items():
        layout = layout_of(sequences, groups)
        q, k, v = (torch.randn(layout.num_tokens, heads, 64) for heads in (9, 3, 3))
        plan = least(lambda layout=layout: backend.plan(layout))
        run = least(lambda q=q, k=k, v=v: [backend.run(layer, q, k, v) for layer in range(LAYERS)])
        print(f"attention, {name}: {run * 1e3:.2f} ms, plan {plan * 1e3:.2f} ms")


def layout_of(sequences: list[tuple[int, np.ndarray]], groups: tuple[PrefixGroup, ...]) -> Layout:
    """The last `new` of each sequence's slots are computed in this batch."""
    new = np.array([n for n, _ in sequences])
    return Layout(
        token_ids=np.zeros(new.sum(), np.int64),
        positions=np.concatenate([np.arange(len(s) - n, len(s)) for n, s in sequences]),
        out_slots=np.concatenate([s[len(s) - n :] for n, s in sequences]).astype(np.int64),
        q_indptr=np.cumsum([0, *new]).astype(np.int32),
        kv_indptr=np.cumsum([0, *(len(s) for _, s in sequences)]).astype(np.int32),
        kv_slots=np.concatenate([s for _, s in sequences]).astype(np.int32),
        groups=groups,
    )


if __name__ == "__main__":
    main()
