"""Writes a graph as one straight Python function, the cheapest thing that can call its operations.

The text is made of numbered names, numbers and quoted strings alone; operations are looked up in
torch.ops.aten, products and kernels among ours. Nothing from a graph file is run as code.
"""

from __future__ import annotations

import math
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

if TYPE_CHECKING:
    from collections.abc import Callable

    from agentrt.runtime.model.graph.kernels import Kernels
    from agentrt.runtime.model.linears import Product

_OURS = "agentrt."
_ATEN = "aten."


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

    def step(self, graph: Graph) -> Callable[..., torch.Tensor]:
        """The graph's function of (token_ids, positions, rows); runs the prelude now.

        `attend` is looked up in `namespace` at every call.
        """
        for line in self._lines(graph.prelude, keep=None):
            exec(line, self.namespace)
        body = self._lines(graph.nodes, keep=graph.output)
        sizes = [f"{name} = {text}" for text, name in self._sizes.items()]
        head = ["T = v0.shape[0]", "R = v2.shape[0]", *sizes]
        parameters = ", ".join(f"v{i}" for i in range(len(INPUTS)))
        lines = [*head, *body, f"return v{graph.output}"]
        text = "\n    ".join([f"def step({parameters}):", *lines])
        exec(compile(text, "<agentrt graph>", "exec"), self.namespace)
        return self.namespace["step"]

    def _lines(self, nodes: list[Node], keep: int | None) -> list[str]:
        """One line a call; where `keep` is a value, the others are freed after their last use."""
        last = {value: i for i, node in enumerate(nodes) for value in node.touched()}
        made = {value for node in nodes for value in node.outputs}
        lines: list[str] = []
        for i, node in enumerate(nodes):
            lines.append(self._call(node))
            if keep is not None:
                done = [v for v in node.touched() if last[v] == i and v != keep and v in made]
                lines.extend(f"v{value} = None" for value in sorted(done))
        return lines

    def _call(self, node: Node) -> str:
        function, args = self._function(node)
        texts = [self._text(arg) for arg in args]
        texts += [f"{key}={self._text(arg)}" for key, arg in node.kwargs.items()]
        call = f"{function}({', '.join(texts)})"
        targets = ", ".join("_" if v is None else f"v{v}" for v in node.outputs)
        return f"{targets} = {call}" if len(node.outputs) == 1 else f"{targets}, = {call}"

    def _function(self, node: Node) -> tuple[str, tuple[Arg, ...]]:
        if node.op == ATTEND:
            return "attend", node.args
        if node.op == PRODUCT:
            return self._name(self._products[node.args[0]], "p"), node.args[1:]
        if node.op.startswith(_OURS):
            return self._name(getattr(self._kernels, node.op.removeprefix(_OURS)), "k"), node.args
        name, overload = node.op.removeprefix(_ATEN).split(".")
        return self._name(getattr(getattr(torch.ops.aten, name), overload), "f"), node.args

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
        return self._sizes.setdefault(text, f"d{len(self._sizes)}")


def _sum(dim: Dim) -> str:
    return f"{dim.tokens} * T + {dim.rows} * R + {dim.constant}"
