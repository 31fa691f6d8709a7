"""Single stream and batches: time to the first token, tokens per second, beside other engines.

    python -m benchmarks.decode [--batches 1,8,32,64] [--prompt 512] [--new 128] [--repeat 3]
                                [--peers transformers,llama.cpp] [--threads 2] [--json]

Every engine serves the same prompts, which share nothing, greedily and in a process of its own;
they take turns, and every figure is the best of the repeats. `floor` is what the machine allows:
a decode step has to read the weights of the provided model's file once (bytes over the memory's
measured speed), and a prompt has to be multiplied by them (operations over the measured rate of
fp32 products). The last line is one JSON object: engine {batch: {ttft_s, tokens_per_s}}, and the
floor. --json leaves out the table and the progress bar.
"""

from __future__ import annotations

import argparse
import os
import random
import time
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.progress import Progress

from agentrt.runtime.codec import ModelCodec
from agentrt.runtime.models import resolve
from benchmarks.peers.process import Worker, started
from benchmarks.peers.registry import PEERS
from benchmarks.report import console, finish, show
from benchmarks.workloads.texts import prose

if TYPE_CHECKING:
    from collections.abc import Callable

Figures = dict[str, float]


def prompts(batch: int, length: int, vocab_size: int, seed: int) -> list[list[int]]:
    """Random prompts that share nothing, so that no cache helps."""
    draw = np.random.default_rng(seed)
    return draw.integers(20, vocab_size - 1000, (batch, length)).tolist()


def texts(batch: int, length: int, seed: int) -> list[str]:
    """Made-up prose of so many tokens each, no two with the same beginning."""
    codec, rng = ModelCodec(resolve(None)), random.Random(seed)
    return [codec.decode(codec.encode(prose(rng, 2 * length))[:length]) for _ in range(batch)]


def measure(
    workers: list[Worker], batches: list[int], args: argparse.Namespace, progress: Progress
) -> dict[str, dict[int, Figures]]:
    task = progress.add_task("", total=len(batches) * len(workers) * args.repeat)
    measured: dict[str, dict[int, Figures]] = {worker.name: {} for worker in workers}
    for batch in batches:
        for repeat in range(args.repeat):
            asked = texts(batch, args.prompt, 2 + repeat)
            for worker in workers:
                progress.update(task, description=f"{batch}: {worker.name}")
                told = worker.ask(prompts=asked, new=args.new)
                progress.advance(task)
                if "seconds" in told:
                    note(measured[worker.name], batch, args.new, told)
                else:
                    progress.console.print(f"[yellow]{batch}: {worker.name}:[/] {told}")
    return measured


def note(by_batch: dict[int, Figures], batch: int, new: int, told: dict[str, Any]) -> None:
    """Keeps the better figures."""
    speed = batch * (new - 1) / max(told["seconds"] - told["first_s"], 1e-9)
    best = by_batch.setdefault(batch, {"ttft_s": float("inf"), "tokens_per_s": 0.0})
    best["ttft_s"] = min(best["ttft_s"], told["first_s"])
    best["tokens_per_s"] = max(best["tokens_per_s"], speed)


def floor(threads: int) -> Figures:
    """What the machine can do: bytes read and products computed per second, and the model's due."""
    import torch
    from gguf import GGUFReader

    from benchmarks.peers.files import gguf_file

    torch.set_num_threads(threads)
    tensors = GGUFReader(gguf_file()).tensors
    weight_bytes = sum(int(tensor.n_bytes) for tensor in tensors)
    in_layers = [t for t in tensors if t.name.startswith("blk.") and len(t.shape) == 2]
    read, square = torch.zeros(2**27), torch.zeros(2_048, 2_048)  # 512 MB of floats
    memory = read.numel() * 4 / fastest(read.sum)
    products = 2 * 2_048**3 / fastest(lambda: square @ square)
    operations = 2 * sum(int(np.prod(t.shape)) for t in in_layers)
    return {
        "memory_gb_per_s": memory / 1e9,
        "products_gflop_per_s": products / 1e9,
        "decode_step_s": weight_bytes / memory,
        "prompt_token_s": operations / products,
    }


def fastest(run: Callable[[], object]) -> float:
    """The least seconds of several runs."""
    times: list[float] = []
    for _ in range(7):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


def print_table(measured: dict[str, dict[int, Figures]], least: Figures, prompt: int) -> None:
    rows = [
        (name, batch, figures["ttft_s"], figures["tokens_per_s"])
        for name, by_batch in measured.items()
        for batch, figures in by_batch.items()
    ]
    for batch in sorted({batch for by_batch in measured.values() for batch in by_batch}):
        first = batch * prompt * least["prompt_token_s"]
        rows.append(("floor", batch, first, batch / least["decode_step_s"]))
    show(
        f"{prompt} prompt tokens; memory reads {least['memory_gb_per_s']:.1f} GB/s, fp32 products "
        f"{least['products_gflop_per_s']:.0f} GFLOP/s",
        ["engine", "batch", "first tokens s", "decode tokens/s"],
        rows,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--batches", default="1,8,32,64")
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--new", type=int, default=128)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--peers", default=",".join(PEERS), help=f"of {', '.join(PEERS)}; '' none")
    parser.add_argument("--json", action="store_true", help="no table, no progress bar")
    args = parser.parse_args()
    batches = [int(batch) for batch in args.batches.split(",")]
    least = floor(args.threads)
    with (
        started(["agentrt", *filter(None, args.peers.split(","))], args.threads) as workers,
        Progress(console=console, disable=args.json) as progress,
    ):
        measured = measure(workers, batches, args, progress)
    if not args.json:
        print_table(measured, least, args.prompt)
    finish({**measured, "floor": least, "prompt": args.prompt, "new": args.new})


if __name__ == "__main__":
    main()
