from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

from agentrt.runtime.native.build import load_library
from agentrt.runtime.native.kernels import Kernels

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="session")
def one_thread(build_dir: Path) -> Kernels:
    return Kernels(load_library(build_dir), threads=1)


@pytest.fixture(scope="session")
def portable(build_dir: Path) -> Kernels:
    """The same kernels without vector instructions written by hand."""
    return Kernels(load_library(build_dir, defines=("AGENTRT_PORTABLE",)), threads=1)


@pytest.fixture(autouse=True)
def _same_numbers_every_run() -> None:
    torch.manual_seed(0)
