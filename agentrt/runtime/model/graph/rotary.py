"""Finds the rotary embedding of the queries and keys that go into attention."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from agentrt.runtime.model.graph.ir import ATTEND, Arg, Dim, Graph, Layout, Node, Ref
from agentrt.runtime.model.graph.kernels import ROTATE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from agentrt.runtime.model.graph.ir import Size

_END = 2**63 - 1


@dataclass(frozen=True, slots=True)
class _Rotation:
    """x [1, heads, T, D] whose first d values are rotated by cos and sin [1, T, d].

    `inside` are the values between x and the result, whose makers may read x.
    """

    x: Ref
    cos: Ref
    sin: Ref
    inside: frozenset[int]


def fuse_rotary(graph: Graph) -> Graph:
    """Rotates q and k of each attention call as [T, heads, D], together where they lie together."""
    rewriter = _Rewriter(graph)
    nodes: list[Node] = []
    for node in graph.nodes:
        if node.op == ATTEND:
            before, node = rewriter.rotated(node)
            nodes.extend(before)
        nodes.append(node)
    return graph.with_nodes(nodes)


class _Rewriter:
    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._makers = graph.makers()
        self._volatile = graph.volatile()
        self._next = graph.fresh()
        self._new: list[Node] = []

    def rotated(self, attend: Node) -> tuple[list[Node], Node]:
        """New nodes to go before an attention call, and the call reading them."""
        self._new = []
        layer, q, k, *rest = attend.args
        turns = [self._rotation(arg) for arg in (q, k)]
        safe = [t if t and self._is_private(t, turns) else None for t in turns]
        if safe[0] and safe[1] and (both := self._together(safe[0], safe[1])) is not None:
            q, k = both
        else:
            q, k = (self._rotate(t, a) if t else a for t, a in zip(safe, (q, k), strict=True))
        return self._new, Node(ATTEND, (layer, q, k, *rest), {}, attend.outputs)

    def _rotate(self, turn: _Rotation, like: Arg) -> Ref:
        x = self._token_major(turn.x)
        layout = self._graph.layouts[cast("Ref", like).value]
        return self._emit(ROTATE, (x, *self._angles(turn)), _opaque(layout.shape, layout.dtype))

    def _together(self, q: _Rotation, k: _Rotation) -> tuple[Ref, Ref] | None:
        """Both in one call, when their heads are neighbours in one tensor."""
        a, b = (self._graph.layouts[turn.x.value] for turn in (q, k))
        heads, more = cast("int", a.shape[1]), cast("int", b.shape[1])
        neighbours = isinstance(a.offset, int) and b.offset == a.offset + heads * cast(
            "int", a.stride[1]
        )
        like = a.shape[3] == b.shape[3] and a.stride[1:] == b.stride[1:] and a.root == b.root
        if not (like and neighbours and (q.cos, q.sin) == (k.cos, k.sin)):
            return None
        shape, stride = (a.shape[2], heads + more, a.shape[3]), (a.stride[2], a.stride[1], 1)
        args = (a.root, list(shape), list(stride), a.offset)
        layout = Layout(a.root, shape, stride, a.offset, a.dtype)
        whole = self._emit("aten.as_strided.default", args, layout)
        turned = self._emit(ROTATE, (whole, *self._angles(q)), _opaque(shape, a.dtype))
        return self._heads(turned, a, 0, heads), self._heads(turned, b, heads, heads + more)

    def _heads(self, turned: Ref, like: Layout, start: int, stop: int) -> Ref:
        shape = (like.shape[2], stop - start, like.shape[3])
        args = (turned, 1, start, stop)
        return self._emit("aten.slice.Tensor", args, _opaque(shape, like.dtype, turned))

    def _token_major(self, x: Ref) -> Ref:
        """[1, heads, T, D] as [T, heads, D]."""
        flat = self._graph.layouts[x.value].first()
        rows = self._emit("aten.select.int", (x, 0, 0), flat)
        return self._emit("aten.transpose.int", (rows, 0, 1), flat.transposed(0, 1))

    def _angles(self, turn: _Rotation) -> tuple[Ref, Ref]:
        """cos and sin without their first dimension."""
        cos, sin = (
            self._emit("aten.select.int", (a, 0, 0), self._graph.layouts[a.value].first())
            for a in (turn.cos, turn.sin)
        )
        return cos, sin

    def _emit(self, op: str, args: tuple[Arg, ...], layout: Layout) -> Ref:
        value, self._next = self._next, self._next + 1
        if layout.root == _SELF:
            layout = Layout(Ref(value), layout.shape, layout.stride, layout.offset, layout.dtype)
        self._graph.layouts[value] = layout
        self._new.append(Node(op, args, {}, (value,)))
        return Ref(value)

    def _rotation(self, arg: Arg) -> _Rotation | None:
        """What an argument of attention is the rotation of, if it is one."""
        swap = self._maker(arg, "aten.transpose.int", (0, 1))
        first = swap and self._maker(swap.args[0], "aten.select.int", (0, 0))
        if not swap or not first:
            return None
        return self._partial(first.args[0]) or self._whole(first.args[0])

    def _whole(self, arg: Arg) -> _Rotation | None:
        """x * cos + cat(-x[d/2:], x[:d/2]) * sin"""
        total = self._maker(arg, "aten.add.Tensor")
        straight = total and self._maker(total.args[0], "aten.mul.Tensor")
        crossed = total and self._maker(total.args[1], "aten.mul.Tensor")
        if not (total and straight and crossed):
            return None
        x, cos = straight.args[0], self._angle(straight.args[1])
        turned, sin = self._maker(crossed.args[0], "aten.cat.default"), self._angle(crossed.args[1])
        if not (isinstance(x, Ref) and turned and cos and sin):
            return None
        between = self._half_turn(turned, x)
        if between is None or not self._fits(x, cos, sin):
            return None
        inside = {total.output, straight.output, crossed.output, turned.output, *between}
        return _Rotation(x, cos, sin, frozenset(inside))

    def _partial(self, arg: Arg) -> _Rotation | None:
        """A rotation of the first values of every head, and the rest as it was."""
        cat = self._maker(arg, "aten.cat.default", (-1,))
        parts = cast("list[Arg]", cat.args[0]) if cat else []
        turn = self._whole(parts[0]) if len(parts) == 2 else None
        rest = turn and self._maker(parts[1], "aten.slice.Tensor")
        if not (cat and turn and rest and isinstance(rest.args[0], Ref)):
            return None
        x, width = rest.args[0], self._graph.layouts[turn.cos.value].shape[-1]
        start = self._maker(turn.x, "aten.slice.Tensor", (3, 0, width))
        if rest.args[1:] != (3, width, _END) or (
            turn.x != x and not (start and start.args[0] == x)
        ):
            return None
        views = {rest.output, *({start.output} if start else ())}
        return _Rotation(x, turn.cos, turn.sin, turn.inside | views | {cat.output})

    def _maker(self, arg: Arg, op: str, rest: tuple[Arg, ...] | None = None) -> Node | None:
        node = self._makers.get(arg.value) if isinstance(arg, Ref) else None
        if node is None or node.op != op or node.kwargs:
            return None
        return node if rest is None or node.args[1:] == rest else None

    def _angle(self, arg: Arg) -> Ref | None:
        """[1, T, D] of cos or sin with a dimension put in for the heads."""
        node = self._maker(arg, "aten.unsqueeze.default", (1,))
        return cast("Ref", node.args[0]) if node else None

    def _half_turn(self, cat: Node, x: Ref) -> set[int] | None:
        """The values in between, if a concatenation is (-x[D/2:], x[:D/2])."""
        parts = cast("list[Arg]", cat.args[0])
        negative = self._maker(parts[0], "aten.neg.default") if len(parts) == 2 else None
        if negative is None or cat.args[1:] != (-1,):
            return None
        half = cast("int", self._graph.layouts[x.value].shape[-1]) // 2
        high = self._maker(negative.args[0], "aten.slice.Tensor", (3, half, _END))
        low = self._maker(parts[1], "aten.slice.Tensor", (3, 0, half))
        if not high or not low or high.args[0] != x or low.args[0] != x:
            return None
        return {negative.output, high.output, low.output}

    def _fits(self, x: Ref, cos: Ref, sin: Ref) -> bool:
        _, _, tokens, dim = self._graph.layouts[x.value].shape
        angles = {self._graph.layouts[angle.value].shape for angle in (cos, sin)}
        return angles == {(1, tokens, dim)} and self._graph.layouts[x.value].stride[-1] == 1

    def _is_private(self, turn: _Rotation, turns: Iterable[_Rotation | None]) -> bool:
        """Whether the memory of x may be overwritten: all else that reads its tensor reads
        other columns."""
        if turn.x.value in self._volatile:
            return False
        inside = set[int]().union(*(t.inside for t in turns if t))
        mine = self._graph.layouts[turn.x.value]
        return all(
            _apart(mine, self._graph.layouts[value])
            for node in self._graph.nodes
            if not (len(node.outputs) == 1 and node.output in inside)
            for value in set(node.refs())
            if self._graph.layouts[value].root == mine.root and not self._is_view(node, mine.root)
        )

    def _is_view(self, node: Node, root: Any) -> bool:
        """Whether a node only looks at the tensor and so reads nothing of it."""
        made = [v for v in node.outputs if v is not None]
        return all(self._graph.layouts[value].root == root for value in made)


_SELF = Ref(-1)


def _opaque(shape: tuple[Size, ...], dtype: str, root: Ref = _SELF) -> Layout:
    """Of a kernel's result, whose strides are the kernel's business: never taken for dense."""
    return Layout(root, shape, tuple(Dim(-1, -1, -1) for _ in shape), 0, dtype)


def _apart(a: Layout, b: Layout) -> bool:
    """Whether two views of one tensor of rows cover different columns of every row."""
    spans = [_columns(a), _columns(b)]
    if spans[0] is None or spans[1] is None:
        return False
    (first, last), (other_first, other_last) = spans[0], spans[1]
    return last < other_first or other_last < first


def _columns(layout: Layout) -> tuple[int, int] | None:
    """First and last column of a view; its rows are the dimension that grows with T."""
    if not isinstance(layout.offset, int):
        return None
    last = layout.offset
    for size, stride in zip(layout.shape, layout.stride, strict=True):
        if isinstance(size, Dim) or size == 1:
            continue
        if isinstance(stride, Dim):
            return None
        last += (size - 1) * stride
    return layout.offset, last
