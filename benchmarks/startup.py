"""From a cold process to the first token of a 50-token prompt, imports included.

    python -m benchmarks.startup [--repeat 5] [--json]

Each start is a new process; the model is already converted. The last line is one JSON object with
the seconds of every start and their median; --json leaves out the table.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

from benchmarks.report import finish, given, options, show

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
    args = given(options(__doc__, repeat=5))
    start_once()  # converts, compiles, fills the page cache
    seconds = [start_once() for _ in range(args.repeat)]
    median = statistics.median(seconds)
    if not args.json:
        rows: list[tuple[object, float]] = [*enumerate(seconds, 1), ("median", median)]
        show("Start to first token", ["start", "seconds"], rows)
    finish({"seconds": seconds, "median_s": median})


if __name__ == "__main__":
    main()
