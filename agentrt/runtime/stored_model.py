"""Opens the provided model, or any other that transformers loads."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from agentrt.errors import InvalidRequest, NativeUnavailable
from agentrt.runtime.attention.base import KVCache
from agentrt.runtime.attention.choose import choose_backend
from agentrt.runtime.codec import ModelCodec
from agentrt.runtime.executor import TorchExecutor
from agentrt.runtime.memory import pool_slots
from agentrt.runtime.models import cache_dir, resolve
from agentrt.runtime.native import keep_torch_on_this_thread
from agentrt.runtime.native import load as load_kernels
from agentrt.runtime.preparation import load_packed, load_plain
from agentrt.runtime.source import LoadedModel

if TYPE_CHECKING:
    from pathlib import Path

    from agentrt.runtime.config import RuntimeConfig
    from agentrt.runtime.model import Model
    from agentrt.runtime.models import ModelFiles
    from agentrt.runtime.native import Kernels
    from agentrt.runtime.products import WeightForm

_log = logging.getLogger(__name__)

_NATIVE_SPARE_ROWS = 4  # measured: `python -m benchmarks.kernels`
_DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


class StoredModel:
    """A model by name: None is the provided one, else a hub id, a folder or a .gguf file."""

    def __init__(self, model: str | Path | None) -> None:
        self._model = model

    def open(self, config: RuntimeConfig) -> LoadedModel:
        """Fetches and converts the model if need be, and loads it with a pool for its KV.

        To be called on the thread that will run it. Raises ModelNotFound, UnsupportedModel,
        ModelCorrupt or StorageError.
        """
        device = _device(config)
        files = resolve(self._model)
        codec = ModelCodec(files)
        kernels = _kernels(config, device)
        model = _load(files, config, device, kernels)
        if kernels is not None:
            keep_torch_on_this_thread()
        spec = replace(
            model.spec,
            name=files.name,
            eos_token_ids=codec.eos_token_ids,
            spare_rows=_NATIVE_SPARE_ROWS if kernels is not None else 0,
        )
        slots = pool_slots(spec, config, device)
        cache = KVCache(model.layers, num_slots=slots, dtype=model.dtype, device=device)
        wanted = None if config.attention == "auto" else config.attention
        model.attach(choose_backend(device, model.layers, cache, wanted, kernels=kernels))
        return LoadedModel(TorchExecutor(model, spec=spec, num_slots=slots), codec)


def _device(config: RuntimeConfig) -> torch.device:
    try:
        device = torch.device(config.device or ("cuda" if torch.cuda.is_available() else "cpu"))
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:  # what torch raises differs by device
        raise InvalidRequest(
            f"device={config.device!r} cannot be used here: {error}; leave it out to take what "
            "there is"
        ) from error
    return device


def _kernels(config: RuntimeConfig, device: torch.device) -> Kernels | None:
    """The CPU kernels, where they are wanted and can be had."""
    if device.type != "cpu" or config.kernels == "torch":
        return None
    try:
        return load_kernels(cache_dir() / "kernels", threads=config.threads)
    except NativeUnavailable as error:
        if config.kernels == "native":
            raise
        _log.warning(
            "the CPU kernels cannot be used (%s): torch's own serve instead, more slowly, and the "
            "same prompt may be answered differently in another batch",
            error,
        )
        return None


def _load(
    files: ModelFiles, config: RuntimeConfig, device: torch.device, kernels: Kernels | None
) -> Model:
    if kernels is not None:
        return load_packed(files, kernels, _form(config, files))
    if config.weights in ("int8", "file", "file-fast"):
        raise InvalidRequest(
            f"weights={config.weights!r} needs the native CPU kernels; use weights='auto', or "
            "leave kernels and device to be chosen"
        )
    wanted = "fp32" if device.type == "cpu" else "bf16"
    dtype = _DTYPES[wanted if config.weights == "auto" else config.weights]
    return load_plain(files, dtype=dtype, device=device)


def _form(config: RuntimeConfig, files: ModelFiles) -> WeightForm:
    if config.weights == "auto":
        return "fp32" if files.blocks is None else "file-fast"
    if config.weights in ("bf16", "fp16"):
        raise InvalidRequest(
            f"weights={config.weights!r} is not kept by the CPU kernels; there are 'fp32', 'int8' "
            "and, for quantised files, 'file-fast' and 'file'; or ask for kernels='torch'"
        )
    if config.weights in ("file", "file-fast") and files.blocks is None:
        raise InvalidRequest(
            f"weights={config.weights!r} multiplies by a file's own quantised blocks and "
            f"{files.name} has none; use 'fp32' or 'int8'"
        )
    return config.weights
