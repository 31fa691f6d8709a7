"""Agent programs, beside what a user would pick instead: programs per second, same prompts.

    python -m benchmarks.programs [--peers llama.cpp,openvino] [--workloads json,judge]
                                  [--repeat 1] [--size small|full] [--threads 2] [--json]

Every engine runs in a process of its own, from a cold cache, greedily, and every generation takes
the same number of tokens in all of them (end tokens are forbidden). Engines take turns at each
workload, and the best of the repeats counts, so that what else the machine does falls on all of
them. A peer that is not installed is left out by name. The last line is one JSON object:
programs {size, workloads: {name: {engine: figures, ..., ratio_best_peer}}}, where the ratio is of
programs per second. --json leaves out the tables and the progress bar.
"""

from __future__ import annotations

import argparse
import os
from typing import Any

from rich.progress import Progress

from benchmarks.peers.process import Worker, started
from benchmarks.peers.registry import ENGINES, PEERS
from benchmarks.report import console, finish, show
from benchmarks.workloads import WORKLOADS

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
}


def best(runs: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The fastest of the runs that were; None if none was."""
    done = [run for run in runs if "programs_per_s" in run]
    return max(done, key=lambda run: run["programs_per_s"]) if done else None


def measure(
    workers: list[Worker], names: list[str], size: str, repeat: int, progress: Progress
) -> dict[str, dict[str, Any]]:
    task = progress.add_task("", total=len(names) * len(workers) * repeat)
    measured: dict[str, dict[str, Any]] = {}
    for name in names:
        runs: dict[str, list[dict[str, Any]]] = {worker.name: [] for worker in workers}
        for _ in range(repeat):
            for worker in workers:
                progress.update(task, description=f"{name}: {worker.name}")
                runs[worker.name].append(worker.ask(workload=name, size=size))
                progress.advance(task)
        measured[name] = {engine: best(took) for engine, took in runs.items() if best(took)}
        for engine, took in runs.items():
            for run in took:
                if "failed" in run:
                    progress.console.print(f"[yellow]{name}: {engine} failed:[/] {run['failed']}")
        measured[name]["ratio_best_peer"] = ratio(measured[name])
    return measured


def ratio(by_engine: dict[str, Any]) -> float | None:
    """agentrt's programs per second over those of its best peer."""
    rates = {engine: figures["programs_per_s"] for engine, figures in by_engine.items()}
    ours = rates.pop("agentrt", None)
    return ours / max(rates.values()) if ours and rates else None


def print_tables(measured: dict[str, dict[str, Any]]) -> None:
    for name, by_engine in measured.items():
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
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--peers", default=",".join(PEERS), help=f"of {', '.join(PEERS)}; '' none")
    parser.add_argument("--workloads", default=",".join(WORKLOADS))
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--size", choices=("small", "full"), default="small")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--json", action="store_true", help="no tables, no progress bar")
    args = parser.parse_args()
    args.peers, args.workloads = _listed(args.peers), _listed(args.workloads)
    for given, known in ((args.peers, ENGINES), (args.workloads, WORKLOADS)):
        if unknown := set(given) - set(known):
            parser.error(f"{', '.join(unknown)}: not among {', '.join(known)}")
    return args


def _listed(names: str) -> list[str]:
    return [name for name in names.split(",") if name]


def main() -> None:
    args = arguments()
    with (
        started(("agentrt", *args.peers), args.threads) as workers,
        Progress(console=console, disable=args.json) as progress,
    ):
        measured = measure(workers, args.workloads, args.size, args.repeat, progress)
    if not args.json:
        print_tables(measured)
    finish({"programs": {"size": args.size, "threads": args.threads, "workloads": measured}})


if __name__ == "__main__":
    main()
