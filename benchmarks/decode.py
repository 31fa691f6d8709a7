"""Single stream and batches: time to the first token, tokens per second, beside other engines.

    python -m benchmarks.decode [--batches 1,8,32,64] [--prompt 512] [--new 128] [--repeat 3]
                                [--peers transformers,llama.cpp] [--limit SECONDS]
                                [--threads 2] [--json]

Every engine serves the same prompts, which share nothing, greedily and in a process of its own;
they take turns, and every figure is the best of the repeats. `ttft_s` is when the last of the first
tokens was there, `tokens_per_s` all new tokens over the whole time, prompts included, and
`decode_tokens_per_s` what came after the first tokens over the time beyond that of the same prompts
asked for one token each: engines that mix prompts with writing get no more than they did.

`floor` is what the machine allows. A decode step has to read the weights of the provided model's
file once (bytes over the memory's measured speed) and to multiply them with every row, and a prompt
has to be multiplied by them (operations over the measured rate of large products, fp32 or int8,
whichever is faster). The last line is one JSON object: decode {engine: {batch: figures}}, and the
floor. --json leaves out the table and the progress bar.
"""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.progress import Progress

from agentrt.runtime.codec import ModelCodec
from agentrt.runtime.models import resolve
from benchmarks.peers.process import started
from benchmarks.peers.registry import PEERS
from benchmarks.report import console, finish, given, options, show
from benchmarks.workloads.texts import prose

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

    from benchmarks.peers.process import Worker

Figures = dict[str, float]
Measured = dict[str, dict[int, Figures]]


def prompts(batch: int, length: int, vocab_size: int, seed: int) -> list[list[int]]:
    """Random prompts that share nothing, so that no cache helps."""
    draw = np.random.default_rng(seed)
    return draw.integers(20, vocab_size - 1000, (batch, length)).tolist()


def texts(batch: int, length: int, seed: int) -> list[str]:
    """Made-up prose of so many tokens each, no two with the same beginning."""
    codec, rng = ModelCodec(resolve(None)), random.Random(seed)
    return [codec.decode(codec.encode(prose(rng, 2 * length))[:length]) for _ in range(batch)]


def measure(workers: Sequence[Worker], args: argparse.Namespace, progress: Progress) -> Measured:
    task = progress.add_task("", total=len(args.batches) * len(workers) * args.repeat)
    measured: Measured = {worker.name: {} for worker in workers}
    for batch in args.batches:
        for repeat in range(args.repeat):
            asked = texts(batch, args.prompt, 2 + repeat)
            for worker in workers:
                progress.update(task, description=f"{batch}: {worker.name}")
                told = ask(worker, asked, args.new, args.limit)
                progress.advance(task)
                if "seconds" in told:
                    note(measured[worker.name], batch, args.new, told)
                else:
                    console.print(f"[yellow]{batch}: {worker.name}:[/] {told}")
    return measured


def ask(worker: Worker, asked: list[str], new: int, limit: float | None) -> dict[str, Any]:
    """What became of the prompts, and with several of them what they take by themselves."""
    told = worker.ask(limit=limit, prompts=asked, new=new)
    if "seconds" not in told or len(asked) == 1:
        return told | {"prompts_s": told.get("first_s")}
    alone = worker.ask(limit=limit, prompts=asked, new=1)
    return told | {"prompts_s": alone["seconds"]} if "seconds" in alone else alone


def note(by_batch: dict[int, Figures], batch: int, new: int, told: dict[str, Any]) -> None:
    """Keeps the better figures."""
    after = max(told["seconds"] - told["prompts_s"], 1e-9)
    found = {
        "tokens_per_s": batch * new / told["seconds"],
        "decode_tokens_per_s": batch * (new - 1) / after,
    }
    best = by_batch.setdefault(batch, {"ttft_s": told["first_s"]} | found)
    best["ttft_s"] = min(best["ttft_s"], told["first_s"])
    best |= {name: max(best[name], rate) for name, rate in found.items()}


def floor(threads: int) -> Figures:
    """What the machine can do: bytes read and products computed per second, and the model's due."""
    import torch
    from gguf import GGUFReader

    from benchmarks.peers.files import gguf_file

    torch.set_num_threads(threads)
    tensors = GGUFReader(gguf_file()).tensors
    weight_bytes = sum(int(tensor.n_bytes) for tensor in tensors)
    in_layers = [t for t in tensors if t.name.startswith("blk.") and len(t.shape) == 2]
    read = torch.zeros(2**27)  # 512 MB of floats
    memory = read.numel() * 4 / fastest(read.sum)
    rates = {"fp32": product_rate(fp32_product()), "int8": product_rate(int8_product())}
    operations = 2 * sum(int(np.prod(t.shape)) for t in in_layers)
    return {
        "memory_gb_per_s": memory / 1e9,
        **{f"{kind}_gop_per_s": rate / 1e9 for kind, rate in rates.items()},
        "read_s": weight_bytes / memory,
        "multiply_row_s": operations / max(rates.values()),
    }


SIDE = 2_048


def fp32_product() -> Callable[[], object]:
    import torch

    square = torch.ones(SIDE, SIDE)
    return lambda: square @ square


def int8_product() -> Callable[[], object]:
    """FBGEMM's product of 8-bit integers, the fastest one that torch brings."""
    import torch

    weights = torch.quantize_per_tensor(torch.ones(SIDE, SIDE), 0.1, 0, torch.qint8)
    rows = torch.quantize_per_tensor(torch.ones(SIDE, SIDE), 0.1, 0, torch.quint8)
    packed = torch.ops.quantized.linear_prepack(weights, None)
    return lambda: torch.ops.quantized.linear(rows, packed, 1.0, 0)


def product_rate(product: Callable[[], object]) -> float:
    return 2 * SIDE**3 / fastest(product)


def fastest(run: Callable[[], object]) -> float:
    """The least seconds of several runs."""
    times: list[float] = []
    for _ in range(7):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


def floor_of(batch: int, least: Figures, prompt: int, new: int) -> Figures:
    """The figures that no engine on these weights can beat."""
    first = batch * prompt * least["multiply_row_s"]
    step = max(least["read_s"], batch * least["multiply_row_s"])
    return {
        "ttft_s": first,
        "tokens_per_s": batch * new / (first + (new - 1) * step),
        "decode_tokens_per_s": batch / step,
    }


def main() -> None:
    parser = options(__doc__, repeat=3, peers=PEERS)
    parser.add_argument("--batches", default="1,8,32,64")
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--new", type=int, default=128)
    parser.add_argument("--limit", type=float, help="seconds of an engine for a batch")
    args = given(parser)
    args.batches = [int(batch) for batch in args.batches.split(",")]
    least = floor(args.threads)
    with (
        started(("agentrt", *args.peers), args.threads) as workers,
        Progress(console=console, disable=args.json) as progress,
    ):
        measured = measure(workers, args, progress)
    measured["floor"] = {
        batch: floor_of(batch, least, args.prompt, args.new) for batch in args.batches
    }
    if not args.json:
        rows = [
            (name, batch, *figures.values())
            for name, by_batch in measured.items()
            for batch, figures in by_batch.items()
        ]
        columns = ["engine", "batch", "first tokens s", "tokens/s", "decode tokens/s"]
        show(f"{args.prompt} prompt tokens, {args.new} new", columns, rows)
        show("The machine", ["figure", "value"], least.items())
    finish({"decode": measured, "machine": least, "prompt": args.prompt, "new": args.new})


if __name__ == "__main__":
    main()
