"""Models in folders: loading them, and recording them so that the next load is quick."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from agentrt.errors import ModelNotFound, UnsupportedModel
from agentrt.runtime.model.graph.capture import capture
from agentrt.runtime.model.linears import separate_products
from agentrt.runtime.model.model import Model, prepare
from agentrt.runtime.model.recording import Recording, load_recording

if TYPE_CHECKING:
    from pathlib import Path

    from torch import nn

    from agentrt.runtime.model.graph.kernels import Kernels
    from agentrt.runtime.model.linears import ProductFactory


def load_model(
    folder: Path,
    *,
    name: str,
    dtype: torch.dtype,
    device: torch.device,
    products: ProductFactory = separate_products,
    kernels: Kernels | None = None,
) -> Model:
    """Loads the causal LM in `folder`, by its recording if it has one, and else by transformers.

    The folder holds what `Recording.save` writes, or config.json and *.safetensors, or both. A
    recording is replayed with `products` and `kernels`; the transformers module has its linear
    layers computed by `products`. Raises ModelNotFound when the folder holds no model and
    UnsupportedModel when it holds one that cannot be served exactly.
    """
    recording = load_recording(folder, dtype=dtype)
    if recording is not None:
        return recording.model(device=device, products=products, kernels=kernels)
    module = load_module(folder, name=name, dtype=dtype).to(device)
    return Model.from_module(module, name=name, products=products)


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
        model.spec, model.layers, model.dtype, captured.graph, captured.constants, groups
    )


def load_module(folder: Path, *, name: str, dtype: torch.dtype) -> nn.Module:
    """The transformers module in `folder`, with its weights, on the CPU."""
    if not (folder / "config.json").is_file():
        raise ModelNotFound(f"{name}: {folder} holds no config.json; give a folder with a model")
    from transformers import AutoConfig, AutoModelForCausalLM

    config = AutoConfig.from_pretrained(folder, local_files_only=True)
    if type(config) not in AutoModelForCausalLM._model_mapping:  # pyright: ignore
        raise UnsupportedModel(
            f"{name} is a {config.model_type} model, of which transformers has no causal language "
            "model; use a decoder-only text model"
        )
    return AutoModelForCausalLM.from_pretrained(
        folder, config=config, dtype=dtype, attn_implementation="eager", local_files_only=True
    )
