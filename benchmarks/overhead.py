"""What the radix cache, the engine and the recorder cost when they help nobody.

    python -m benchmarks.overhead [--requests 64] [--prompt 200] [--new 32] [--repeat 3] [--json]

Prompts share nothing; runtimes with the cache on and off take turns. `zero_reuse_share` is the time
spent inside the radix cache (match, lock, hand over, evict) over the wall time, `cache_on_over_off`
the least wall time with the cache over the least without. `outside_model_share` is the part of the
wall time in which the model did not compute, `outside_model_ms` the same for a step.
`recording_share` is what recording adds to the calls that give it the most to do for a token (see
`benchmarks.tracing`).

`step_ms` is the processor time of a decode step outside the model with 1, 64 and 1,024 running (a
model that answers at once stands in), `step_ms_waiting` that with 64 running and so many waiting.
The last line is one JSON object: overhead {all of them}. --json leaves out the table and the
progress bar.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.progress import Progress

from agentrt import Runtime
from agentrt.runtime.radix import RadixCache
from benchmarks.clock import Clock
from benchmarks.crowds import step_ms
from benchmarks.decode import prompts
from benchmarks.report import console, finish, given, options, show
from benchmarks.tracing import recording_share

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

STEPS = ((1, 0), (64, 0), (1_024, 0), (64, 10_000))  # running, waiting
CACHE = ("match", "match_from", "acquire", "advance", "extend", "release", "evict")
Figures = dict[str, Any]


async def zero_reuse(args: argparse.Namespace, seed: int, in_cache: Clock, *, on: bool) -> Figures:
    """One run of prompts that share nothing, with the cache or without."""
    async with Runtime(threads=args.threads, cache=on) as runtime:
        await runtime.generate(prompts(1, args.prompt, 40_000, 0)[0], max_tokens=2)
        await runtime.flush_cache()
        model = Clock(runtime._served.loaded.executor, ("execute",))
        asked = prompts(args.requests, args.prompt, 40_000, seed)
        start, before = time.perf_counter(), in_cache.seconds
        await asyncio.gather(
            *(runtime.generate(p, max_tokens=args.new, ignore_eos=True) for p in asked)
        )
        wall = time.perf_counter() - start
    return {
        "wall_s": wall,
        "zero_reuse_share": (in_cache.seconds - before) / wall,
        "outside_model_share": 1 - model.seconds / wall,
        "outside_model_ms": 1e3 * (wall - model.seconds) / model.calls,
    }


def with_model(args: argparse.Namespace) -> Iterator[Figures]:
    """The best run with the cache, and how it compares with the best without."""
    in_cache = Clock(RadixCache, CACHE)
    runs: dict[bool, list[Figures]] = {True: [], False: []}
    for repeat in range(args.repeat):
        for on in (True, False):
            runs[on].append(asyncio.run(zero_reuse(args, 1 + repeat, in_cache, on=on)))
            yield {}
    best = {on: min(taken, key=lambda run: run["wall_s"]) for on, taken in runs.items()}
    yield best[True] | {"cache_on_over_off": best[True]["wall_s"] / best[False]["wall_s"]}


def figures(args: argparse.Namespace) -> Iterator[Figures]:
    """What is measured, piece by piece."""
    yield from with_model(args)
    with tempfile.TemporaryDirectory() as folder:
        yield {"recording_share": recording_share(Path(folder), rounds=2 * args.repeat)}
    # In rounds: another tenant of the processor's cores slows these for many seconds at a time.
    rounds = [[step_ms(running, waiting=waiting) for running, waiting in STEPS] for _ in range(5)]
    least = [min(taken) for taken in zip(*rounds, strict=True)]
    yield {
        "step_ms": {n: ms for (n, waiting), ms in zip(STEPS, least, strict=True) if not waiting},
        "step_ms_waiting": {n: ms for (_, n), ms in zip(STEPS, least, strict=True) if n},
    }


def main() -> None:
    parser = options(__doc__, repeat=3)
    parser.add_argument("--requests", type=int, default=64)
    parser.add_argument("--prompt", type=int, default=200)
    parser.add_argument("--new", type=int, default=32)
    args = given(parser)
    report: Figures = {}
    with Progress(console=console, disable=args.json) as progress:
        pieces = progress.track(figures(args), total=2 * args.repeat + 3, description="overhead")
        for piece in pieces:
            report |= piece
    if not args.json:
        show("What helps nobody costs", ["figure", "value"], report.items())
    finish({"overhead": report})


if __name__ == "__main__":
    main()
