"""What a record says of the engine below the programs: its steps, and its cache as a tree."""

from __future__ import annotations

import struct
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from agentrt.trace.spans import Value

MOST_STEPS = 1 << 16
"""Steps that wait to be stored; the oldest go when there are more."""
_STEP = struct.Struct("<qf8i")


class EngineStep(NamedTuple):
    """One step of an engine: when it ended, how long it took, what it did, how it left the pool.

    `computed` tokens went through the model, `written` ones were added to outputs, `evicted` ones
    left the cache since the step before.
    """

    ended_ns: int
    seconds: float
    computed: int
    written: int
    running: int
    waiting: int
    slots_free: int
    slots_cached: int
    slots_held: int
    evicted: int


class EngineBatches(NamedTuple):
    """What the steps of a short stretch of time add up to.

    `seconds` is how long they took of it; `running`, `waiting` and `slots_held` are the most there
    were, `slots_cached` and `slots_free` what the last one left.
    """

    started_ns: int
    ended_ns: int
    steps: int
    seconds: float
    computed: int
    written: int
    evicted: int
    running: int
    waiting: int
    slots_held: int
    slots_cached: int
    slots_free: int


@dataclass(frozen=True, slots=True)
class TreeNode:
    """A node of the radix cache at one moment: the run of tokens it holds after its parent's.

    `tokens` is None where content is not recorded; `locks` and `last_use` are the cache's own
    counters, `pinned` says that a pin ends here, `hidden` how many children were left out.
    """

    length: int
    tokens: tuple[int, ...] | None = None
    locks: int = 0
    last_use: int = 0
    pinned: bool = False
    hidden: int = 0
    children: tuple[TreeNode, ...] = ()


@dataclass(frozen=True, slots=True)
class Tree:
    """The radix cache at one moment, a root for each namespace; not more than its upper part."""

    at_ns: int
    roots: Mapping[str, TreeNode]


@dataclass(slots=True, eq=False)
class RecordedRuntime:
    """One runtime as a recorder knows it: what names it, and where its engine leaves its steps.

    `token_bytes` gives what a token stands for in a text.
    """

    id: int
    model: str
    token_bytes: Callable[[int], bytes]
    attributes: Mapping[str, Value]
    steps: deque[EngineStep] = field(default_factory=lambda: deque(maxlen=MOST_STEPS))
    """Filled by the engine's thread, emptied by the recorder's."""
    trees: deque[Tree] = field(default_factory=lambda: deque(maxlen=16))


def pack_steps(steps: Iterable[EngineStep]) -> bytes:
    return b"".join([_STEP.pack(*step) for step in steps])


def unpack_steps(data: bytes) -> list[EngineStep]:
    return [EngineStep(*values) for values in _STEP.iter_unpack(data)]


def tree_json(node: TreeNode, *, content: bool) -> list[object]:
    """A node as JSON that is short: [tokens or length, locks, last_use, pinned, hidden, children].

    Without content its tokens are left out.
    """
    return [
        list(node.tokens) if content and node.tokens is not None else node.length,
        node.locks,
        node.last_use,
        int(node.pinned),
        node.hidden,
        [tree_json(child, content=content) for child in node.children],
    ]


def tree_node(parts: Sequence[object]) -> TreeNode:
    """The node that `tree_json` wrote."""
    run, locks, last_use, pinned, hidden, children = parts
    assert isinstance(children, list)
    return TreeNode(
        length=run if isinstance(run, int) else len(run),  # pyright: ignore[reportArgumentType]
        tokens=None if isinstance(run, int) else tuple(run),  # pyright: ignore[reportArgumentType]
        locks=locks,  # pyright: ignore[reportArgumentType]
        last_use=last_use,  # pyright: ignore[reportArgumentType]
        pinned=bool(pinned),
        hidden=hidden,  # pyright: ignore[reportArgumentType]
        children=tuple(tree_node(child) for child in children),
    )
