"""Finds the chains of operations that the kernels compute in one call, by what they compute.

Nothing is known of module names or architectures. The chains are those of float models without
casts; where a model computes something else, it keeps its own operations.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from agentrt.runtime.model.graph.ir import Const, Graph, Node, Ref
from agentrt.runtime.model.graph.kernels import ADD_RMS_NORM, GATE, RMS_NORM
from agentrt.runtime.model.graph.rotary import fuse_rotary
from agentrt.runtime.model.graph.simplify import collapse_views, drop_unread, share_repeated

if TYPE_CHECKING:
    from agentrt.runtime.model.graph.ir import Arg, Layout

_ACTIVATIONS = {
    ("aten.silu.default", None): "silu",
    ("aten.gelu.default", None): "gelu",
    ("aten.gelu.default", "none"): "gelu",
    ("aten.gelu.default", "tanh"): "gelu_tanh",
}


def fuse(graph: Graph) -> Graph:
    """The graph with every known chain fused and every chain of views collapsed."""
    graph = drop_unread(fuse_norms(graph))
    graph = drop_unread(fuse_gates(graph))
    graph = share_repeated(fuse_rotary(graph))
    return collapse_views(graph)


class Finder:
    """Looks backwards and forwards from a node of a graph."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.volatile = graph.volatile()
        self._makers = graph.makers()
        self._readers = graph.readers()

    def maker(self, arg: Arg, op: str) -> Node | None:
        """The node that made `arg`, if it is one of `op`."""
        node = self._makers.get(arg.value) if isinstance(arg, Ref) else None
        return node if node is not None and node.op == op else None

    def only_reader(self, node: Node, op: str) -> Node | None:
        """The one node that reads what `node` makes, if it is one of `op`."""
        readers = self._readers.get(node.output, [])
        lone = len(readers) == 1 and node.output != self.graph.output
        return readers[0] if lone and readers[0].op == op else None

    def private_maker(self, arg: Arg, op: str) -> Node | None:
        """As `maker`, when nothing else reads `arg`."""
        node = self.maker(arg, op)
        lone = node is not None and len(self._readers[node.output]) == 1
        return node if lone else None

    def shape(self, arg: Arg) -> tuple[Any, ...] | None:
        if isinstance(arg, Const):
            return self.graph.constants[arg.name]
        return self.graph.layouts[arg.value].shape if isinstance(arg, Ref) else None


def fuse_norms(graph: Graph) -> Graph:
    """Root-mean-square norms (arXiv:1910.07467), with the residual sum before them."""
    finder = Finder(graph)
    fused: dict[int, list[Node]] = {}  # by a value whose node they replace
    for rsqrt in graph.nodes:
        if rsqrt.op != "aten.rsqrt.default" or (norm := _norm(finder, rsqrt)) is None:
            continue
        x, weight, eps, output = norm
        total = finder.maker(x, "aten.add.Tensor")
        if not graph.layouts[output].is_contiguous:
            if _is_head_major(graph.layouts[output]):
                fused[output] = _token_major_norm(graph, norm)
        elif total is not None and x.value not in fused and _is_plain_sum(finder, total):
            args = (*total.args, weight, eps)
            fused[x.value] = fused[output] = [Node(ADD_RMS_NORM, args, {}, (x.value, output))]
        else:
            fused[output] = [Node(RMS_NORM, (x, weight, eps), {}, (output,))]
    return graph.with_nodes(_spliced(graph.nodes, fused))


def _is_head_major(layout: Layout) -> bool:
    """[1, heads, T, D] over memory of [1, T, heads, D]."""
    return len(layout.shape) == 4 and layout.transposed(1, 2).is_contiguous


def _token_major_norm(graph: Graph, norm: _Norm) -> list[Node]:
    """The norm of [1, heads, T, D] where it lies, as [1, T, heads, D]."""
    x, weight, eps, output = norm
    turned, normed = graph.fresh(), graph.fresh() + 1
    lies = graph.layouts[output]
    graph.layouts[turned] = graph.layouts[x.value].transposed(1, 2)
    graph.layouts[normed] = replace(lies.transposed(1, 2), root=Ref(normed))
    for value, layout in graph.layouts.items():
        if layout.root == lies.root:
            graph.layouts[value] = replace(layout, root=Ref(normed))
    return [
        Node("aten.transpose.int", (x, 1, 2), {}, (turned,)),
        Node(RMS_NORM, (Ref(turned), weight, eps), {}, (normed,)),
        Node("aten.transpose.int", (Ref(normed), 1, 2), {}, (output,)),
    ]


