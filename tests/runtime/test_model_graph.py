"""What a recorded forward is rewritten to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from agentrt.runtime.model import record
from agentrt.runtime.model.graph.codec import decode_graph, encode_graph
from agentrt.runtime.model.graph.decoder import GraphDecoder
from agentrt.runtime.model.graph.fuse import fuse
from agentrt.runtime.model.graph.ir import Const, Dim, Graph, Node, Ref, Symbol
from agentrt.runtime.model.graph.kernels import TorchKernels
from agentrt.runtime.model.graph.simplify import simplify
from agentrt.runtime.model.graph.trace import NotCapturable, Trace, Tracer
from agentrt.runtime.model.graph.unify import StepSize, unify
from tests.runtime.model_zoo import build, config_of

Step = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
_SIZES = (StepSize(6, 2), StepSize(9, 5), StepSize(13, 7))
_WEIGHT = torch.randn(8, generator=torch.Generator().manual_seed(1))


def inputs_of(size: StepSize) -> list[torch.Tensor]:
    return [torch.arange(size.tokens), torch.arange(size.tokens) + 3, torch.arange(size.rows)]


def traced(function: Step, size: StepSize) -> Trace:
    inputs = inputs_of(size)
    tracer = Tracer(inputs, {id(_WEIGHT): "weight"})
    with torch.inference_mode(), tracer:
        result = function(*inputs)
    return tracer.finish(result)


def graph_of(function: Step) -> tuple[Graph, dict[str, torch.Tensor]]:
    traces = [(size, traced(function, size)) for size in _SIZES]
    return unify(traces), traces[0][1].constants


def ops_of(graph: Graph) -> list[str]:
    return [node.op.removeprefix("aten.").removeprefix("agentrt.") for node in graph.nodes]


def run(graph: Graph, constants: dict[str, torch.Tensor], size: StepSize) -> torch.Tensor:
    with torch.inference_mode():
        decoder = GraphDecoder(
            graph,
            constants=constants,
            products={},
            kernels=TorchKernels(),
            device=torch.device("cpu"),
        )
        return decoder.run(*inputs_of(size))


def rows(tokens: torch.Tensor) -> torch.Tensor:
    """[1, T, 8] float rows made of the tokens."""
    return (tokens.float()[None, :, None] + 1).sin() * _WEIGHT


def assert_rewritten(function: Step, expected: list[str]) -> None:
    graph, constants = graph_of(function)
    rewritten = fuse(simplify(graph))
    assert ops_of(rewritten)[-len(expected) :] == expected
    for size in (*_SIZES, StepSize(1, 1), StepSize(40, 3)):
        with torch.inference_mode():
            wanted = function(*inputs_of(size))
        assert torch.equal(run(graph, constants, size), wanted)
        assert torch.equal(run(rewritten, constants, size), wanted)


def test_sizes_follow_tokens_and_rows() -> None:
    graph, constants = graph_of(lambda t, p, r: torch.zeros(2 * len(t) + 1, len(r)) + p.sum())
    assert graph.nodes[0].args[0] == [Dim(2, 0, 1), Dim(0, 1, 0)]
    assert run(graph, constants, StepSize(4, 3)).shape == (9, 3)


def test_sizes_that_follow_neither_are_refused() -> None:
    with pytest.raises(NotCapturable, match=r"a size is \[36, 81, 169\]"):
        graph_of(lambda t, p, r: t * len(t) ** 2)


def test_constant_work_is_done_once() -> None:
    graph, constants = graph_of(lambda t, p, r: rows(t) * (1.0 + _WEIGHT.exp()))
    rewritten = simplify(graph)
    assert [node.op for node in rewritten.prelude] == ["aten.exp.default", "aten.add.Tensor"]
    size = StepSize(5, 1)
    with torch.inference_mode():
        wanted = rows(inputs_of(size)[0]) * (1.0 + _WEIGHT.exp())
    assert torch.equal(run(rewritten, constants, size), wanted)


def test_idle_repeated_and_unread_work_is_dropped() -> None:
    def function(tokens: Tensor, positions: Tensor, wanted: Tensor) -> Tensor:
        x = rows(tokens)
        x.exp()  # unread
        a, b = x.cos() * 1.0, x.cos()
        return a[:] + b.view(b.shape)

    graph, _ = graph_of(function)
    assert ops_of(simplify(graph)).count("cos.default") == 1
    assert "exp.default" not in ops_of(simplify(graph))
    assert_rewritten(function, ["cos.default", "add.Tensor"])


def test_a_chain_of_views_is_one_view() -> None:
    def function(tokens: Tensor, positions: Tensor, wanted: Tensor) -> Tensor:
        x = torch.cat([rows(tokens), rows(positions)], -1)
        return x[..., 4:12].view(1, -1, 2, 4).transpose(1, 2)[0].transpose(0, 1) * 2

    assert_rewritten(function, ["cat.default", "as_strided.default", "mul.Tensor"])


def test_views_of_what_is_not_dense_stay_a_chain() -> None:
    def function(tokens: Tensor, positions: Tensor, wanted: Tensor) -> Tensor:
        x = rows(tokens).transpose(1, 2) * 2  # keeps the order of its memory
        return x[:, 2:6].transpose(1, 2) + 1

    assert_rewritten(function, ["mul.Tensor", "slice.Tensor", "transpose.int", "add.Tensor"])


def norm(x: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps)


def test_norms_with_and_without_a_weight_or_a_sum() -> None:
    assert_rewritten(lambda t, p, r: norm(rows(t)) * _WEIGHT, ["rms_norm"])
    assert_rewritten(lambda t, p, r: _WEIGHT * norm(rows(t)), ["rms_norm"])
    assert_rewritten(lambda t, p, r: norm(rows(t)), ["rms_norm"])
    assert_rewritten(
        lambda t, p, r: _WEIGHT * norm(rows(t) + rows(p)), ["mul.Tensor", "add_rms_norm"]
    )


def test_a_sum_read_elsewhere_too_is_still_made() -> None:
    def function(tokens: Tensor, positions: Tensor, wanted: Tensor) -> Tensor:
        total = rows(tokens) + rows(positions)
        return norm(total) * _WEIGHT + total

    assert_rewritten(function, ["add_rms_norm", "add.Tensor"])


def test_what_looks_like_a_norm_and_is_not_stays() -> None:
    def third_power(x: torch.Tensor) -> torch.Tensor:
        return x * torch.rsqrt(x.pow(3).mean(-1, keepdim=True) + 2.0)

    def other_input(x: torch.Tensor) -> torch.Tensor:
        return (x + 1) * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)

    def over_tokens(x: torch.Tensor) -> torch.Tensor:
        return x * torch.rsqrt(x.pow(2).mean(1, keepdim=True) + 1e-6)

    def read_twice(x: torch.Tensor) -> torch.Tensor:
        root = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)
        return x * root + root

    for function in (third_power, other_input, over_tokens, read_twice):
        graph, _ = graph_of(lambda t, p, r, f=function: f(rows(t)))
        assert "rms_norm" not in ops_of(fuse(simplify(graph)))


@pytest.mark.parametrize("activation", ["silu", "gelu", "gelu_tanh"])
def test_gates(activation: str) -> None:
    functional = torch.nn.functional
    active = {
        "silu": functional.silu,
        "gelu": functional.gelu,
        "gelu_tanh": lambda x: functional.gelu(x, approximate="tanh"),
    }[activation]

    def function(tokens: Tensor, positions: Tensor, wanted: Tensor) -> Tensor:
        both = torch.cat([rows(tokens), rows(positions)], -1)
        return active(both[..., :8]) * both[..., 8:]

    assert_rewritten(function, ["cat.default", "gate"])
    graph, _ = graph_of(function)
    assert fuse(simplify(graph)).nodes[-1].args[1] == activation


def test_halves_the_other_way_round_are_no_gate() -> None:
    def function(tokens: Tensor, positions: Tensor, wanted: Tensor) -> Tensor:
        both = torch.cat([rows(tokens), rows(positions)], -1)
        return torch.nn.functional.silu(both[..., 8:]) * both[..., :8]

    graph, _ = graph_of(function)
    assert "gate" not in ops_of(fuse(simplify(graph)))


def test_a_llama_layer_is_thirteen_calls() -> None:
    def calls(layers: int) -> Counter[str]:
        config = config_of("llama", num_hidden_layers=layers)
        return Counter(ops_of(record(build(config), name="x").graph))

    assert calls(3) - calls(2) == Counter(
        {
            "product": 4,
            "as_strided.default": 3,
            "slice.Tensor": 2,
            "add_rms_norm": 2,
            "rotate": 1,
            "attend": 1,
            "gate": 1,
        }
    )


@pytest.mark.parametrize("name", ["phi3", "gemma3", "qwen3", "smollm3", "olmo2", "mixtral"])
def test_rotations_and_norms_are_found_in_other_architectures(name: str) -> None:
    ops = Counter(ops_of(record(build(config_of(name)), name=name).graph))
    assert ops["rotate"] >= 1
    assert ops["rms_norm"] + ops["add_rms_norm"] >= 5
    assert not {"rsqrt.default", "neg.default", "pow.Tensor_Scalar"} & ops.keys()


def test_partial_rotation_is_found() -> None:
    config = config_of("phi3", partial_rotary_factor=0.5)
    ops = Counter(ops_of(record(build(config), name="x").graph))
    assert ops["rotate"] == 2  # q and k of each layer together
    assert ops["neg.default"] == 0


def test_graphs_survive_being_written_down() -> None:
    nodes = [
        Node(
            "aten.full.default",
            ([Dim(1, 0, 2), 3], float("inf")),
            {"dtype": Symbol("float32")},
            (3,),
        ),
        Node("aten.add.Tensor", (Ref(3), Const("a weight")), {"alpha": -0.5}, (4,)),
        Node("aten.max.dim", (Ref(4), -1, True), {}, (5, None)),
    ]
    graph = Graph(nodes, 5, {}, {}, nodes[:1])
    assert decode_graph(encode_graph(graph)) == graph
