"""From a cold process to the first token of a 50-token prompt, imports included.

    python -m benchmarks.startup [--repeat 5]

Each start is a new process; the model is already converted. The last line is one JSON object with
the seconds of every start and their median.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time

from benchmarks.report import finish, show

START = """
import asyncio
from agentrt import Runtime
async def main():
    async with Runtime() as runtime:
        ids = runtime.tokenize("word " * 60)[:50]
        async with runtime.stream(ids, max_tokens=8) as stream:
            async for chunk in stream:
                print("token", flush=True)
                break
asyncio.run(main())
"""


def start_once() -> float:
    begun = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-c", START], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    line = process.stdout.readline()
    seconds = time.perf_counter() - begun
    process.wait()
    if line != "token\n":
        raise SystemExit("the runtime did not start; run it by hand to see why")
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=5)
    args = parser.parse_args()
    start_once()  # converts, compiles, fills the page cache
    seconds = [start_once() for _ in range(args.repeat)]
    median = statistics.median(seconds)
    show("Start to first token", ["start", "seconds"], [*enumerate(seconds, 1), ("median", median)])
    finish({"seconds": seconds, "median_s": median})


if __name__ == "__main__":
    main()