def _spliced(nodes: list[Node], fused: dict[int, list[Node]]) -> list[Node]:
    """Puts new nodes where the first of the nodes that they replace was."""
    result: list[Node] = []
    placed: set[int] = set()
    for node in nodes:
        new = fused.get(node.outputs[0]) if len(node.outputs) == 1 and node.outputs[0] else None
        if new is None:
            result.append(node)
        elif id(new) not in placed:
            placed.add(id(new))
            result.extend(new)
    return result


def _is_plain_sum(finder: Finder, node: Node) -> bool:
    a, b = node.args[:2]
    same = finder.shape(a) == finder.shape(b) == finder.graph.layouts[node.output].shape
    contiguous = finder.graph.layouts[node.output].is_contiguous
    return same and contiguous and not node.kwargs and isinstance(a, Ref) and isinstance(b, Ref)


class _Norm(NamedTuple):
    x: Ref
    weight: Arg
    eps: float
    output: int


def _norm(finder: Finder, rsqrt: Node) -> _Norm | None:
    """The norm that a reciprocal root is part of."""
    plus = finder.private_maker(rsqrt.args[0], "aten.add.Tensor")
    mean = plus and finder.private_maker(plus.args[0], "aten.mean.dim")
    if not plus or not mean or not isinstance(plus.args[1], float) or plus.kwargs or mean.kwargs:
        return None
    x = _squared(finder, mean.args[0])
    scaled = finder.only_reader(rsqrt, "aten.mul.Tensor")
    if x is None or mean.args[1:] != ([-1], True) or scaled is None:
        return None
    if x.value in finder.volatile:
        return None
    if sorted(scaled.args) != sorted([x, Ref(rsqrt.output)]):
        return None
    weighted = finder.only_reader(scaled, "aten.mul.Tensor")
    weight = weighted and _other(weighted, Ref(scaled.output))
    output = scaled
    if weighted is not None and _is_weight(finder, weight, x):
        output = weighted
    else:
        weight = None
    return _Norm(x, weight, plus.args[1], output.output)


def _squared(finder: Finder, arg: Arg) -> Ref | None:
    power = finder.private_maker(arg, "aten.pow.Tensor_Scalar")
    if power is not None and power.args[1] == 2 and isinstance(power.args[0], Ref):
        return power.args[0]
    product = finder.private_maker(arg, "aten.mul.Tensor")
    if product is not None and product.args[0] == product.args[1]:
        return cast("Ref", product.args[0])
    return None


def _other(node: Node, one: Ref) -> Arg:
    """The other factor of a product."""
    return node.args[1] if node.args[0] == one else node.args[0]


def _is_weight(finder: Finder, arg: Arg, x: Ref) -> bool:
    """Whether it is a vector that is the same in every step, as long as x is wide."""
    fixed = {v for node in finder.graph.prelude for v in node.outputs}
    constant = isinstance(arg, Const) or (isinstance(arg, Ref) and arg.value in fixed)
    return constant and finder.shape(arg) == finder.graph.layouts[x.value].shape[-1:]


def fuse_gates(graph: Graph) -> Graph:
    """activation(gate) * up, where gate and up are the halves of one tensor (arXiv:2002.05202)."""
    finder = Finder(graph)
    fused: dict[int, list[Node]] = {}
    for node in graph.nodes:
        if node.op == "aten.mul.Tensor" and (gate := _gate(finder, node)) is not None:
            fused[node.output] = [gate]
    return graph.with_nodes(_spliced(graph.nodes, fused))


def _gate(finder: Finder, node: Node) -> Node | None:
    for active, up in (node.args[:2], node.args[1::-1]):
        for op in ("aten.silu.default", "aten.gelu.default"):
            activation = finder.private_maker(active, op)
            if activation is None or not isinstance(up, Ref):
                continue
            kind = _ACTIVATIONS.get((op, activation.kwargs.get("approximate")))
            both = _halves(finder.graph, activation.args[0], up)
            if kind is not None and both is not None and both.value not in finder.volatile:
                return Node(GATE, (both, kind), {}, node.outputs)
    return None


def _halves(graph: Graph, first: Arg, second: Ref) -> Ref | None:
    """The tensor whose last dimension is `first` and then `second`, half and half."""
    if not isinstance(first, Ref):
        return None
    a, b = graph.layouts[first.value], graph.layouts[second.value]
    whole = graph.layouts.get(a.root.value) if isinstance(a.root, Ref) else None
    if whole is None or a.root != b.root or not whole.is_contiguous:
        return None
    half = a.shape[-1]
    same = a.shape == b.shape and a.stride == b.stride == whole.stride
    fits = isinstance(half, int) and whole.shape == (*a.shape[:-1], 2 * half)
    return cast("Ref", a.root) if same and fits and (a.offset, b.offset) == (0, half) else None
