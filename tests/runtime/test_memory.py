"""How large the KV pool is, and when a model is refused for want of memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psutil
import pytest
import torch

from agentrt.errors import InvalidRequest, UnsupportedModel
from agentrt.runtime import memory
from agentrt.runtime.batch import ModelSpec
from agentrt.runtime.config import RuntimeConfig
from agentrt.runtime.memory import free_bytes, pool_slots
from agentrt.runtime.stored_model import StoredModel

if TYPE_CHECKING:
    from pathlib import Path

CPU = torch.device("cpu")
SPEC = ModelSpec("m", 100, 1000, frozenset({0}), kv_bytes_per_token=1000)


@pytest.fixture
def free(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Free bytes, as the pool's sizing sees them."""
    held = {"bytes": 10_000_000}
    monkeypatch.setattr(memory, "free_bytes", lambda device: held["bytes"])
    return held


@pytest.mark.parametrize(
    ("free_now", "share", "slots"),
    [(10_000_000, 0.3, 3000), (10_000_000, 0.5, 5000), (10**9, 0.3, 16_000)],
)
def test_a_pool_takes_its_share_and_no_more_than_it_can_use(
    free: dict[str, int], free_now: int, share: float, slots: int
) -> None:
    free["bytes"] = free_now
    assert pool_slots(SPEC, RuntimeConfig(kv_memory_share=share), CPU) == slots


def test_a_pool_is_as_large_as_told(free: dict[str, int]) -> None:
    assert pool_slots(SPEC, RuntimeConfig(kv_tokens=9000), CPU) == 9000


def test_what_does_not_fit_is_refused_with_the_numbers(free: dict[str, int]) -> None:
    with pytest.raises(UnsupportedModel, match="at most 10000"):
        pool_slots(SPEC, RuntimeConfig(kv_tokens=20_000), CPU)
    free["bytes"] = 400_000
    with pytest.raises(UnsupportedModel, match="1000 bytes of KV memory a token"):
        pool_slots(SPEC, RuntimeConfig(), CPU)


def test_free_memory_respects_a_control_group(tmp_path: Path) -> None:
    available = psutil.virtual_memory().available
    assert free_bytes(CPU, group=tmp_path / "none") == pytest.approx(available, rel=0.2)
    (tmp_path / "memory.current").write_text("600000\n")
    (tmp_path / "memory.max").write_text("1000000\n")
    assert free_bytes(CPU, group=tmp_path) == 400_000
    (tmp_path / "memory.max").write_text("max\n")
    assert free_bytes(CPU, group=tmp_path) == pytest.approx(available, rel=0.2)


@pytest.mark.model
@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"device": "warp"}, "device='warp'"),
        ({"weights": "int8", "kernels": "torch"}, "native CPU kernels"),
        ({"weights": "bf16"}, "kernels='torch'"),
        ({"attention": "flashinfer"}, "CUDA"),
    ],
)
def test_options_that_cannot_go_together_are_refused(options: dict[str, str], match: str) -> None:
    with pytest.raises(InvalidRequest, match=match):
        StoredModel(None).open(RuntimeConfig.model_validate({"kv_tokens": 256, **options}))
