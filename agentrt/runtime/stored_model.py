"""Opens the provided model, or any other that transformers loads."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from agentrt.runtime.attention.base import KVCache
from agentrt.runtime.attention.choose import choose_backend
from agentrt.runtime.codec import ModelCodec
from agentrt.runtime.executor import TorchExecutor
from agentrt.runtime.memory import pool_slots
from agentrt.runtime.models import resolve
from agentrt.runtime.source import LoadedModel

if TYPE_CHECKING:
    from pathlib import Path

    from agentrt.runtime.config import RuntimeConfig


class StoredModel:
    """A model by name: None is the provided one, else a hub id, a folder or a .gguf file."""

    def __init__(self, model: str | Path | None) -> None:
        self._model = model

    def open(self, config: RuntimeConfig) -> LoadedModel:
        """Fetches and converts the model if need be, and loads it with a pool for its KV.

        Raises ModelNotFound, UnsupportedModel, ModelCorrupt or StorageError.
        """
        files = resolve(self._model)
        device = torch.device(config.device or ("cuda" if torch.cuda.is_available() else "cpu"))
        codec = ModelCodec(files)
        from safetensors.torch import load_file
        from transformers import AutoConfig, AutoModelForCausalLM

        from agentrt.runtime.model import Model

        hf = AutoConfig.from_pretrained(files.folder)
        state = {}
        for w in files.weights:
            state.update(load_file(w))
        module = AutoModelForCausalLM._model_mapping[type(hf)].from_pretrained(
            None, config=hf, state_dict=state, dtype=torch.float32, attn_implementation="eager"
        )
        from agentrt.runtime.attention.native import NativeAttention
        from agentrt.runtime.models import cache_dir
        from agentrt.runtime.native import load
        from agentrt.runtime.products import PackedProducts

        kernels = load(cache_dir() / "kernels", threads=config.threads)
        products = PackedProducts(kernels, files, "fp32" if config.weights == "fp32" else "file")
        model = Model.from_module(
            module, name=files.name, products=None if config.kernels == "torch" else products
        )
        if config.kernels != "torch":
            products.store()
        spec = replace(model.spec, eos_token_ids=codec.eos_token_ids)
        slots = pool_slots(spec, config, device)
        cache = KVCache(model.layers, num_slots=slots, dtype=model.dtype, device=device)
        model.attach(
            NativeAttention(kernels, cache)
            if config.kernels != "torch"
            else choose_backend(
                device,
                model.layers,
                cache,
                override=None if config.attention == "auto" else config.attention,
            )
        )
        return LoadedModel(TorchExecutor(model, spec=spec, num_slots=slots), codec)
