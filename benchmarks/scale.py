"""How costs grow: the tree, the queue, branches and prompts, each from small to large.

    python -m benchmarks.scale [--kinds tree,waiting] [--tokens 7] [--model] [--repeat 3] [--json]

`tree`: microseconds a token to look up, insert and evict 1,024-token prompts that share half of it
with others, in a tree of 10^3 up to 10^--tokens tokens. `waiting`: milliseconds of a step outside
the model with 64 running and so many waiting. `branches`: milliseconds outside the model, for each
of so many branches of a 1,000-token prompt, to its 8th token. `prompt`: microseconds outside the
model for a token of a prompt so long. With --model also the provided model's seconds, for branches
and prompts. Each is the best of the repeats, so that another program on the machine, which can only
add, is no great matter. The last line is one JSON object: scale {kind: {size: costs}}. --json
leaves out the tables and the progress bar.
"""

from __future__ import annotations

import asyncio
import random
import time
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from rich.progress import Progress

from agentrt.runtime.pool import SlotPool
from agentrt.runtime.radix import RadixCache
from benchmarks.crowds import Crowd, prompt, step_ms
from benchmarks.report import console, finish, given, listed, options, show

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    import numpy.typing as npt

LENGTH, SHARED = 1_024, 512
WAITING = (10, 100, 1_000, 10_000, 100_000)
BRANCHES = (2, 8, 32, 128, 512)
PROMPTS = (128, 512, 2_048, 8_191)  # one token of the provided model's context is for the answer
KINDS = ("tree", "waiting", "branches", "prompt")

Costs = dict[str, float]
Report = dict[str, dict[int, Costs]]


class Forest:
    """A tree filled with prompts, eight to a stem."""

    def __init__(self, tokens: int) -> None:
        self._draw = np.random.default_rng(1)
        self.pool = SlotPool(tokens + 64 * LENGTH)
        self.cache = RadixCache(self.pool)
        self._stem = self._made_up(SHARED)
        self._grown = 0
        self.last: list[npt.NDArray[np.int32]] = []
        while self.cache.cached < tokens - LENGTH:
            self.insert()

    def _made_up(self, count: int) -> npt.NDArray[np.int32]:
        return self._draw.integers(0, 50_000, count, np.int32)

    def fresh(self) -> npt.NDArray[np.int32]:
        """A prompt that is not in the tree, though half of it may be."""
        if self._grown % 8 == 0:
            self._stem = self._made_up(SHARED)
        self._grown += 1
        return np.concatenate([self._stem, self._made_up(LENGTH - SHARED)])

    def insert(self) -> float:
        """Caches a fresh prompt; seconds."""
        tokens = self.fresh()
        start = time.perf_counter()
        match = self.cache.match(tokens)
        node = self.cache.acquire(match)
        slots = self.pool.alloc(LENGTH - match.length)
        assert slots is not None
        end = self.cache.extend(node, tokens[match.length :], slots).node
        self.cache.release(end)
        took = time.perf_counter() - start
        self.last = [*self.last[-15:], tokens]
        return took

    def match(self) -> float:
        """Looks a cached prompt up; seconds."""
        tokens = self.last[int(self._draw.integers(len(self.last)))]
        start = time.perf_counter()
        assert self.cache.match(tokens).length == LENGTH
        return time.perf_counter() - start

    def evict(self) -> float:
        """Makes room for half a prompt; seconds."""
        start = time.perf_counter()
        assert self.cache.evict(SHARED) == SHARED
        return time.perf_counter() - start


def tree(tokens: int) -> Costs:
    """Microseconds a token, the median of 40."""
    forest = Forest(tokens)

    def cost(act: Callable[[], float], tokens: int) -> float:
        return 1e6 * float(np.median([act() for _ in range(40)])) / tokens

    inserted = cost(forest.insert, LENGTH)
    return {
        "match_us": cost(forest.match, LENGTH),
        "insert_us": inserted,
        "evict_us": cost(forest.evict, SHARED),
    }


