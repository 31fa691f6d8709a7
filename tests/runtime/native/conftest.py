from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

from agentrt.errors import NativeUnavailable
from agentrt.runtime.native.build import load_library
from agentrt.runtime.native.kernels import Kernels

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="session")
def build_dir(request: pytest.FixtureRequest) -> Path:
    """Kept from one test run to the next, as a user's cache folder is."""
    folder = request.config.cache.mkdir("kernels")
    try:
        load_library(folder)
    except NativeUnavailable as error:
        pytest.skip(str(error))
    return folder


@pytest.fixture(scope="session")
def kernels(build_dir: Path) -> Kernels:
    return Kernels(load_library(build_dir), threads=2)


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
