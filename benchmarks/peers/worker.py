"""One engine in a process of its own: no thread pool or allocator of another is in its way.

Reads one JSON object a line (workload and size, or prompts and new), writes one a line: what became
of it.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from typing import IO, Any

from pydantic import BaseModel

from agentrt.runtime.codec import ModelCodec
from agentrt.runtime.models import resolve
from benchmarks.peers.registry import make
from benchmarks.workloads import WORKLOADS, Call, Engine, Size, Workload, run, summed_up


class Nothing(BaseModel):
    """What engines learn JSON by."""

    done: bool


async def serve(engine: Engine, told: IO[str], encode: Any) -> None:
    await engine.start()
    await warm_up(engine)
    say(told, {"ready": sorted(engine.can)})
    for line in iter(sys.stdin.readline, ""):
        asked = json.loads(line)
        try:
            if "workload" in asked:
                found = await programs(engine, WORKLOADS[asked["workload"]], asked["size"], encode)
            else:
                found = await together(engine, asked["prompts"], asked["new"])
        except Exception as error:
            found = {"failed": f"{type(error).__name__}: {error}"[:300]}
        say(told, found)
    await engine.stop()


async def programs(engine: Engine, workload: Workload, size: Size, encode: Any) -> dict[str, Any]:
    """The figures of a workload."""
    if not workload.needs <= engine.can:
        return {"cannot": ", ".join(sorted(workload.needs - engine.can))}
    outside = outside_model(engine)
    outcome = await run(engine, workload, size)
    return summed_up(outcome, encode) | outside(outcome.seconds)


async def together(engine: Engine, prompts: list[str], new: int) -> dict[str, Any]:
    """So many new tokens after each of the prompts, all at once: the seconds, first tokens and
    whole."""
    if "text" not in engine.can:
        return {"cannot": "text"}
    await engine.fresh()
    log: list[Call] = []
    branches = [engine.branch(log) for _ in prompts]
    for branch, prompt in zip(branches, prompts, strict=True):
        branch.say(prompt)
    start = time.perf_counter()
    await asyncio.gather(*(branch.gen(new) for branch in branches))
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "first_s": max(call.first_s or seconds for call in log)}


async def warm_up(engine: Engine) -> None:
    """What is loaded or compiled at the first call is not measured; the words are never used.

    A workload's own schema is compiled while it is measured.
    """
    branch = engine.branch([])
    branch.say("Warming up.")
    if "text" in engine.can:
        await branch.gen(4)
    if "json" in engine.can:
        await branch.fill(Nothing, 16)


def outside_model(engine: Engine) -> Any:
    """The share of the time in which agentrt's model was not computing."""
    clock = getattr(engine, "model_seconds", None)
    if clock is None:
        return lambda _: {}
    before = clock()
    return lambda seconds: {"outside_model": 1 - (clock() - before) / seconds}


def say(told: IO[str], what: dict[str, Any]) -> None:
    told.write(json.dumps(what) + "\n")
    told.flush()


def main() -> None:
    # Native libraries write where they like; what this process says goes by another door.
    told = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    start, (name, threads) = time.perf_counter(), sys.argv[1:]
    try:
        engine = make(name, int(threads))
    except ImportError as error:
        say(told, {"missing": str(error)})
        return
    encode = ModelCodec(resolve(None)).encode
    try:
        asyncio.run(serve(engine, told, encode))
    except Exception as error:
        say(told, {"missing": f"{type(error).__name__}: {error}"})
        print(f"{name} gave up after {time.perf_counter() - start:.0f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
