"""The recorded forward as a value: nodes over numbered tensors, sizes in terms of T and R.

T is the number of tokens in a step and R the number of rows whose logits are wanted. No tensors
are in it but by name, so it can be written down, compared and rewritten.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ATTEND = "agentrt.attend"
"""attend(layer, q, k, v, sinks or None): the attention backend's `run`."""
PRODUCT = "agentrt.product"
"""product(key, x): the product of one group of linear layers."""

INPUTS = ("token_ids", "positions", "rows")
"""Values 0, 1 and 2: int64 [T], [T] and [R]."""


class Ref(NamedTuple):
    """A tensor computed earlier in the step, by number."""

    value: int


class Const(NamedTuple):
    """A tensor that is the same in every step, by name."""

    name: str


class Dim(NamedTuple):
    """A whole number that depends on the step: tokens * T + rows * R + constant."""

    tokens: int
    rows: int
    constant: int


class Symbol(NamedTuple):
    """A torch object that is a constant of the library: torch.float32, torch.strided."""

    name: str


class Device(NamedTuple):
    """A device argument; always the model's own."""


Arg = Any
"""Ref, Const, Dim, Symbol, Device, None, bool, int, float, str, or a list of these."""
Size = int | Dim


@dataclass(frozen=True, slots=True)
class Layout:
    """Where a tensor's elements are: sizes and strides, in elements, over the storage of `root`.

    `root` is the value (or constant) whose operation allocated it, which views share.
    """

    root: Ref | Const
    shape: tuple[Size, ...]
    stride: tuple[Size, ...]
    offset: Size
    dtype: str

    @property
    def is_contiguous(self) -> bool:
        """Row-major and dense from the start of its storage, whatever T and R are."""
        expected: Size = 1
        for size, stride in zip(reversed(self.shape), reversed(self.stride), strict=True):
            if size == 1:
                continue
            if stride != expected:
                return False
            expected = times(expected, size) or Dim(-1, -1, -1)
        return self.offset == 0

    def transposed(self, a: int, b: int) -> Layout:
        """The view with two dimensions exchanged."""
        order = list(range(len(self.shape)))
        order[a], order[b] = order[b], order[a]
        return replace(
            self,
            shape=tuple(self.shape[i] for i in order),
            stride=tuple(self.stride[i] for i in order),
        )

    def first(self) -> Layout:
        """The view of the first item along the first dimension."""
        return replace(self, shape=self.shape[1:], stride=self.stride[1:])


@dataclass(frozen=True, slots=True)
class Node:
    """One call. `outputs` are the values it makes; None for one that nobody can refer to."""

    op: str
    args: tuple[Arg, ...]
    kwargs: dict[str, Arg]
    outputs: tuple[int | None, ...]
    mutates: bool = False

    @property
    def output(self) -> int:
        """The value of a call that makes exactly one."""
        (value,) = self.outputs
        return cast("int", value)

    def refs(self) -> Iterator[int]:
        """Every value it reads, once for each time."""
        for arg in walk([*self.args, *self.kwargs.values()]):
            if isinstance(arg, Ref):
                yield arg.value

    def touched(self) -> set[int]:
        """Every value it reads or makes."""
        return {*self.refs(), *(v for v in self.outputs if v is not None)}

    def consts(self) -> Iterator[str]:
        """Every constant it reads."""
        for arg in walk([*self.args, *self.kwargs.values()]):
            if isinstance(arg, Const):
                yield arg.name

    def replaced(self, change: Callable[[Arg], Arg]) -> Node:
        """The same call with `change` applied to every leaf argument."""
        args = tuple(map_args(arg, change) for arg in self.args)
        kwargs = {key: map_args(arg, change) for key, arg in self.kwargs.items()}
        return Node(self.op, args, kwargs, self.outputs, self.mutates)


@dataclass(slots=True)
class Graph:
    """Nodes in order of execution, and the value that holds the logits [R, vocab].

    `prelude` depends on constants alone and runs once, when the graph is loaded. `constants` are
    the shapes of what it names.
    """

    nodes: list[Node]
    output: int
    layouts: dict[int, Layout]
    constants: dict[str, tuple[int, ...]]
    prelude: list[Node] = field(default_factory=list[Node])

    def with_nodes(self, nodes: list[Node]) -> Graph:
        """The same graph with other nodes."""
        return Graph(nodes, self.output, self.layouts, self.constants, self.prelude)

    def volatile(self) -> set[int]:
        """Values whose memory some operation writes to after it is made: not to be moved or shared.

        They come from operations in place, which return the value they were given.
        """
        written = {
            self.layouts[value].root
            for node in self.nodes
            if node.mutates
            for value in (*node.refs(), *(v for v in node.outputs if v is not None))
        }
        return {value for value, layout in self.layouts.items() if layout.root in written}

    def readers(self) -> dict[int, list[Node]]:
        """The nodes that read each value."""
        found: dict[int, list[Node]] = {}
        for node in self.nodes:
            for value in set(node.refs()):
                found.setdefault(value, []).append(node)
        return found

    def makers(self) -> dict[int, Node]:
        """The node that makes each value."""
        return {v: node for node in self.nodes for v in node.outputs if v is not None}

    def fresh(self) -> int:
        """A value number that is not taken."""
        return max(self.layouts, default=len(INPUTS)) + 1


def walk(args: list[Arg]) -> Iterator[Arg]:
    """The leaves of nested argument lists."""
    for arg in args:
        if isinstance(arg, list):
            yield from walk(cast("list[Arg]", arg))
        else:
            yield arg


def map_args(arg: Arg, change: Callable[[Arg], Arg]) -> Arg:
    """Applies `change` to the leaves of nested argument lists."""
    if isinstance(arg, list):
        return [map_args(item, change) for item in cast("list[Arg]", arg)]
    return change(arg)


def times(a: Size, b: Size) -> Size | None:
    """The product of two sizes; None when it is not linear in T and R."""
    if isinstance(a, Dim) and isinstance(b, Dim):
        return None
    if isinstance(a, Dim):
        a, b = b, a
    if isinstance(b, Dim):
        return Dim(*(cast("int", a) * part for part in b))
    return cast("int", a) * b
