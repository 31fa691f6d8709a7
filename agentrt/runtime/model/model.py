"""A causal LM that decodes flat ragged batches against a KV pool it does not own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, cast

import torch

from agentrt.errors import InvalidRequest
from agentrt.runtime.attention.base import KVCache
from agentrt.runtime.attention.graphs import DecodeGraphs, SteadyAttention
from agentrt.runtime.batch import ModelSpec
from agentrt.runtime.model.check import Reference, check_against_eager
from agentrt.runtime.model.decoder import EagerDecoder
from agentrt.runtime.model.discover import discover
from agentrt.runtime.model.linears import fuse_linears, separate_products

if TYPE_CHECKING:
    from torch import nn

    from agentrt.runtime.attention.base import AttentionBackend, LayerAttention
    from agentrt.runtime.batch import Int64Array, Layout
    from agentrt.runtime.model.decoder import Decoder
    from agentrt.runtime.model.linears import ProductFactory, SharedProduct


class Model:
    """Computes logits; `layers` says what KV pool and attention backend it needs.

    One thread at a time may run it. Models share nothing with each other.
    """

    def __init__(
        self,
        decoder: Decoder,
        *,
        spec: ModelSpec,
        layers: tuple[LayerAttention, ...],
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        self.spec = spec
        self.layers = layers
        self.dtype = dtype
        self.device = device
        self._decoder = decoder
        self._backend: AttentionBackend | None = None
        self._graphs: DecodeGraphs | None = None

    def __repr__(self) -> str:
        return (
            f"<Model {self.spec.name}, {len(self.layers)} layers, vocabulary "
            f"{self.spec.vocab_size}, {self.dtype} on {self.device}>"
        )

    @classmethod
    def from_module(
        cls, module: nn.Module, *, name: str, products: ProductFactory = separate_products
    ) -> Model:
        """Serves a transformers causal LM as it stands: its dtype, its device, its weights.

        Its linear layers are fused where they share an input and computed by what `products`
        makes. Raises UnsupportedModel, with the reasons, for anything that could not be served
        exactly. The module belongs to the Model from here on.
        """
        with torch.inference_mode():
            prepared = prepare(module, name=name)
            for shared in prepared.products:
                shared.install(products)
        return prepared.model

    def attach(self, backend: AttentionBackend) -> None:
        """Attends through `backend`, and so into its KV pool, from now on."""
        self._backend = backend
        self._decoder.attach(backend)
        if isinstance(backend, SteadyAttention):
            self._graphs = DecodeGraphs(backend, self._compute_all, device=self.device)

    def detach(self) -> None:
        """Lets go of the backend and its KV pool."""
        self._backend = self._graphs = None
        self._decoder.detach()

    def forward(self, layout: Layout, rows: Int64Array) -> torch.Tensor:
        """Computes every token of `layout`, writing its K and V; returns logits of flat `rows`.

        rows [R] int64, indices into the T tokens; the result is [R, vocab] float32 on the device.
        """
        if self._backend is None:
            raise InvalidRequest(f"{self.spec.name} has no attention backend; call attach first")
        with torch.inference_mode():
            wanted = torch.from_numpy(rows).to(self.device)
            steady = self._graphs.run(layout) if self._graphs is not None else None
            if steady is not None:
                return steady.index_select(0, wanted).float()
            self._backend.plan(layout)
            arrays = (layout.token_ids, layout.positions)
            ids, positions = (torch.from_numpy(a).to(self.device) for a in arrays)
            return self._decoder.run(ids, positions, wanted).float()

    def _compute_all(self, token_ids: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """Logits of every token: the forward that is captured for steady decoding."""
        rows = torch.arange(len(token_ids), device=token_ids.device)
        return self._decoder.run(token_ids, positions, rows)


class Prepared(NamedTuple):
    """A model that serves a transformers module, checked, its products still the plain ones."""

    model: Model
    decoder: EagerDecoder
    products: list[SharedProduct]


def prepare(module: nn.Module, *, name: str) -> Prepared:
    """Finds out how a module attends, fuses its linear layers and holds it to its eager forward."""
    module.eval().requires_grad_(False)
    found = discover(module, name=name)
    reference = Reference.of(module)
    products = fuse_linears(module, found.attention)
    decoder = EagerDecoder(module, found.attention, found.layers)
    parameter = next(module.parameters())
    spec = ModelSpec(
        name=name,
        vocab_size=found.vocab_size,
        context_length=found.context_length,
        eos_token_ids=eos_token_ids(module),
        kv_bytes_per_token=KVCache.bytes_per_token(found.layers, parameter.dtype),
    )
    model = Model(
        decoder,
        spec=spec,
        layers=found.layers,
        dtype=parameter.dtype,
        device=parameter.device,
    )
    check_against_eager(model, reference, kind=type(module).__name__)
    return Prepared(model, decoder, products)


def eos_token_ids(module: nn.Module) -> frozenset[int]:
    """The tokens that end a generation: the generation config's, else the configuration's."""
    holder = cast("Any", module)
    for config in (getattr(holder, "generation_config", None), holder.config.get_text_config()):
        ids = getattr(config, "eos_token_id", None)
        if ids is not None:
            return frozenset([ids] if isinstance(ids, int) else ids)
    return frozenset()
