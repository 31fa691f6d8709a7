"""The end of the last layer, for the rows that are wanted alone.

A prompt's tokens owe the later ones their K and V in every layer, and nothing after the last. So
the rows whose logits are wanted are taken as early as they can be: what follows the last attention
treats each row by itself.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, cast

from agentrt.runtime.model.graph.ir import INPUTS, PRODUCT, Dim, Graph, Node, Ref
from agentrt.runtime.model.graph.kernels import ADD_RMS_NORM, GATE, RMS_NORM, TAKE_ROWS

if TYPE_CHECKING:
    from agentrt.runtime.model.graph.ir import Arg

_ROW_BY_ROW = frozenset(
    (PRODUCT, RMS_NORM, ADD_RMS_NORM, GATE, "aten.add.Tensor", "aten.clone.default")
)
_ROWS = Ref(INPUTS.index("rows"))
_TOKENS = Dim(1, 0, 0)


def take_rows_early(graph: Graph) -> Graph:
    """The graph with its choice of rows moved before all that treats rows by themselves; for
    running, as its layouts are gone.

    The bits stay the same where a row's do not depend on how many others are computed with it.
    """
    choices = [node for node in graph.nodes if _ROWS.value in node.refs()]
    if len(choices) != 1 or not _is_choice_of_rows(choices[0]):
        return graph
    (choice,) = choices
    late = _late(graph, choice)
    made = {value for node in late for value in node.outputs}
    read = dict.fromkeys(value for node in late for value in node.refs() if value not in made)
    before = [value for value in read if _is_by_token(graph, value)]
    taken = {value: Ref(rows) for rows, value in enumerate(before, graph.fresh())}
    takes = [Node(TAKE_ROWS, (Ref(v), _ROWS), {}, (taken[v].value,)) for v in before]
    taken[choice.output] = cast("Ref", choice.args[0])  # which has the chosen rows alone by then

    def instead(arg: Arg) -> Arg:
        return taken.get(arg.value, arg) if isinstance(arg, Ref) else arg

    at = graph.nodes.index(choice)
    nodes = [*(node for node in graph.nodes[:at] if node not in late), *takes]
    nodes += [node.replaced(instead) for node in (*late, *graph.nodes[at + 1 :])]
    output = cast("Ref", instead(Ref(graph.output))).value
    return replace(graph, nodes=nodes, output=output, layouts={}) if late else graph


def _is_choice_of_rows(node: Node) -> bool:
    """Whether it is x[:, rows]."""
    return node.op == "aten.index.Tensor" and node.args[1] == [None, _ROWS]


def _late(graph: Graph, choice: Node) -> list[Node]:
    """The nodes before the choice of which only the chosen rows are ever read, in their order."""
    volatile, readers = graph.volatile(), graph.readers()
    late: list[Node] = []
    for node in reversed(graph.nodes):
        values = [value for value in node.outputs if value is not None]
        read_by = [reader for value in values for reader in readers.get(value, [])]
        is_read_late = bool(read_by) and all(r is choice or r in late for r in read_by)
        is_alone = node.op in _ROW_BY_ROW and node.touched().isdisjoint(volatile)
        if is_read_late and is_alone and graph.output not in values:
            given = [v for v in node.refs() if not _is_constant(graph, v)]
            if all(_is_by_token(graph, value) for value in (*given, *values)):
                late.append(node)
    return late[::-1]


def _is_by_token(graph: Graph, value: int) -> bool:
    """Whether it is [1, T, ...], a row a token."""
    layout = graph.layouts.get(value)
    return layout is not None and layout.shape[:2] == (1, _TOKENS) and layout.is_contiguous


def _is_constant(graph: Graph, value: int) -> bool:
    """Whether its sizes depend on no step: a weight, as a prelude makes them."""
    layout = graph.layouts.get(value)
    return layout is not None and not any(isinstance(size, Dim) for size in layout.shape)
