"""Makes one graph in terms of T and R out of traces at several sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, cast

import torch

from agentrt.runtime.model.graph.ir import Arg, Dim, Graph, Layout, Node, Size
from agentrt.runtime.model.graph.trace import NotCapturable, Placement, Trace

if TYPE_CHECKING:
    from collections.abc import Sequence


class StepSize(NamedTuple):
    """How many tokens a trace computed and how many rows it wanted."""

    tokens: int
    rows: int


def unify(traces: Sequence[tuple[StepSize, Trace]]) -> Graph:
    """The graph that every trace is an instance of; raises NotCapturable when there is none."""
    sizes = [size for size, _ in traces]
    all_nodes = [trace.nodes for _, trace in traces]
    if len({len(nodes) for nodes in all_nodes}) > 1:
        raise NotCapturable("the number of operations depends on the tokens")
    nodes = [_node(sizes, same) for same in zip(*all_nodes, strict=True)]
    placements = [trace.placements for _, trace in traces]
    layouts = {value: _layout(sizes, [p[value] for p in placements]) for value in placements[0]}
    _same_constants([trace.constants for _, trace in traces])
    shapes = {name: tuple(tensor.shape) for name, tensor in traces[0][1].constants.items()}
    return Graph(nodes, traces[0][1].output, layouts, shapes)


def _node(sizes: list[StepSize], nodes: Sequence[Node]) -> Node:
    first = nodes[0]
    for node in nodes[1:]:
        if (
            node.op != first.op
            or node.outputs != first.outputs
            or node.kwargs.keys() != (first.kwargs.keys())
        ):
            raise NotCapturable(f"where one step calls {first.op} another calls {node.op}")
    args = _merge(sizes, [list(node.args) for node in nodes])
    kwargs = {key: _merge(sizes, [n.kwargs[key] for n in nodes]) for key in first.kwargs}
    return Node(first.op, tuple(args), kwargs, first.outputs, first.mutates)


def _merge(sizes: list[StepSize], args: list[Arg]) -> Any:
    first = args[0]
    if isinstance(first, list):
        length = len(cast("list[Arg]", first))
        if any(not isinstance(arg, list) or len(arg) != length for arg in args):
            raise NotCapturable("an operation takes a list whose length depends on the tokens")
        return [_merge(sizes, list(items)) for items in zip(*args, strict=True)]
    if all(type(arg) is type(first) and arg == first for arg in args):
        return first
    if all(type(arg) is int for arg in args):
        return _dim(sizes, args)
    raise NotCapturable(
        f"an operation is given {args[0]!r} in one step and {args[-1]!r} in another"
    )


def _dim(sizes: list[StepSize], values: list[int]) -> Size:
    """The simplest a * T + b * R + c through all the values; T alone before R alone."""
    if len(set(values)) == 1:
        return values[0]
    for axis in (0, 1):
        slope, rest = divmod(values[1] - values[0], sizes[1][axis] - sizes[0][axis])
        constant = values[0] - slope * sizes[0][axis]
        fits = (slope * s[axis] + constant == v for s, v in zip(sizes, values, strict=True))
        if not rest and all(fits):
            return Dim(slope, 0, constant) if axis == 0 else Dim(0, slope, constant)
    raise NotCapturable(f"a size is {values} in steps of {[tuple(size) for size in sizes]}")


def _layout(sizes: list[StepSize], places: list[Placement]) -> Layout:
    first = places[0]
    if any(p.root != first.root or p.dtype != first.dtype for p in places):
        raise NotCapturable("which tensors share memory depends on the tokens")
    return Layout(
        first.root,
        tuple(_merge(sizes, [list(p.shape) for p in places])),
        tuple(_merge(sizes, [list(p.stride) for p in places])),
        _merge(sizes, [p.offset for p in places]),
        first.dtype,
    )


def _same_constants(constants: list[dict[str, torch.Tensor]]) -> None:
    first = constants[0]
    for other in constants[1:]:
        if other.keys() != first.keys():
            raise NotCapturable("which constants it reads depends on the tokens")
        for name, tensor in first.items():
            if not _identical(tensor, other[name]):
                raise NotCapturable(f"the constant {name} depends on the tokens")


def _identical(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a is b or (a.dtype == b.dtype and torch.equal(a, b))
