"""Graphs as JSON values, and back."""

from __future__ import annotations

from typing import Any, cast

from agentrt.runtime.model.graph.ir import Arg, Const, Device, Dim, Graph, Node, Ref, Symbol


def encode_graph(graph: Graph) -> dict[str, Any]:
    """What replaying needs: nodes, prelude, output. Layouts serve rewriting only."""
    return {
        "prelude": [_encode_node(node) for node in graph.prelude],
        "nodes": [_encode_node(node) for node in graph.nodes],
        "output": graph.output,
    }


def decode_graph(data: dict[str, Any]) -> Graph:
    """The inverse of `encode_graph`."""
    nodes = [_decode_node(node) for node in data["nodes"]]
    prelude = [_decode_node(node) for node in data["prelude"]]
    return Graph(nodes, int(data["output"]), {}, {}, prelude)


def _encode_node(node: Node) -> list[Any]:
    kwargs = {key: _encode(arg) for key, arg in node.kwargs.items()}
    return [node.op, [_encode(arg) for arg in node.args], kwargs, list(node.outputs)]


def _decode_node(data: list[Any]) -> Node:
    op, args, kwargs, outputs = data
    decoded = {key: _decode(arg) for key, arg in kwargs.items()}
    return Node(op, tuple(_decode(arg) for arg in args), decoded, tuple(outputs))


def _encode(arg: Arg) -> Any:
    if isinstance(arg, Ref):
        return {"value": arg.value}
    if isinstance(arg, Const):
        return {"constant": arg.name}
    if isinstance(arg, Dim):
        return {"size": list(arg)}
    if isinstance(arg, Symbol):
        return {"torch": arg.name}
    if isinstance(arg, Device):
        return {"device": True}
    return [_encode(item) for item in cast("list[Arg]", arg)] if isinstance(arg, list) else arg


def _decode(data: Any) -> Arg:
    if isinstance(data, list):
        return [_decode(item) for item in cast("list[Any]", data)]
    if not isinstance(data, dict):
        return data
    ((kind, content),) = cast("dict[str, Any]", data).items()
    if kind == "value":
        return Ref(int(content))
    if kind == "constant":
        return Const(str(content))
    if kind == "size":
        return Dim(*(int(part) for part in content))
    return Symbol(str(content)) if kind == "torch" else Device()
