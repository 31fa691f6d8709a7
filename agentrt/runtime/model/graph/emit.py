"""Writes a graph as one straight Python function, the cheapest thing that can call its operations.

The text is made of numbered names, numbers and quoted strings alone; operations are looked up in
torch.ops.aten, products and kernels among ours. Nothing from a graph file is run as code.
"""

from __future__ import annotations

import math
from itertools import groupby
from typing import TYPE_CHECKING, Any, cast

import torch

from agentrt.runtime.model.graph.ir import (
    ATTEND,
    INPUTS,
    PRODUCT,
    Arg,
    Const,
    Device,
    Dim,
    Graph,
    Node,
    Ref,
    Symbol,
)
from agentrt.runtime.model.graph.kernels import TAKE_ROWS

if TYPE_CHECKING:
    from types import CodeType

    from agentrt.runtime.model.graph.kernels import Kernels
    from agentrt.runtime.model.linears import Product

_OURS = "agentrt."
_ATEN = "aten."
_PART = "part"
"""part(name, sizes, *inputs): a run of nodes as a function; both texts are of our making."""
_LEAST_IN_PART = 8


class Emitter:
    """Turns nodes into lines, and keeps the objects that those lines name."""

    def __init__(
        self,
        *,
        constants: dict[str, torch.Tensor],
        products: dict[str, Product],
        kernels: Kernels,
        device: torch.device,
    ) -> None:
        self.namespace: dict[str, Any] = {"inf": math.inf, "nan": math.nan, "device": device}
        self._constants = constants
        self._products = products
        self._kernels = kernels
        self._names: dict[Any, str] = {}
        self._sizes: dict[str, str] = {}
        self._sizes_used: set[str] = set()

    def step(self, graph: Graph) -> CodeType:
        """Code that defines `step`, the graph's function of (token_ids, positions, rows), when it
        is run in `namespace`; runs the prelude now.

        `attend` is looked up there at every call. A long run of fused operations becomes a function
        of its own, for the kernels to call in the way that is cheapest for them.
        """
        for line in self._lines(graph.prelude, keep=None):
            exec(line, self.namespace)
        self.namespace["replayed"] = self._kernels.replayed
        parts: list[str] = []
        body = self._lines(self._parted(graph, parts), keep={graph.output})
        sizes = [f"{name} = {text}" for text, name in self._sizes.items()]
        head = ["T = v0.shape[0]", "R = v2.shape[0]", *sizes]
        parameters = [f"v{i}" for i in range(len(INPUTS))]
        step = _definition("step", parameters, [*head, *body, f"return v{graph.output}"])
        return compile("\n".join([*parts, step]), "<agentrt graph>", "exec")

    def _parted(self, graph: Graph, parts: list[str]) -> list[Node]:
        """The graph's nodes, a call of a part in place of each long run; adds to `parts`."""
        last = {value: i for i, node in enumerate(graph.nodes) for value in node.refs()}
        last[graph.output] = len(graph.nodes)
        local = {*range(len(INPUTS)), *(v for node in graph.nodes for v in node.outputs)}
        of_rows = _of_rows(graph)
        nodes: list[Node] = []
        stop = 0
        for is_light, group in groupby(graph.nodes, _is_light):
            run = list(group)
            stop += len(run)
            if not is_light or len(run) < _LEAST_IN_PART:
                nodes += run
                continue
            made = {value for node in run for value in node.outputs if value is not None}
            read = {value for node in run for value in node.refs()}
            needed = sorted(value for value in made if last.get(value, -1) >= stop)
            name = f"part{len(parts)}"
            inputs = sorted((read - made) & local)
            count = "T" if of_rows.isdisjoint(read | made) else "R"
            sizes, text = self._part(name, run, count=count, inputs=inputs, outputs=needed)
            parts.append(text)
            args = (name, sizes, *map(Ref, inputs))
            nodes.append(Node(_PART, args, {}, tuple(needed)))
        return nodes

    def _part(
        self, name: str, run: list[Node], *, count: str, inputs: list[int], outputs: list[int]
    ) -> tuple[str, str]:
        """The sizes that a run of nodes depends on, `count` first, and the function it becomes."""
        self._sizes_used.clear()
        body = self._lines(run, keep=set(outputs))
        sizes = "".join(f"{size}, " for size in (count, *sorted(self._sizes_used)))
        body = [f"{sizes}= sizes", *body, "return " + "".join(f"v{v}, " for v in outputs)]
        text = _definition(name, ["sizes", *(f"v{v}" for v in inputs)], body)
        return f"({sizes})", f"{text}\n{name} = replayed({name})"

    def _lines(self, nodes: list[Node], keep: set[int] | None) -> list[str]:
        """One line a call; given `keep`, values not in it are freed after their last use."""
        last = {value: i for i, node in enumerate(nodes) for value in node.touched()}
        made = {value for node in nodes for value in node.outputs}
        lines: list[str] = []
        for i, node in enumerate(nodes):
            lines.append(self._call(node))
            if keep is not None:
                done = [v for v in node.touched() if last[v] == i and v not in keep and v in made]
                lines.extend(f"v{value} = None" for value in sorted(done))
        return lines

    def _call(self, node: Node) -> str:
        targets = ", ".join("_" if v is None else f"v{v}" for v in node.outputs)
        if node.op == _PART:
            name, sizes, *inputs = node.args
            return f"{targets}, = {name}({', '.join([sizes, *map(self._text, inputs)])})"
        function, args = self._function(node)
        texts = [self._text(arg) for arg in args]
        texts += [f"{key}={self._text(arg)}" for key, arg in node.kwargs.items()]
        call = f"{function}({', '.join(texts)})"
        return f"{targets} = {call}" if len(node.outputs) == 1 else f"{targets}, = {call}"

    def _function(self, node: Node) -> tuple[str, tuple[Arg, ...]]:
        if node.op == ATTEND:
            return "attend", node.args
        if node.op == PRODUCT:
            return self._name(self._products[node.args[0]], "p"), node.args[1:]
        if node.op.startswith(_OURS):
            return self._name(getattr(self._kernels, node.op.removeprefix(_OURS)), "k"), node.args
        return self._name(_operation(node), "f"), node.args

    def _name(self, thing: Any, prefix: str) -> str:
        if thing not in self._names:
            self._names[thing] = f"{prefix}{len(self._names)}"
            self.namespace[self._names[thing]] = thing
        return self._names[thing]

    def _text(self, arg: Arg) -> str:
        if isinstance(arg, Ref):
            return f"v{arg.value}"
        if isinstance(arg, Const):
            return self._name_constant(arg.name)
        if isinstance(arg, Dim):
            return self._size(_sum(arg))
        if isinstance(arg, list):
            text = "".join(f"{self._text(item)}, " for item in cast("list[Arg]", arg))
            sized = any(isinstance(item, Dim) for item in cast("list[Arg]", arg))
            return self._size(f"({text})") if sized else f"({text})"
        if isinstance(arg, Symbol):
            return self._name(getattr(torch, arg.name), "s")
        if isinstance(arg, Device):
            return "device"
        return repr(arg)

    def _name_constant(self, name: str) -> str:
        key = ("constant", name)
        if key not in self._names:
            self._names[key] = f"c{len(self._names)}"
            self.namespace[self._names[key]] = self._constants[name]
        return self._names[key]

    def _size(self, text: str) -> str:
        """A local name for what depends on T and R: worked out once a step, not once a layer."""
        name = self._sizes.setdefault(text, f"d{len(self._sizes)}")
        self._sizes_used.add(name)
        return name


def _operation(node: Node) -> Any:
    name, overload = node.op.removeprefix(_ATEN).split(".")
    return getattr(getattr(torch.ops.aten, name), overload)


def _is_light(node: Node) -> bool:
    """Whether it is one of ours or only looks at a tensor in another way."""
    if node.op.startswith(_OURS):
        return node.op != TAKE_ROWS
    return not node.mutates and _operation(node).is_view


def _of_rows(graph: Graph) -> set[int]:
    """The values that depend on which rows are wanted."""
    values = {INPUTS.index("rows")}
    for node in graph.nodes:
        if not values.isdisjoint(node.refs()):
            values.update(value for value in node.outputs if value is not None)
    return values


def _definition(name: str, parameters: list[str], body: list[str]) -> str:
    return "\n    ".join([f"def {name}({', '.join(parameters)}):", *body])


def _sum(dim: Dim) -> str:
    return f"{dim.tokens} * T + {dim.rows} * R + {dim.constant}"
