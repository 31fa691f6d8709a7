"""Packed weights that are not what was packed are named, with what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from agentrt.errors import ModelCorrupt
from agentrt.runtime.products import PackedProducts

if TYPE_CHECKING:
    from pathlib import Path


def test_packed_weights_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    (tmp_path / "packed.safetensors").write_bytes(b"\xff" * 64)
    nothing: Any = None  # it fails before kernels or files are looked at
    with pytest.raises(ModelCorrupt, match=r"packed\.safetensors.*pull"):
        PackedProducts(nothing, nothing, "fp32", stored=tmp_path)
