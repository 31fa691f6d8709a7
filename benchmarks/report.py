"""What benchmarks share: their options, and what they print.

A table for people goes to the standard error, one JSON object to the last line of the output.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from benchmarks import data

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

# Not a terminal, rich thinks of 80 columns, and cuts what is in a table's cells.
console = Console(stderr=True, width=None if sys.stderr.isatty() else 160)


def options(doc: str | None, *, repeat: int, peers: Sequence[str] = ()) -> argparse.ArgumentParser:
    """The arguments that every benchmark has. `given` reads them."""
    parser = argparse.ArgumentParser(description=(doc or "").splitlines()[0])
    if peers:
        parser.add_argument("--peers", default=",".join(peers), help="names; '' none")
    parser.set_defaults(known_peers=peers)
    parser.add_argument("--repeat", type=int, default=repeat, help="the best of so many counts")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--data", metavar="DIR", help=f"datasets (default: {data.folder()})")
    parser.add_argument("--json", action="store_true", help="no tables, no progress bar")
    return parser


def given(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """The arguments of this process; ends it where a name is none of those known."""
    args = parser.parse_args()
    data.use(args.data)
    if args.known_peers:
        args.peers = listed(parser, args.peers, args.known_peers)
    return args


def listed(parser: argparse.ArgumentParser, names: str, known: Iterable[str]) -> list[str]:
    """Names apart by commas."""
    wanted = [name for name in names.split(",") if name]
    if unknown := [name for name in wanted if name not in known]:
        parser.error(f"{', '.join(unknown)}: not among {', '.join(known)}")
    return wanted


def show(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    table = Table(*columns, title=title)
    for row in rows:
        table.add_row(*(f"{cell:.4g}" if isinstance(cell, float) else str(cell) for cell in row))
    console.print(table)


def finish(report: dict[str, Any]) -> None:
    """The machine's line."""
    print(json.dumps(report))
