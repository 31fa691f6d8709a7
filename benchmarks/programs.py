"""Agent programs, beside what a user would pick instead: programs per second, same prompts.

    python -m benchmarks.programs [--peers llama.cpp,openvino] [--workloads json,judge]
                                  [--size small|medium|full] [--limit SECONDS] [--repeat 1]
                                  [--threads 2] [--data DIR] [--json]

Every engine runs in a process of its own, from a cold cache, greedily, and every generation takes
the same number of tokens in all of them (end tokens are forbidden). Engines take turns at each
workload, and the best of the repeats counts, so that what else the machine does falls on all of
them. A peer that is not installed is left out by name. An engine that is not done with a workload
after --limit seconds is stopped; its programs per second are then an upper bound ("unfinished").
The last line is one JSON object: programs {size, threads, texts, workloads: {name: {engine:
figures, ..., ratio_best_peer}}}, where the ratio is of programs per second. --json leaves out the
tables and the progress bar.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.progress import Progress

from benchmarks import data
from benchmarks.peers.process import started
from benchmarks.peers.registry import OURS, PEERS
from benchmarks.report import console, finish, given, listed, options, show
from benchmarks.workloads import WORKLOADS

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from benchmarks.peers.process import Worker

COLUMNS = {
    "programs_per_s": "programs/s",
    "seconds": "s",
    "tokens_per_s": "tokens/s",
    "ttft_p50_s": "TTFT p50 s",
    "ttft_p95_s": "p95",
    "hit_rate": "hit rate",
    "computed_over_least": "computed/least",
    "valid": "valid",
    "outside_model": "outside model",
    "unfinished": "unfinished",
}
Figures = dict[str, Any]


def measure(
    workers: Sequence[Worker], args: argparse.Namespace, progress: Progress
) -> dict[str, Figures]:
    """The figures of every engine on every workload it can do."""
    task = progress.add_task("", total=len(args.workloads) * len(workers) * args.repeat)
    measured: dict[str, Figures] = {}
    for name in args.workloads:
        runs: dict[str, list[Figures]] = {worker.name: [] for worker in workers}
        for _ in range(args.repeat):
            for worker in workers:
                progress.update(task, description=f"{name}: {worker.name}")
                told = worker.ask(limit=args.limit, workload=name, size=args.size)
                runs[worker.name].append(bounded(told, len(WORKLOADS[name].programs(args.size))))
                progress.advance(task)
                if "failed" in told:
                    console.print(f"[yellow]{name}: {worker.name} failed:[/] {told['failed']}")
        found = {engine: best(took) for engine, took in runs.items()}
        measured[name] = {engine: took for engine, took in found.items() if took is not None}
        measured[name]["ratio_best_peer"] = ratio(measured[name])
        if not args.json:
            print_table(name, measured[name])
    return measured


def bounded(told: Figures, programs: int) -> Figures:
    """What an engine told; of one that was stopped, the most it can have done."""
    if "over_s" not in told:
        return told
    return {
        "programs_per_s": programs / told["over_s"],
        "seconds": told["over_s"],
        "unfinished": True,
    }


def best(runs: list[Figures]) -> Figures | None:
    """The fastest of the runs that were; None if none was."""
    done = [run for run in runs if "programs_per_s" in run]
    return max(done, key=lambda run: run["programs_per_s"]) if done else None


def ratio(by_engine: Figures) -> float | None:
    """agentrt's programs per second over those of its best peer."""
    rates = {engine: figures["programs_per_s"] for engine, figures in by_engine.items()}
    ours, rates = rates.get("agentrt"), {e: r for e, r in rates.items() if e not in OURS}
    return ours / max(rates.values()) if ours and rates else None


def print_table(name: str, by_engine: Figures) -> None:
    taken = {engine: took for engine, took in by_engine.items() if isinstance(took, dict)}
    told = [c for c in COLUMNS if any(took.get(c) is not None for took in taken.values())]
    rows = [
        (engine, *("" if took.get(c) is None else took[c] for c in told))
        for engine, took in taken.items()
    ]
    over = by_engine["ratio_best_peer"]
    title = name if over is None else f"{name}: {over:.2f} times the best peer"
    show(title, ["engine", *(COLUMNS[c] for c in told)], rows)


def arguments() -> argparse.Namespace:
    parser = options(__doc__, repeat=1, peers=PEERS)
    parser.add_argument("--workloads", default=",".join(WORKLOADS))
    parser.add_argument("--size", choices=("small", "medium", "full"), default="small")
    parser.add_argument("--limit", type=float, help="seconds of an engine for a workload")
    args = given(parser)
    args.workloads = listed(parser, args.workloads, WORKLOADS)
    return args


def main() -> None:
    args = arguments()
    console.print(f"texts: {data.described()}; size: {args.size}")
    with (
        started(("agentrt", *args.peers), args.threads) as workers,
        Progress(console=console, disable=args.json) as progress,
    ):
        measured = measure(workers, args, progress)
    how = {"size": args.size, "threads": args.threads, "texts": data.described()}
    finish({"programs": how | {"workloads": measured}})


if __name__ == "__main__":
    main()