def branches(count: int) -> float:
    """Milliseconds outside the model for each branch."""

    async def measure() -> float:
        rng = random.Random(1)
        crowd = Crowd(num_slots=count * 64 + 2_048, running=512)
        root = prompt(rng, 1_000)
        crowd.add([root], 1)
        crowd.finish()
        took = crowd.add([[*root, *prompt(rng, 20)] for _ in range(count)], 8)
        return 1e3 * (took + crowd.finish()) / count

    return asyncio.run(measure())


def long_prompt(length: int) -> float:
    """Microseconds outside the model for each token."""

    async def measure() -> float:
        crowd = Crowd(num_slots=length + 64, running=8)
        took = crowd.add([prompt(random.Random(1), length)], 1)
        return 1e6 * (took + crowd.finish()) / length

    return asyncio.run(measure())


async def with_model(args: argparse.Namespace) -> Report:
    """Seconds of the provided model: first token of long prompts, eight tokens of many branches."""
    from agentrt import Runtime
    from benchmarks.decode import prompts

    async with Runtime(kv_tokens=40_000, threads=args.threads) as runtime:

        async def seconds(asked: list[list[int]], new: int) -> float:
            start = time.perf_counter()
            calls = (runtime.generate(p, max_tokens=new, ignore_eos=True) for p in asked)
            await asyncio.gather(*calls)
            return time.perf_counter() - start

        async def first_token(length: int) -> Costs:
            await runtime.flush_cache()
            return {"ttft_s": await seconds(prompts(1, length, 40_000, length), 1)}

        async def grown(count: int) -> Costs:
            await runtime.flush_cache()
            root = prompts(1, 1_000, 40_000, 1)[0]
            await seconds([root], 1)
            tails = prompts(count, 20, 40_000, count)
            took = await seconds([root + tail for tail in tails], 8)
            return {"model_ms_each": 1e3 * took / count}

        return {
            "branches": {n: await grown(n) for n in BRANCHES},
            "prompt": {n: await first_token(n) for n in PROMPTS},
        }


def points(args: argparse.Namespace) -> list[tuple[str, int, Callable[[], Costs]]]:
    """What is measured: the kind, the size, and a measurement."""
    trees = [10**power for power in range(3, args.tokens + 1)]
    made: list[tuple[str, int, Callable[[], Costs]]] = [
        *(("tree", n, partial(tree, n)) for n in trees),
        *(("waiting", n, lambda n=n: {"step_ms": step_ms(64, waiting=n)}) for n in WAITING),
        *(("branches", n, lambda n=n: {"outside_ms_each": branches(n)}) for n in BRANCHES),
        *(("prompt", n, lambda n=n: {"outside_us_a_token": long_prompt(n)}) for n in PROMPTS),
    ]
    return [point for point in made if point[0] in args.kinds]


def least(runs: list[Costs]) -> Costs:
    return {name: min(run[name] for run in runs) for name in runs[0]}


def report_on(args: argparse.Namespace, progress: Progress) -> Report:
    measured: Report = {kind: {} for kind in args.kinds}
    for kind, size, measure in progress.track(points(args), description="scale"):
        measured[kind][size] = least([measure() for _ in range(args.repeat)])
    for kind, by_size in (asyncio.run(with_model(args)) if args.model else {}).items():
        for size, costs in by_size.items():
            measured.setdefault(kind, {}).setdefault(size, {}).update(costs)
    return measured


def main() -> None:
    parser = options(__doc__, repeat=3)
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--tokens", type=int, default=7, help="the largest tree: 10 to this power")
    parser.add_argument("--model", action="store_true", help="with the provided model as well")
    args = given(parser)
    args.kinds = listed(parser, args.kinds, KINDS)
    with Progress(console=console, disable=args.json) as progress:
        measured = report_on(args, progress)
    if not args.json:
        for kind, by_size in measured.items():
            columns = list(next(iter(by_size.values())))
            rows = [(size, *costs.values()) for size, costs in by_size.items()]
            show(kind, ["size", *columns], rows)
    finish({"scale": measured})


if __name__ == "__main__":
    main()
