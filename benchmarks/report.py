"""What every benchmark prints: a table for people, then one JSON object on the last line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

console = Console(stderr=True)


def show(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    table = Table(*columns, title=title)
    for row in rows:
        table.add_row(*(f"{cell:.4g}" if isinstance(cell, float) else str(cell) for cell in row))
    console.print(table)


def finish(report: dict[str, Any]) -> None:
    """The machine's line."""
    print(json.dumps(report))
