"""Measures what docs/performance.md shows, and writes its tables.

    python -m benchmarks.figures [--parts decode,programs] [--list] [--data DIR] [--kept DIR]
                                 [--write-only]

Every part is one command of a benchmark; its JSON is kept in --kept, and its table is written
between `<!-- figures: PART -->` and `<!-- end -->`, under the command that made it. --write-only
writes the tables from what was kept. Run it on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shlex
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import data
from benchmarks.report import console
from benchmarks.tables import (
    branches_and_prompts,
    costs,
    decode,
    own_programs,
    programs,
    replicas,
    scale,
    startup,
)

if TYPE_CHECKING:
    from collections.abc import Callable

PAGE = Path(__file__).parents[1] / "docs" / "performance.md"
PEERS = ("llama_cpp_python", "openvino-genai", "transformers", "outlines", "guidance")
TEXT_PEERS = "llama.cpp,openvino,transformers-cb"


@dataclass(frozen=True, slots=True)
class Part:
    """A command, about how many minutes it takes on two quiet cores, and what shows its JSON."""

    command: str
    minutes: float
    table: Callable[[Any], list[str]]


PARTS = {
    "decode": Part(
        f"decode --batches 1 --prompt 512 --new 128 --repeat 2 --limit 60 "
        f"--peers agentrt-plain,{TEXT_PEERS},transformers",
        3,
        decode,
    ),
    "batches": Part(
        "decode --batches 8,32,64 --prompt 64 --new 32 --repeat 2 --limit 60 "
        "--peers agentrt-file,openvino,transformers",
        6,
        decode,
    ),
    "short": Part(
        "decode --batches 32 --prompt 16 --new 64 --repeat 5 --limit 90 --peers openvino",
        2,
        decode,
    ),
    "programs": Part(
        "programs --size medium --limit 30 --peers agentrt-file,llama.cpp,openvino "
        "--workloads few_shot_select,few_shot_generate,self_consistency,tree_of_thought,judge,"
        "multi_chain,generative_agents,chat_short,retrieval,zero_reuse",
        16,
        programs,
    ),
    "longer": Part(
        "programs --size medium --limit 75 --peers llama.cpp,openvino "
        "--workloads json,game24,chat_long,tip_suggestion,react",
        14,
        programs,
    ),
    "closest": Part(
        "programs --size medium --repeat 2 --limit 40 --peers llama.cpp,openvino "
        "--workloads tree_of_thought,generative_agents,chat_short,json",
        8,
        programs,
    ),
    "overhead": Part("overhead --requests 32 --repeat 2", 2, costs),
    "startup": Part("startup", 0.5, startup),
    "model": Part("scale --model --kinds branches,prompt --repeat 1", 2, branches_and_prompts),
    "bounds": Part(
        "programs --size full --limit 300 --peers '' --workloads judge,game24", 5, own_programs
    ),
    "continuous": Part(
        "programs --size medium --limit 45 --peers transformers-cb "
        "--workloads few_shot_generate,tree_of_thought,chat_short",
        3,
        programs,
    ),
    "scale": Part("scale", 1.5, scale),
    "replicas": Part("replicas", 3, replicas),
}
"""In the order of what is wanted most, should time run out."""


def measure(part: Part, folder: str | None) -> dict[str, Any]:
    """Runs a benchmark, its progress on this terminal; its last line, and what made it."""
    argv = shlex.split(part.command)
    where = ["--data", folder] if folder and argv[0] == "programs" else []
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{argv[0]}", *argv[1:], *where],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return {
        "command": f"python -m benchmarks.{part.command}",
        "minutes": (time.perf_counter() - began) / 60,
        "machine": machine(),
        "report": json.loads(done.stdout.splitlines()[-1]),
    }


def machine() -> str:
    """Where and with what it was measured."""
    cpu = re.search(r"model name\s*:\s*(.*)", Path("/proc/cpuinfo").read_text())
    cores = len(os.sched_getaffinity(0))
    found = [f"{name} {installed}" for name in PEERS if (installed := _version(name))]
    return (
        f"{cpu[1] if cpu else platform.machine()}, {cores} cores, {platform.system()}, "
        f"Python {platform.python_version()}, torch {version('torch')}; {', '.join(found)}"
    )


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def written(page: str, name: str, kept: dict[str, Any]) -> str:
    """The page with a part's table in its place. Raises ValueError where it has no place."""
    block = [
        f"<!-- figures: {name} -->",
        f"`{kept['command']}` ({kept['minutes']:.1f} min; {kept['machine']}):",
        "",
        *PARTS[name].table(kept["report"]),
        "<!-- end -->",
    ]
    place = re.compile(rf"<!-- figures: {name} -->\n.*?<!-- end -->", re.DOTALL)
    changed, count = place.subn(lambda _: "\n".join(block), page)
    if count != 1:
        raise ValueError(f"{PAGE} has {count} places for the figures of {name}; one is wanted")
    return changed


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--list", action="store_true", help="what there is, and its minutes")
    parser.add_argument("--data", metavar="DIR", help=f"datasets (default: {data.folder()})")
    default = Path(tempfile.gettempdir()) / "agentrt-figures"
    parser.add_argument("--kept", type=Path, default=default, help=f"(default: {default})")
    parser.add_argument("--write-only", action="store_true")
    args = parser.parse_args()
    args.parts = args.parts.split(",")
    if unknown := set(args.parts) - set(PARTS):
        parser.error(f"{', '.join(unknown)}: not among {', '.join(PARTS)}")
    return args


def main() -> None:
    args = arguments()
    args.kept.mkdir(parents=True, exist_ok=True)
    for name in args.parts:
        part, file = PARTS[name], args.kept / f"{name}.json"
        if args.list:
            print(f"{name:9} {part.minutes:4} min  python -m benchmarks.{part.command}")
            continue
        if not args.write_only:
            console.rule(f"{name}, about {part.minutes} minutes")
            file.write_text(json.dumps(measure(part, args.data)))
        if file.is_file():
            PAGE.write_text(written(PAGE.read_text(), name, json.loads(file.read_text())))


if __name__ == "__main__":
    main()
