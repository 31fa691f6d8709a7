"""What the radix cache and the engine cost when they help nobody.

    python -m benchmarks.overhead [--requests 64] [--prompt 200] [--new 32]

Prompts share nothing. `zero_reuse_share` is the time spent inside the radix cache (match, lock,
hand over, evict) over the wall time of the run; `engine_share` that of everything in a step outside
the model. `step_ms` is the processor time of a decode step outside the model with 1, 64 and 1,024
running (a model that answers at once stands in), `step_ms_10000_waiting` that with 64 running and
10,000 waiting. The last line is one JSON object with all of them.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from typing import Any

from agentrt import Runtime
from agentrt.runtime.radix import RadixCache
from benchmarks.crowds import step_ms
from benchmarks.decode import prompts
from benchmarks.report import finish, show

CACHE = ("match", "match_from", "acquire", "advance", "extend", "release", "evict")


class Clock:
    """Adds up the wall time spent in methods of a class, calls inside calls counted once."""

    def __init__(self, owner: Any, names: tuple[str, ...]) -> None:
        self.seconds = 0.0
        self._depth = 0
        for name in names:
            setattr(owner, name, self._timed(getattr(owner, name)))

    def _timed(self, method: Any) -> Any:
        def timed(*args: Any, **kwargs: Any) -> Any:
            self._depth += 1
            start = time.perf_counter()
            try:
                return method(*args, **kwargs)
            finally:
                self._depth -= 1
                if not self._depth:
                    self.seconds += time.perf_counter() - start

        return timed


async def measure(args: argparse.Namespace) -> dict[str, float]:
    cache = Clock(RadixCache, CACHE)
    async with Runtime() as runtime:
        executor = type(runtime._served.loaded.executor)
        model = Clock(executor, ("execute",))
        asked = prompts(args.requests, args.prompt, 40_000, 1)
        start, cache.seconds, model.seconds = time.perf_counter(), 0.0, 0.0
        await asyncio.gather(
            *(runtime.generate(p, max_tokens=args.new, ignore_eos=True) for p in asked)
        )
        wall = time.perf_counter() - start
        assert runtime.stats().hit_rate == 0.0
    return {
        "wall_s": wall,
        "zero_reuse_share": cache.seconds / wall,
        "engine_share": 1 - model.seconds / wall,
    }


def steps() -> dict[str, Any]:
    """Milliseconds of a step outside the model, by how many there are."""
    return {
        "step_ms": {running: step_ms(running) for running in (1, 64, 1_024)},
        "step_ms_10000_waiting": step_ms(64, waiting=10_000),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=64)
    parser.add_argument("--prompt", type=int, default=200)
    parser.add_argument("--new", type=int, default=32)
    args = parser.parse_args()
    report = asyncio.run(measure(args)) | steps()
    show("Zero reuse", ["figure", "value"], report.items())
    finish(report)


if __name__ == "__main__":
    main()
