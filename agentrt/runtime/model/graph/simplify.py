"""Rewrites that change no result: what is constant, idle, repeated or a chain of views.

What has to do with memory that is written in place stays as it was recorded, and where.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, cast

from agentrt.runtime.model.graph.ir import (
    ATTEND,
    Arg,
    Dim,
    Graph,
    Node,
    Ref,
    walk,
)

if TYPE_CHECKING:
    from collections.abc import Callable

_END = 2**63 - 1  # how a slice says "to the end"
_VIEWS = frozenset(
    f"aten.{name}"
    for name in (
        "alias.default",
        "detach.default",
        "expand.default",
        "permute.default",
        "select.int",
        "slice.Tensor",
        "split.Tensor",
        "split_with_sizes.default",
        "squeeze.dim",
        "t.default",
        "transpose.int",
        "unsqueeze.default",
        "view.default",
    )
)
AS_STRIDED = "aten.as_strided.default"


def simplify(graph: Graph) -> Graph:
    """Hoists what is constant into the prelude; drops idle, repeated and unread operations."""
    graph = hoist_constants(graph)
    return share_repeated(_substitute(graph, _idle))


def share_repeated(graph: Graph) -> Graph:
    """Computes once what is computed twice from the same values."""
    return drop_unread(_substitute(graph, _repeated()))


def hoist_constants(graph: Graph) -> Graph:
    """Moves every operation that depends on constants alone into the prelude."""
    prelude, nodes, constant = list(graph.prelude), list[Node](), set[int]()
    volatile = graph.volatile()
    for node in graph.nodes:
        leaves = list(walk([*node.args, *node.kwargs.values()]))
        fixed = all(ref in constant for ref in node.refs()) and node.op != ATTEND
        fixed = fixed and node.touched().isdisjoint(volatile)
        if fixed and not any(isinstance(leaf, Dim) for leaf in leaves):
            prelude.append(node)
            constant.update(v for v in node.outputs if v is not None)
        else:
            nodes.append(node)
    return replace(graph, nodes=nodes, prelude=prelude)


def drop_unread(graph: Graph) -> Graph:
    """Drops operations whose results nothing reads. Attention stays: it writes K and V."""
    read = {graph.output}

    def needed(nodes: list[Node]) -> list[Node]:
        kept: list[Node] = []
        for node in reversed(nodes):
            if node.op == ATTEND or node.mutates or not read.isdisjoint(node.outputs):
                kept.append(node)
                read.update(node.refs())
        return kept[::-1]

    nodes = needed(graph.nodes)
    return replace(graph, nodes=nodes, prelude=needed(graph.prelude))


def _substitute(graph: Graph, find: Callable[[Node, Graph], Ref | None]) -> Graph:
    """Drops every node whose result `find` says another value already is."""
    instead: dict[int, Ref] = {}
    volatile = graph.volatile()

    def renamed(arg: Arg) -> Arg:
        return instead.get(arg.value, arg) if isinstance(arg, Ref) else arg

    nodes: list[Node] = []
    for recorded in graph.nodes:
        node = recorded.replaced(renamed)
        same = find(node, graph) if node.touched().isdisjoint(volatile) else None
        if same is None or not _lie_alike(graph, node.output, same.value):
            nodes.append(node)
        else:
            instead[node.output] = same
    layouts = {
        value: replace(layout, root=renamed(layout.root)) for value, layout in graph.layouts.items()
    }
    output = cast("Ref", renamed(Ref(graph.output))).value
    return replace(graph, nodes=nodes, output=output, layouts=layouts)


def _lie_alike(graph: Graph, value: int, other: int) -> bool:
    """Whether views recorded of one are the same views of the other."""
    a, b = graph.layouts[value], graph.layouts[other]
    own_memory = a.root == Ref(value)
    return not own_memory or (b.root == Ref(other) and (a.stride, a.offset) == (b.stride, b.offset))


def _idle(node: Node, graph: Graph) -> Ref | None:
    """The argument, when the operation gives back what it is given."""
    if len(node.outputs) != 1 or not node.args or not isinstance(node.args[0], Ref):
        return None
    given, args = node.args[0], node.args
    before, after = graph.layouts.get(given.value), graph.layouts[node.output]
    same_shape = before is not None and before.shape == after.shape
    if node.op in ("aten.alias.default", "aten.detach.default"):
        return given
    if node.op == "aten.mul.Tensor" and args[1] == 1.0 and same_shape:
        return given if before is not None and before.dtype == after.dtype else None
    if node.op in ("aten.view.default", "aten.expand.default") and same_shape:
        return given
    if node.op == "aten.slice.Tensor" and same_shape and args[2:] in ((0, _END), ()):
        return given
    return None


def _repeated() -> Callable[[Node, Graph], Ref | None]:
    seen: dict[str, int] = {}

    def find(node: Node, graph: Graph) -> Ref | None:  # noqa: ARG001
        if len(node.outputs) != 1 or node.op == ATTEND:
            return None
        first = seen.setdefault(repr((node.op, node.args, node.kwargs)), node.output)
        return None if first == node.output else Ref(first)

    return find


def collapse_views(graph: Graph) -> Graph:
    """Makes every chain of views one view of the tensor that it is of.

    Only over tensors that are row-major and dense whatever T and R are, so that strides recorded at
    one size hold at every other.
    """
    makers, volatile = graph.makers(), graph.volatile()

    def direct(node: Node) -> Node:
        if node.op not in _VIEWS or not node.touched().isdisjoint(volatile):
            return node
        if len(node.outputs) != 1:
            return node
        layout = graph.layouts[node.output]
        root = graph.layouts.get(layout.root.value) if isinstance(layout.root, Ref) else None
        if root is None or not root.is_contiguous or not _all_views(node, makers):
            return node
        args = (layout.root, list(layout.shape), list(layout.stride), layout.offset)
        return Node(AS_STRIDED, args, {}, node.outputs)

    return drop_unread(graph.with_nodes([direct(node) for node in graph.nodes]))


def _all_views(node: Node, makers: dict[int, Node]) -> bool:
    """Whether only known views lie between a node and the value whose memory it shows."""
    while node.op in _VIEWS:
        source = node.args[0]
        if not isinstance(source, Ref):
            return False
        if source.value not in makers:
            return True
        node = makers[source.value]
    return True
