from __future__ import annotations

from pathlib import Path

import pytest

from agentrt.errors import NativeUnavailable
from agentrt.runtime.native.build import load_library
from agentrt.runtime.native.kernels import Kernels


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
