"""CPU kernels whose results do not depend on the batch: built from C on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentrt.runtime.native.build import load_library
from agentrt.runtime.native.kernels import Kernels
from agentrt.runtime.native.linear import LAYOUT, PackedLinear
from agentrt.runtime.native.pack import Q4Weight, Q8Weight, quantise_q8
from agentrt.runtime.native.threads import keep_torch_on_this_thread

if TYPE_CHECKING:
    from pathlib import Path

__all__ = [
    "LAYOUT",
    "Kernels",
    "PackedLinear",
    "Q4Weight",
    "Q8Weight",
    "keep_torch_on_this_thread",
    "load",
    "quantise_q8",
]


def load(cache_dir: Path, threads: int | None = None) -> Kernels:
    """The kernels, compiled into `cache_dir` on first use.

    `threads` defaults to the physical cores this process may use. Raises NativeUnavailable when
    there is no compiler to build them with, StorageError when the folder cannot be written.
    """
    return Kernels(load_library(cache_dir), threads=threads)
