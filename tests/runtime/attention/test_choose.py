"""Which backend is chosen, and what a refusal says."""

from __future__ import annotations

import importlib.util
import logging

import pytest
import torch

from agentrt.errors import InvalidRequest, UnsupportedModel
from agentrt.runtime.attention import choose
from agentrt.runtime.attention.base import KVCache, LayerAttention
from agentrt.runtime.attention.choose import choose_backend
from agentrt.runtime.attention.flashinfer import FlashInferAttention
from agentrt.runtime.attention.native import NativeAttention
from agentrt.runtime.attention.reference import TorchAttention
from agentrt.runtime.native import Kernels
from tests.runtime.attention import flashinfer_model as model
from tests.runtime.attention.cases import CPU, layer

CUDA = torch.device("cuda", 0)
SERVED = layer(head_dim=64, v_head_dim=64)
TOO_SMALL = layer(head_dim=32, v_head_dim=32)


def pool(spec: LayerAttention, dtype: torch.dtype = torch.bfloat16) -> KVCache:
    return KVCache([spec], num_slots=1, dtype=dtype, device=CPU)


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A machine that has an Ampere card and FlashInfer, as far as the choice can tell."""
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (8, 0))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name == "flashinfer" or None)
    monkeypatch.setattr("agentrt.runtime.attention.flashinfer.load", lambda: model)
    return monkeypatch


def test_torch_on_the_cpu() -> None:
    assert isinstance(choose_backend(CPU, [SERVED], pool(SERVED)), TorchAttention)


def test_the_kernels_where_there_are_some(kernels: Kernels) -> None:
    cache = pool(SERVED, torch.float32)
    assert isinstance(choose_backend(CPU, [SERVED], cache, kernels=kernels), NativeAttention)
    backend = choose_backend(CPU, [SERVED], cache, override="torch", kernels=kernels)
    assert isinstance(backend, TorchAttention)


def test_torch_where_the_kernels_cannot(kernels: Kernels, caplog: pytest.LogCaptureFixture) -> None:
    uneven = layer(num_heads=3, num_kv_heads=2)
    cache = pool(uneven, torch.float32)
    with caplog.at_level(logging.WARNING):
        backend = choose_backend(CPU, [uneven], cache, kernels=kernels)
    assert isinstance(backend, TorchAttention)
    assert "not a multiple" in caplog.text


def test_the_kernels_are_not_there_to_be_asked_for() -> None:
    with pytest.raises(InvalidRequest, match="cannot run on cpu: it needs the CPU kernels"):
        choose_backend(CPU, [SERVED], pool(SERVED), override="native")


def test_flashinfer_on_cuda(card: pytest.MonkeyPatch) -> None:
    assert isinstance(choose_backend(CUDA, [SERVED], pool(SERVED)), FlashInferAttention)


def test_torch_on_cuda_when_asked_for(card: pytest.MonkeyPatch) -> None:
    backend = choose_backend(CUDA, [SERVED], pool(SERVED), override="torch")
    assert isinstance(backend, TorchAttention)


def test_torch_on_cuda_without_flashinfer(card: pytest.MonkeyPatch) -> None:
    card.setattr(importlib.util, "find_spec", lambda name: None)
    assert isinstance(choose_backend(CUDA, [SERVED], pool(SERVED)), TorchAttention)


def test_torch_on_an_old_card(card: pytest.MonkeyPatch) -> None:
    card.setattr(torch.cuda, "get_device_capability", lambda device: (7, 5))
    assert isinstance(choose_backend(CUDA, [SERVED], pool(SERVED)), TorchAttention)


@pytest.mark.parametrize(
    ("spec", "dtype", "missing"),
    [
        (TOO_SMALL, torch.bfloat16, "head_dim 32"),
        (SERVED, torch.float32, "K and V of torch.float32"),
    ],
)
def test_torch_where_flashinfer_cannot_and_the_log_says_why(
    card: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    spec: LayerAttention,
    dtype: torch.dtype,
    missing: str,
) -> None:
    with caplog.at_level(logging.WARNING):
        assert isinstance(choose_backend(CUDA, [spec], pool(spec, dtype)), TorchAttention)
    assert missing in caplog.text


def test_a_name_that_cannot_serve_is_refused_by_what_it_lacks(card: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnsupportedModel, match=r"'flashinfer' lacks .*head_dim 32"):
        choose_backend(CUDA, [TOO_SMALL], pool(TOO_SMALL), override="flashinfer")


def test_a_name_that_cannot_run_here_is_refused_by_why() -> None:
    with pytest.raises(InvalidRequest, match="cannot run on cpu: it needs a CUDA device"):
        choose_backend(CPU, [SERVED], pool(SERVED), override="flashinfer")


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    with pytest.raises(InvalidRequest, match="'flash'; there are 'flashinfer', 'native', 'torch'"):
        choose_backend(CPU, [SERVED], pool(SERVED), override="flash")


def test_no_backend_at_all(card: pytest.MonkeyPatch) -> None:
    card.setattr(choose, "_BACKENDS", choose._BACKENDS[:1])
    with pytest.raises(UnsupportedModel, match="flashinfer lacks head_dim 32"):
        choose_backend(CUDA, [TOO_SMALL], pool(TOO_SMALL))
