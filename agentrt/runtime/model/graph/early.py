"""The end of the last layer, for the rows that are wanted alone.

A prompt's tokens owe the later ones their K and V in every layer, and nothing after the last. So
the rows whose logits are wanted are taken as early as they can be: what follows the last attention
treats each row by itself.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, cast

from agentrt.runtime.model.graph.ir import INPUTS, PRODUCT, Dim, Graph, Layout, Node, Ref
from agentrt.runtime.model.graph.kernels import ADD_RMS_NORM, GATE, RMS_NORM, TAKE_ROWS

if TYPE_CHECKING:
    from agentrt.runtime.model.graph.ir import Arg, Size

_ROW_BY_ROW = frozenset(
    (PRODUCT, RMS_NORM, ADD_RMS_NORM, GATE, "aten.add.Tensor", "aten.clone.default")
)
_GATHER = "aten.index.Tensor"
_ROWS = Ref(INPUTS.index("rows"))
_TOKENS, _WANTED = Dim(1, 0, 0), Dim(0, 1, 0)


def take_rows_early(graph: Graph) -> Graph:
    """The graph with its choice of rows moved before all that treats rows by themselves.

    The bits stay the same where a row's do not depend on how many others are computed with it.
    """
    gathers = [node for node in graph.nodes if node.op == _GATHER and _ROWS in _indices(node)]
    if len(gathers) != 1 or _indices(gathers[0]) != [None, _ROWS]:
        return graph
    (gather,) = gathers
    late = _late(graph, gather)
    if not late:
        return graph
    made = {value for node in late for value in node.outputs}
    taken: dict[int, Ref] = {}  # of the values that come from before, their rows
    layouts = dict(graph.layouts)
    layouts |= {v: _of_rows(layouts[v]) for v in made if v is not None}
    nodes: list[Node] = []
    unused = graph.fresh()

    def early(arg: Arg) -> Arg:
        """The value's rows: those of a value from before are taken here."""
        nonlocal unused
        if not isinstance(arg, Ref) or arg.value in made or not _is_by_token(graph, arg):
            return arg
        if arg.value not in taken:
            taken[arg.value] = Ref(unused)
            nodes.append(Node(TAKE_ROWS, (arg, _ROWS), {}, (unused,)))
            layouts[unused] = replace(_of_rows(graph.layouts[arg.value]), root=Ref(unused))
            unused += 1
        return taken[arg.value]

    instead = {gather.output: cast("Ref", gather.args[0])}
    for node in graph.nodes:
        if node is gather:
            continue
        if node in late:
            node = node.replaced(early)
        nodes.append(node.replaced(lambda a: instead.get(a.value, a) if isinstance(a, Ref) else a))
    output = instead.get(graph.output, Ref(graph.output)).value
    return replace(graph, nodes=nodes, output=output, layouts=layouts)


def _late(graph: Graph, gather: Node) -> list[Node]:
    """The nodes before it of which only the gathered rows are ever read."""
    volatile, readers = graph.volatile(), graph.readers()
    late: list[Node] = []
    for node in reversed(graph.nodes):
        values = [v for v in node.outputs if v is not None]
        read = [reader for v in values for reader in readers.get(v, [])]
        is_read_late = bool(read) and all(r is gather or r in late for r in read)
        if is_read_late and graph.output not in values and node.op in _ROW_BY_ROW:
            tensors = [Ref(v) for v in values] + [Ref(v) for v in node.refs()]
            is_free = node.touched().isdisjoint(volatile)
            if is_free and all(_is_by_token(graph, t) or _is_constant(graph, t) for t in tensors):
                late.append(node)
    return late


def _indices(gather: Node) -> list[Arg]:
    return cast("list[Arg]", gather.args[1])


def _is_by_token(graph: Graph, value: Ref) -> bool:
    """Whether it is [1, T, ...], a row a token."""
    layout = graph.layouts.get(value.value)
    return layout is not None and layout.shape[:2] == (1, _TOKENS) and layout.is_contiguous


def _is_constant(graph: Graph, value: Ref) -> bool:
    layout = graph.layouts.get(value.value)
    return layout is not None and not any(isinstance(size, Dim) for size in layout.shape)


def _of_rows(layout: Layout) -> Layout:
    def rows(size: Size) -> Size:
        return Dim(0, size.tokens, size.constant) if isinstance(size, Dim) else size

    return replace(
        layout, shape=tuple(map(rows, layout.shape)), stride=tuple(map(rows, layout.stride))
    )
