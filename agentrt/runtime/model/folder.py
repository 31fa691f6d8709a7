"""Loads a model from a folder of config.json and safetensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentrt.errors import ModelNotFound, UnsupportedModel
from agentrt.runtime.model.model import Model

if TYPE_CHECKING:
    from pathlib import Path

    import torch
    from torch import nn

    from agentrt.runtime.model.linears import ProductFactory


def load_model(
    folder: Path,
    *,
    name: str,
    dtype: torch.dtype,
    device: torch.device,
    products: ProductFactory | None = None,
) -> Model:
    """Loads the causal LM in `folder` (config.json, *.safetensors) and makes it ready to serve.

    Raises ModelNotFound when the folder holds no model and UnsupportedModel when it holds one that
    cannot be served exactly.
    """
    module = load_module(folder, name=name, dtype=dtype).to(device)
    return Model.from_module(module, name=name, products=products)


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
