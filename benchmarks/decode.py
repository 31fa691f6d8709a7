"""Single stream and batches: time to the first token, tokens per second, beside transformers.

    python -m benchmarks.decode [--batches 1,8,32] [--prompt 512] [--new 128] [--repeat 3]

Both serve the provided model's weights greedily, with the same number of threads, one after the
other; every figure is the best of the repeats. transformers runs in fp32. The last line is one
JSON object: agentrt and transformers {batch: {ttft_s, tokens_per_s}}.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from typing import Any

import numpy as np

from agentrt import Runtime
from benchmarks.report import finish, show

Figures = dict[str, float]


def prompts(batch: int, length: int, vocab_size: int, seed: int) -> list[list[int]]:
    """Random prompts that share nothing, so that no cache helps."""
    draw = np.random.default_rng(seed)
    return draw.integers(20, vocab_size - 1000, (batch, length)).tolist()


async def ours(args: argparse.Namespace, batch: int) -> Figures:
    async with Runtime(weights=args.weights, kv_tokens=batch * (args.prompt + args.new) + 64) as rt:
        await rt.generate(prompts(1, 32, 40_000, 1)[0], max_tokens=4, ignore_eos=True)
        best = {"ttft_s": float("inf"), "tokens_per_s": 0.0}
        for repeat in range(args.repeat):
            await rt.flush_cache()
            asked = prompts(batch, args.prompt, 40_000, 2 + repeat)
            start = time.perf_counter()
            done = await asyncio.gather(
                *(rt.generate(p, max_tokens=args.new, ignore_eos=True) for p in asked)
            )
            wall = time.perf_counter() - start
            first = max(c.timings.queue_s + c.timings.prefill_s for c in done)
            best["ttft_s"] = min(best["ttft_s"], first)
            decoded = batch * (args.new - 1)
            best["tokens_per_s"] = max(best["tokens_per_s"], decoded / (wall - first))
        return best


def theirs(args: argparse.Namespace, batch: int) -> Figures:
    import torch

    from benchmarks.reference import reference_model

    model = reference_model()
    best = {"ttft_s": float("inf"), "tokens_per_s": 0.0}
    with torch.inference_mode():
        for repeat in range(args.repeat):
            asked = torch.tensor(prompts(batch, args.prompt, 40_000, 2 + repeat))

            def generate(new: int, asked: Any = asked) -> float:
                start = time.perf_counter()
                model.generate(
                    asked,
                    attention_mask=torch.ones_like(asked),
                    do_sample=False,
                    max_new_tokens=new,
                    min_new_tokens=new,
                    pad_token_id=0,
                )
                return time.perf_counter() - start

            first, wall = generate(1), generate(args.new)
            best["ttft_s"] = min(best["ttft_s"], first)
            decoded = batch * (args.new - 1)
            best["tokens_per_s"] = max(best["tokens_per_s"], decoded / (wall - first))
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batches", default="1,8,32")
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--new", type=int, default=128)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--weights", default="auto")
    parser.add_argument("--peers", default="transformers", help="'' for none")
    args = parser.parse_args()
    batches = [int(b) for b in args.batches.split(",")]
    measured: dict[str, dict[int, Figures]] = {
        "agentrt": {b: asyncio.run(ours(args, b)) for b in batches}
    }
    if "transformers" in args.peers:
        measured["transformers"] = {b: theirs(args, b) for b in batches}
    show(
        f"{args.prompt} prompt tokens, {args.new} new ones",
        ["engine", "batch", "first token s", "decode tokens/s"],
        [
            (name, batch, figures["ttft_s"], figures["tokens_per_s"])
            for name, by_batch in measured.items()
            for batch, figures in by_batch.items()
        ],
    )
    finish({**measured, "prompt": args.prompt, "new": args.new, "weights": args.weights})


if __name__ == "__main__":
    main()
