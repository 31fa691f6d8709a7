"""The radix cache as a run left it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.text import Text

from agentrt.trace.viewer.live_draw import clipped
from agentrt.trace.viewer.words import Glyphs, counted, one_line, plural

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentrt.trace.engines import TreeNode
    from agentrt.trace.reading import RecordedRun


@dataclass(frozen=True, slots=True)
class RadixRow:
    """A node of a cache, or what stands above several: then `node` is None."""

    text: str
    lasts: tuple[bool, ...]
    node: TreeNode | None = None
    below: int = 0
    """Tokens in the node and below it."""


def radix_rows(run: RecordedRun) -> list[RadixRow]:
    """The caches of a run's runtimes as they were last looked at, row by row."""
    rows: list[RadixRow] = []
    for runtime in run.runtimes():
        trees = run.trees(runtime.id)
        if not trees:
            continue
        tree = trees[-1]
        for namespace, root in tree.roots.items():
            title = f"{runtime.model}{f' / {namespace}' if namespace else ''}"
            rows.append(RadixRow(one_line(title), (), None, held(root)))
            rows += _below(run, runtime.id, root, ())
    return rows


def radix_line(row: RadixRow, width: int, glyphs: Glyphs) -> Text:
    """A row of the cache: its tokens as text, how many they are, who holds on to them."""
    if row.node is None:
        return Text.assemble((row.text, "bold"), f"  {counted(row.below)} tokens cached")
    lead = "".join("  " if last else glyphs.bar for last in row.lasts[:-1])
    text = Text().append(lead + (glyphs.corner if row.lasts[-1] else glyphs.tee), "dim")
    notes = [f"{counted(row.node.length)} tok"]
    notes += [plural(row.node.locks, "lock")] if row.node.locks else []
    notes += ["pinned"] if row.node.pinned else []
    notes += [f"{row.node.hidden} not recorded"] if row.node.hidden else []
    ends = ", ".join(notes)
    room = max(4, width - text.cell_len - len(ends) - 1)
    text.append(clipped(row.text, room, glyphs), "blue" if row.node.locks else "cyan")
    text.truncate(max(0, width - len(ends) - 1), pad=True)
    return text.append(f" {ends}", "dim")


def held(node: TreeNode) -> int:
    """Tokens in a node and below it."""
    total, waiting = 0, [node]
    while waiting:
        node = waiting.pop()
        total += node.length
        waiting += node.children
    return total


def _below(
    run: RecordedRun, runtime: int, node: TreeNode, lasts: tuple[bool, ...]
) -> Iterator[RadixRow]:
    children = sorted(node.children, key=lambda child: -child.last_use)
    for at, child in enumerate(children):
        text = "(not recorded)"
        if child.tokens is not None:
            text = run.texts.spell(runtime, child.tokens).decode("utf-8", "replace")
        here = (*lasts, at == len(children) - 1)
        yield RadixRow(one_line(text), here, child, held(child))
        yield from _below(run, runtime, child, here)
