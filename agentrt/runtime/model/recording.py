"""A captured model in a folder: what the next start needs, which is neither transformers nor time.

The folder holds
    recording.json         the graph, how each layer attends, what the engine must know
    recording.safetensors  the tensors the graph names and the weights of its products
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, cast

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from agentrt.errors import ModelCorrupt
from agentrt.runtime.attention.base import LayerAttention
from agentrt.runtime.batch import ModelSpec
from agentrt.runtime.model.graph.capture import capture
from agentrt.runtime.model.graph.codec import decode_graph, encode_graph
from agentrt.runtime.model.graph.decoder import GraphDecoder
from agentrt.runtime.model.graph.early import take_rows_early
from agentrt.runtime.model.graph.kernels import Kernels, TorchKernels
from agentrt.runtime.model.linears import LinearGroup, ProductFactory, separate_products
from agentrt.runtime.model.model import Model, prepare

if TYPE_CHECKING:
    from pathlib import Path

    from torch import nn

    from agentrt.runtime.model.graph.ir import Graph

VERSION = 2
FORMAT = f"{VERSION}-torch-{torch.__version__}"
"""Part of the name of what holds a recording: no version can use those of another."""
_JSON = "recording.json"
_TENSORS = "recording.safetensors"


@dataclass(frozen=True, slots=True)
class Recording:
    """A verified graph with everything it needs. `constants` and group weights may be mapped.

    `early` is the graph for kernels that compute each row by itself: it takes the wanted rows
    before the last layer ends.
    """

    spec: ModelSpec
    layers: tuple[LayerAttention, ...]
    dtype: torch.dtype
    graph: Graph
    early: Graph
    constants: dict[str, torch.Tensor]
    groups: tuple[LinearGroup, ...]

    def model(
        self,
        *,
        device: torch.device,
        products: ProductFactory = separate_products,
        kernels: Kernels | None = None,
    ) -> Model:
        """The model that replays it. `products` and `kernels` may trade exact bits for speed."""
        with torch.inference_mode():
            decoder = GraphDecoder(
                self.graph,
                early=self.early,
                constants={name: t.to(device) for name, t in self.constants.items()},
                products={group.key: products(group.to(device)) for group in self.groups},
                kernels=kernels or TorchKernels(),
                device=device,
            )
        return Model(decoder, spec=self.spec, layers=self.layers, dtype=self.dtype, device=device)

    def save(self, folder: Path, *, linear_weights: bool = True) -> None:
        """Writes it to an existing folder. Not atomic: write to a fresh folder and rename that.

        Without `linear_weights`, a load needs a product factory that keeps its own by group key.
        """
        tensors = _Tensors()
        description = {
            "version": VERSION,
            "torch": torch.__version__,
            "dtype": str(self.dtype).removeprefix("torch."),
            "spec": {**asdict(self.spec), "eos_token_ids": sorted(self.spec.eos_token_ids)},
            "layers": [asdict(layer) for layer in self.layers],
            "graph": encode_graph(self.graph),
            "early": encode_graph(self.early),
            "constants": {name: tensors.add(name, t) for name, t in self.constants.items()},
            "groups": [_describe(group, tensors, linear_weights) for group in self.groups],
        }
        save_file(tensors.kept, folder / _TENSORS)
        (folder / _JSON).write_text(json.dumps(description))


def record(module: nn.Module, *, name: str) -> Recording:
    """Records a transformers causal LM, which is used up by it.

    Raises UnsupportedModel for what cannot be served exactly, and NotCapturable for what can but
    not by replaying a list of operations: such a model is loaded by transformers every time.
    """
    with torch.inference_mode():
        prepared = prepare(module, name=name)
    model = prepared.model
    captured = capture(
        prepared.decoder, model.layers, prepared.products, vocab_size=model.spec.vocab_size
    )
    groups = tuple(shared.group for shared in prepared.products)
    return Recording(
        model.spec,
        model.layers,
        model.dtype,
        captured.graph,
        take_rows_early(captured.graph),
        captured.constants,
        groups,
    )


class _Tensors:
    """Tensors to be saved, each once: tied weights have two names and one place."""

    def __init__(self) -> None:
        self.kept: dict[str, torch.Tensor] = {}
        self._names: dict[Any, str] = {}

    def add(self, name: str, tensor: torch.Tensor) -> str:
        """Keeps a tensor; returns the name it is kept by."""
        place = (tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype)
        if place not in self._names:
            self._names[place] = name
            # A copy where another tensor shares the memory: the file format has no views.
            whole = tensor.untyped_storage().nbytes() == tensor.numel() * tensor.itemsize
            self.kept[name] = tensor.detach().contiguous() if whole else tensor.detach().clone()
        return self._names[place]


def _describe(group: LinearGroup, tensors: _Tensors, with_weights: bool) -> dict[str, Any]:
    named = zip(group.names, group.weights, strict=True) if with_weights else ()
    return {
        "names": list(group.names),
        "weights": [tensors.add(f"{name}.weight", weight) for name, weight in named],
        "bias": None if group.bias is None else tensors.add(f"{group.key}.bias", group.bias),
    }


def load_recording(folder: Path, *, dtype: torch.dtype) -> Recording | None:
    """What `Recording.save` wrote, memory-mapped; None when there is none that can be used.

    One of another format, another dtype or another version of torch is not: what was verified then
    may not hold now. Raises ModelCorrupt when the files cannot be read as what they should be.
    """
    if not (folder / _JSON).is_file() or not (folder / _TENSORS).is_file():
        return None
    try:
        return _read(folder, dtype)
    except (KeyError, TypeError, ValueError, SafetensorError) as error:
        raise ModelCorrupt(
            f"the recording in {folder} is damaged ({error}); `agentrt models "
            "pull`, with the model's name if it is not the provided one, mends it"
        ) from error


def _read(folder: Path, dtype: torch.dtype) -> Recording | None:
    data: dict[str, Any] = json.loads((folder / _JSON).read_text())
    wanted = (VERSION, torch.__version__, str(dtype).removeprefix("torch."))
    if (data.get("version"), data.get("torch"), data.get("dtype")) != wanted:
        return None
    tensors = load_file(folder / _TENSORS)
    spec: dict[str, Any] = {**data["spec"]}
    spec["eos_token_ids"] = frozenset(spec["eos_token_ids"])
    return Recording(
        ModelSpec(**spec),
        tuple(LayerAttention(**layer) for layer in data["layers"]),
        dtype,
        decode_graph(data["graph"]),
        decode_graph(data["early"]),
        {name: tensors[kept] for name, kept in data["constants"].items()},
        tuple(_group(group, tensors) for group in data["groups"]),
    )


def _group(data: dict[str, Any], tensors: dict[str, torch.Tensor]) -> LinearGroup:
    bias = cast("str | None", data["bias"])
    weights = tuple(tensors[name] for name in data["weights"])
    return LinearGroup(tuple(data["names"]), weights, None if bias is None else tensors[bias])
