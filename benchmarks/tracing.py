"""What recording costs, what a record takes, and how fast a large one is opened and searched.

    python -m benchmarks.tracing [--rounds 15] [--calls 64] [--spans 100000] [--scripted-only]

The programs are those that give a recorder the most to do for each token: a prompt of eight tokens
and one token out. Rounds of them run with the recorder listening and without it, in turn, on one
runtime; a recorded round lasts until everything it said is stored. `added_us` is the processor time
that recording adds to a call, all threads counted: the difference of the best rounds over the
scripted model, whose own calls take next to none. `recording_share` is that over the time a call
takes on the provided model; `wall_share` compares best rounds by the clock, and is as noisy as the
machine is. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentrt import Runtime, State, program
from agentrt.testing import ScriptedModel
from agentrt.trace import (
    SpanKind,
    TraceConfig,
    add_sink,
    current_recording,
    open_run,
    recording,
    remove_sink,
    span,
    start_span,
)
from agentrt.trace import attributes as names
from benchmarks.decode import prompts
from benchmarks.report import finish, show

if TYPE_CHECKING:
    from agentrt.runtime.source import ModelSource

Figures = dict[str, float]
PROMPT = 8
SCRIPTED_VOCAB = 1_256
"""What `prompts` leaves room for beside it; the ids it draws are bytes."""


@program
async def shortest(s: State, prompt: list[int]) -> None:
    await s.runtime.generate(prompt, max_tokens=1)


async def run_round(
    runtime: Runtime, asked: list[list[int]], *, together: bool
) -> tuple[float, float]:
    """Seconds and processor seconds that the calls take, at once or in turn, until stored."""
    await runtime.flush_cache()
    run = current_recording()
    assert run is not None
    start, busy = time.perf_counter(), time.process_time()
    if together:
        await asyncio.gather(*(shortest(prompt) for prompt in asked))
    else:
        for prompt in asked:
            await shortest(prompt)
    run.flush()
    return time.perf_counter() - start, time.process_time() - busy


async def cost(
    model: ModelSource | None, folder: Path, rounds: int, calls: int, *, together: bool, vocab: int
) -> Figures:
    """What rounds of the shortest programs take, recorded and not."""
    taken: dict[bool, list[tuple[float, float]]] = {True: [], False: []}
    async with Runtime(model, trace=TraceConfig(folder=folder), kv_tokens=4096) as runtime:
        run = current_recording()
        assert run is not None
        thread = runtime._served.thread
        steps = thread._on_step
        for i in range(rounds + 1):
            for on in (True, False)[:: 1 if i % 2 else -1]:
                add_sink(run.recorder) if on else remove_sink(run.recorder)
                thread._on_step = steps if on else None
                asked = prompts(calls, PROMPT, vocab, 2 * i + on)
                figures = await run_round(runtime, asked, together=together)
                if i:  # the first is to warm up
                    taken[on].append(figures)
        add_sink(run.recorder)
    (on_s, on_busy), (off_s, off_busy) = (
        [min(figures) / calls for figures in zip(*taken[on], strict=True)] for on in (True, False)
    )
    return {
        "off_us": off_s * 1e6,
        "on_us": on_s * 1e6,
        "wall_share": 1 - off_s / on_s,
        "added_us": (on_busy - off_busy) * 1e6,
    }


def costs(args: argparse.Namespace, folder: Path) -> dict[str, Figures]:
    out: dict[str, Figures] = {}
    for how in ("in turn", "together"):
        together = how == "together"
        scripted = asyncio.run(
            cost(
                ScriptedModel.babbling(),
                folder,
                4 * args.rounds,
                args.calls,
                together=together,
                vocab=SCRIPTED_VOCAB,
            )
        )
        out[f"scripted, {how}"] = scripted
        if not args.scripted_only:
            provided = asyncio.run(
                cost(None, folder, args.rounds, args.calls, together=together, vocab=40_000)
            )
            provided["added_us"] = scripted["added_us"]  # of its own it is lost in the noise
            provided["recording_share"] = scripted["added_us"] / provided["off_us"]
            out[f"provided, {how}"] = provided
    return out


def recording_share(folder: Path, *, rounds: int, calls: int = 64) -> float:
    """The most that recording adds to calls of the provided model, as a share of their time."""
    how = argparse.Namespace(rounds=rounds, calls=calls, scripted_only=False)
    return max(got.get("recording_share", 0.0) for got in costs(how, folder).values())


async def sizes(folder: Path) -> Figures:
    """Bytes an almost empty record takes, and each 1,000 tokens of prompts and outputs more."""
    out: Figures = {"empty_bytes": (await record_of(folder, [65], 1, 1))[0]}
    for name, length, branches, new in (("separate", 40, 500, 200), ("branches", 2000, 200, 20)):
        shared = prompts(1, length, SCRIPTED_VOCAB, 1)[0]
        size, tokens, new_tokens = await record_of(folder, shared, branches, new)
        out[f"{name}_bytes_per_1000"] = (size - out["empty_bytes"]) / tokens * 1000
        out[f"{name}_bytes_per_1000_new"] = (size - out["empty_bytes"]) / new_tokens * 1000
    return out


async def record_of(
    folder: Path, prompt: list[int], branches: int, new: int
) -> tuple[int, int, int]:
    """Size of a run of generations that share a prompt, its tokens, and those computed for it."""
    model = ScriptedModel.babbling(num_slots=60_000)
    async with Runtime(model, trace=TraceConfig(folder=folder)) as runtime:
        run = current_recording()
        assert run is not None
        for i in range(0, branches, 20):
            await asyncio.gather(
                *(
                    runtime.generate([*prompt, j % 256, j // 256], max_tokens=new, ignore_eos=True)
                    for j in range(i, min(i + 20, branches))
                )
            )
    with open_run(run.path) as record:
        info = record.info()
    usage = info.usage
    computed = usage.computed_tokens + usage.output_tokens
    return info.size_bytes, usage.prompt_tokens + usage.output_tokens, computed


def write_large(folder: Path, spans: int) -> Path:
    """A run of that many spans: programs of ten steps, each with a generation."""
    shared = list(range(300))
    with recording(TraceConfig(folder=folder), name="large") as run:
        assert run is not None
        run.recorder.add_runtime("model", lambda i: f"word{i % 5000} ".encode(), {})
        for made in range(0, spans, 21):
            with span(SpanKind.PROGRAM, f"program {made % 7}"):
                for i in range(10):
                    with span(SpanKind.STEP, f"step {i}"):
                        _generate([*shared, made, i], [made % 5000, i, 7, 8, 9] * 4)
            if made % 2100 == 0:
                run.flush()
        return run.path


def _generate(prompt: list[int], output: list[int]) -> None:
    made = start_span(
        SpanKind.GENERATION,
        "text_completion model",
        {names.RUNTIME_ID: 1, names.REQUEST_MODEL: "model", names.PROMPT_IDS: prompt},
    )
    made.set(
        {
            names.USAGE_INPUT_TOKENS: len(prompt),
            names.USAGE_CACHED_TOKENS: 0,
            names.USAGE_SAMPLED_TOKENS: len(output),
            names.USAGE_FORCED_TOKENS: 0,
            names.TIMING_DECODE_S: 0.1,
            names.TOKEN_IDS: output,
        }
    )
    made.end()


def reading(folder: Path, spans: int) -> Figures:
    """Seconds to open a large run to its first page, to page to the end, to search, to sum up."""
    start = time.perf_counter()
    path = write_large(folder, spans)
    out: Figures = {"write_s": time.perf_counter() - start}
    with open_run(path) as run:
        out["size_mb"] = run.info().size_bytes / 1e6
        out["spans"] = run.info().spans

    def timed(name: str, work: Any) -> None:
        best = float("inf")
        for _ in range(3):
            start = time.perf_counter()
            with open_run(path) as run:
                work(run)
            best = min(best, time.perf_counter() - start)
        out[name] = best

    def pages(run: Any) -> None:
        last = 0
        while page := run.spans(after=last):
            last = page[-1].id

    timed("open_s", lambda run: (run.info(), run.children(run.root().id)))
    timed("last_page_s", lambda run: run.children(run.root().id, offset=spans // 21 - 200))
    timed("all_pages_s", pages)
    timed("search_output_s", lambda run: list(run.search("word4997 word9 ")))
    timed("search_nothing_s", lambda run: list(run.search("nowhere to be found")))
    timed("usage_by_program_s", lambda run: run.usage_by_program())
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--calls", type=int, default=64)
    parser.add_argument("--spans", type=int, default=100_000)
    parser.add_argument("--scripted-only", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        spent = costs(args, folder)
        columns = ["off_us", "on_us", "wall_share", "added_us", "recording_share"]
        rows = [[how, *(got.get(column, "") for column in columns)] for how, got in spent.items()]
        show("Recording, a call", ["program", *columns], rows)
        size = asyncio.run(sizes(folder))
        show("Size", ["figure", "value"], size.items())
        read = reading(folder, args.spans)
        show(f"A run of {args.spans} spans", ["figure", "value"], read.items())
    finish({"recording": spent, **size, **read})


if __name__ == "__main__":
    main()
