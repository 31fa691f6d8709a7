"""What this machine has to compute with, in words."""

from __future__ import annotations

import torch

from agentrt.cachefolder import cache_dir
from agentrt.errors import NativeUnavailable, StorageError
from agentrt.runtime.native import load as load_kernels


def describe_device() -> str:
    """The device that a runtime takes unless it is told another."""
    if not torch.cuda.is_available():
        return "cpu"
    name, memory = torch.cuda.get_device_name(), torch.cuda.get_device_properties(0).total_memory
    return f"cuda: {name}, {memory / 2**30:.0f} GiB"


def describe_kernels() -> str:
    """The CPU kernels, built now if they never were, or why torch's own serve instead."""
    try:
        kernels = load_kernels(cache_dir() / "kernels")
    except (NativeUnavailable, StorageError) as error:
        return f"torch ({error})"
    return f"native, {kernels.threads} threads"
