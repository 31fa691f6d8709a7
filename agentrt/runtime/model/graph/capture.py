"""Records a model's forward at several sizes, and trusts the result only bit for bit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from agentrt.runtime.attention.base import KVCache
from agentrt.runtime.attention.reference import TorchAttention
from agentrt.runtime.batch import Layout
from agentrt.runtime.model.graph.decoder import GraphDecoder
from agentrt.runtime.model.graph.fuse import fuse
from agentrt.runtime.model.graph.kernels import TorchKernels
from agentrt.runtime.model.graph.simplify import simplify
from agentrt.runtime.model.graph.trace import NotCapturable, Trace, Tracer
from agentrt.runtime.model.graph.unify import StepSize, unify
from agentrt.runtime.model.linears import separate_products

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import nn

    from agentrt.runtime.attention.base import LayerAttention
    from agentrt.runtime.model.decoder import Decoder, EagerDecoder
    from agentrt.runtime.model.graph.ir import Graph
    from agentrt.runtime.model.linears import SharedProduct

# R grows otherwise than T, so that a size that follows one is not mistaken for the other's.
_TRACED = (StepSize(9, 3), StepSize(12, 8), StepSize(19, 13))
_CHECKED = (StepSize(14, 5), StepSize(1, 1), StepSize(2, 2))
_SLOTS = 32


@dataclass(frozen=True, slots=True)
class Captured:
    """A verified graph and the tensors it names."""

    graph: Graph
    constants: dict[str, torch.Tensor]


def capture(
    decoder: EagerDecoder,
    layers: Sequence[LayerAttention],
    products: Sequence[SharedProduct],
    *,
    vocab_size: int,
) -> Captured:
    """The model's forward as a graph; raises NotCapturable when it is not one.

    Every linear layer must be fused with its plain product. The graph gives the very bits of the
    eager forward, logits and K and V alike, at sizes it was not recorded at; the fused form is
    kept if it does too.
    """
    bench = _Bench(decoder, layers, vocab_size)
    traces = [(size, bench.trace(size, products)) for size in _TRACED]
    constants = traces[0][1].constants
    recorded = unify(traces)
    for rewrite in (_simplified_and_fused, simplify, lambda graph: graph):
        graph = rewrite(recorded)
        if all(bench.agrees(graph, constants, products, size) for size in _CHECKED):
            return Captured(graph, constants)
    raise NotCapturable("replaying the recorded operations gives other logits")


def _simplified_and_fused(graph: Graph) -> Graph:
    return fuse(simplify(graph))


class _Bench:
    """Runs the eager decoder and graphs side by side on steps of any size."""

    def __init__(
        self, decoder: EagerDecoder, layers: Sequence[LayerAttention], vocab_size: int
    ) -> None:
        self._decoder = decoder
        self._layers = layers
        self._vocab_size = vocab_size
        parameter = next(decoder.module.parameters())
        self._dtype, self._device = parameter.dtype, parameter.device
        self._names = _names(decoder.module)

    def trace(self, size: StepSize, products: Sequence[SharedProduct]) -> Trace:
        inputs, layout = self._step(size)
        _, backend = self._pool()
        backend.plan(layout)
        tracer = Tracer(inputs, self._names)
        self._decoder.attach(tracer.attending(backend))
        plain = [shared.product for shared in products]
        for shared in products:
            shared.product = tracer.multiplying(shared.group.key, shared.product)
        try:
            with torch.inference_mode(), tracer:
                logits = self._decoder.run(*inputs)
            return tracer.finish(logits)
        finally:
            for shared, product in zip(products, plain, strict=True):
                shared.product = product
            self._decoder.detach()

    def agrees(
        self,
        graph: Graph,
        constants: dict[str, torch.Tensor],
        products: Sequence[SharedProduct],
        size: StepSize,
    ) -> bool:
        with torch.inference_mode():
            replay = GraphDecoder(
                graph,
                constants=constants,
                products={s.group.key: separate_products(s.group) for s in products},
                kernels=TorchKernels(),
                device=self._device,
            )
            got, wanted = (self._run(decoder, size) for decoder in (replay, self._decoder))
        return all(torch.equal(a, b) for a, b in zip(got, wanted, strict=True))

    def _run(self, decoder: Decoder, size: StepSize) -> list[torch.Tensor]:
        """The logits of a step, and the K and V it wrote."""
        (token_ids, positions, rows), layout = self._step(size)
        cache, backend = self._pool()
        backend.plan(layout)
        decoder.attach(backend)
        logits = decoder.run(token_ids, positions, rows)
        decoder.detach()
        return [logits, *cache.k, *cache.v]

    def _pool(self) -> tuple[KVCache, TorchAttention]:
        cache = KVCache(self._layers, num_slots=_SLOTS, dtype=self._dtype, device=self._device)
        for pool in (*cache.k, *cache.v):
            pool.zero_()  # what is not written is compared as well
        return cache, TorchAttention(cache)

    def _step(self, size: StepSize) -> tuple[list[torch.Tensor], Layout]:
        """Two sequences (one, of a single token), neither at position 0, with random tokens."""
        tokens, rows = size
        draw = np.random.default_rng(tokens)
        ids = draw.integers(0, self._vocab_size, tokens)
        first = tokens - tokens // 3
        spans = [n for n in (first, tokens - first) if n]
        positions = np.concatenate([np.arange(n) for n in spans])
        indptr = np.cumsum([0, *spans], dtype=np.int32)
        slots = draw.permutation(_SLOTS)[:tokens]
        layout = Layout(ids, positions, slots, indptr, indptr, slots.astype(np.int32))
        wanted = draw.permutation(tokens)[:rows]
        arrays = (ids, positions, wanted)
        return [torch.from_numpy(a).to(self._device) for a in arrays], layout


def _names(module: nn.Module) -> dict[int, str]:
    """Names of a module's parameters and buffers by the identity of their tensors."""
    named: list[tuple[str, Any]] = [*module.named_parameters(), *module.named_buffers()]
    return {id(tensor): name for name, tensor in reversed(named)}
