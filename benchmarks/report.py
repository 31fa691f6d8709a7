"""What every benchmark prints: a table for people, then one JSON object on the last line."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

# Not a terminal, rich thinks of 80 columns, and cuts what is in a table's cells.
console = Console(stderr=True, width=None if sys.stderr.isatty() else 160)


def show(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    table = Table(*columns, title=title)
    for row in rows:
        table.add_row(*(f"{cell:.4g}" if isinstance(cell, float) else str(cell) for cell in row))
    console.print(table)


def finish(report: dict[str, Any]) -> None:
    """The machine's line."""
    print(json.dumps(report))
