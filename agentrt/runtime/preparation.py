"""From a model's files to a model that runs: recorded and packed at the first load, mapped after.

A recording is replayed without transformers, whose import alone takes longer than all the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from agentrt.runtime.model import FORMAT, Model, NotCapturable, Recording, load_recording, record
from agentrt.runtime.models import derived
from agentrt.runtime.models.progress import progress
from agentrt.runtime.native import LAYOUT
from agentrt.runtime.operators import NativeOperators
from agentrt.runtime.products import PackedProducts, WeightForm

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from pathlib import Path

    from torch import nn

    from agentrt.runtime.models import ModelFiles
    from agentrt.runtime.native import Kernels


_FINE = 5
"""How many products at the end of a model keep 16 bits in "file-fast": in most models those of the
last layer and the head. Their part in what 8 bits lose is eight times their part in the work."""


def load_packed(files: ModelFiles, kernels: Kernels, form: WeightForm) -> Model:
    """A model computed by the CPU kernels, its weights in `form`.

    Raises UnsupportedModel or StorageError.
    """

    def build(folder: Path) -> None:
        folder.mkdir()
        with _shown(files):
            recording = _record(files, torch.float32)
            if recording is None:
                return
            fine = [group.key for group in recording.groups[-_FINE:]]
            products = PackedProducts(kernels, files, form, fine=fine)
            for group in recording.groups:
                products(group)
            recording.save(folder, linear_weights=False)
            products.store(folder)

    folder = derived(files.folder, f"packed-{form}-{LAYOUT}-{FORMAT}", build)
    recording = load_recording(folder, dtype=torch.float32)
    products = PackedProducts(kernels, files, form, stored=folder)
    if recording is None:
        return Model.from_module(
            load_module(files, torch.float32), name=files.name, products=products
        )
    return recording.model(
        device=torch.device("cpu"), products=products, kernels=NativeOperators(kernels)
    )


def load_plain(files: ModelFiles, *, dtype: torch.dtype, device: torch.device) -> Model:
    """A model computed by torch. Raises UnsupportedModel or StorageError."""

    def build(folder: Path) -> None:
        folder.mkdir()
        with _shown(files):
            recording = _record(files, dtype)
            if recording is not None:
                recording.save(folder)

    folder = derived(files.folder, f"recording-{str(dtype).removeprefix('torch.')}-{FORMAT}", build)
    recording = load_recording(folder, dtype=dtype)
    if recording is None:
        return Model.from_module(load_module(files, dtype).to(device), name=files.name)
    return recording.model(device=device)


def _shown(files: ModelFiles) -> AbstractContextManager[object]:
    """The clock that a person waiting for the first start sees."""
    return progress(f"laying out {files.name} for this machine, once", None)


def _record(files: ModelFiles, dtype: torch.dtype) -> Recording | None:
    """The model's recording; None for one that cannot be recorded and is run as it is."""
    try:
        return record(load_module(files, dtype), name=files.name)
    except NotCapturable:
        return None


def load_module(
    files: ModelFiles, dtype: torch.dtype, *, attention: str | None = "eager"
) -> nn.Module:
    """The transformers module with the weights of `files`, on the CPU.

    `attention` names one of transformers' own implementations; None is the one it chooses.
    """
    from safetensors.torch import load_file
    from transformers import AutoConfig, AutoModelForCausalLM

    from agentrt.runtime.models.quiet import without_bars

    config = AutoConfig.from_pretrained(files.folder, local_files_only=True)
    state = {name: tensor for path in files.weights for name, tensor in load_file(path).items()}
    kind: Any = AutoModelForCausalLM._model_mapping[type(config)]  # pyright: ignore[reportPrivateUsage]
    with without_bars():
        return kind.from_pretrained(
            None, config=config, state_dict=state, dtype=dtype, attn_implementation=attention
        )
