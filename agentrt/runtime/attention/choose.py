"""Which attention backend serves a model on a device."""

from __future__ import annotations

import importlib.util
import logging
from typing import TYPE_CHECKING, NamedTuple

import torch

from agentrt.errors import InvalidRequest, UnsupportedModel
from agentrt.runtime.attention.flashinfer import FlashInferAttention
from agentrt.runtime.attention.native import NativeAttention
from agentrt.runtime.attention.reference import TorchAttention

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from agentrt.runtime.attention.base import AttentionBackend, KVCache, LayerAttention
    from agentrt.runtime.native import Kernels

_log = logging.getLogger(__name__)


class _Backend(NamedTuple):
    name: str
    absent: Callable[[torch.device, Kernels | None], str | None]
    """Why it cannot run on this device, on this machine; None: it can."""
    lacks: Callable[[Sequence[LayerAttention], torch.dtype], list[str]]
    """What it cannot do of what these layers need, with a KV cache of this dtype."""
    make: Callable[[KVCache, Kernels | None], AttentionBackend]


def choose_backend(
    device: torch.device,
    layers: Sequence[LayerAttention],
    kv_cache: KVCache,
    override: str | None = None,
    *,
    kernels: Kernels | None = None,
) -> AttentionBackend:
    """The first backend, fastest first, that runs on `device` and can do all that `layers` need.

    `kernels` are the CPU kernels, where they could be had. `override` names a backend instead
    ("flashinfer", "native", "torch"). Raises InvalidRequest for an unknown name or one that cannot
    run here, UnsupportedModel, naming what is missing, for one that cannot serve these layers.
    Nothing is approximated: a slower backend is chosen, and logged, instead.
    """
    if override is not None:
        return _named(override, device, layers, kv_cache, kernels)
    refusals: list[str] = []
    for backend in _BACKENDS:
        if backend.absent(device, kernels) is not None:
            continue
        lacks = backend.lacks(layers, kv_cache.dtype)
        if not lacks:
            for refusal in refusals:
                _log.warning("attention by %s, more slowly: %s", backend.name, refusal)
            return backend.make(kv_cache, kernels)
        refusals.append(f"{backend.name} lacks {'; '.join(lacks)}")
    raise UnsupportedModel(f"no attention backend can serve this model: {', '.join(refusals)}")


def _named(
    name: str,
    device: torch.device,
    layers: Sequence[LayerAttention],
    kv_cache: KVCache,
    kernels: Kernels | None,
) -> AttentionBackend:
    known = {backend.name: backend for backend in _BACKENDS}
    if name not in known:
        raise InvalidRequest(
            f"no attention backend is called {name!r}; there are {', '.join(map(repr, known))}"
        )
    backend = known[name]
    absent = backend.absent(device, kernels)
    if absent is not None:
        raise InvalidRequest(
            f"the attention backend {name!r} cannot run on {device}: {absent}; "
            "leave the choice open, or ask for 'torch'"
        )
    lacks = backend.lacks(layers, kv_cache.dtype)
    if lacks:
        raise UnsupportedModel(
            f"the attention backend {name!r} lacks what this model needs: {'; '.join(lacks)}; "
            "leave the choice open, or ask for 'torch'"
        )
    return backend.make(kv_cache, kernels)


def _flashinfer_absent(device: torch.device, _kernels: Kernels | None) -> str | None:
    if device.type != "cuda":
        return "it needs a CUDA device"
    if torch.cuda.get_device_capability(device) < (8, 0):
        return "its kernels need compute capability 8.0 (Ampere) or later"
    if importlib.util.find_spec("flashinfer") is None:
        return "flashinfer is not installed (install agentrt[cuda])"
    return None


def _native_absent(_device: torch.device, kernels: Kernels | None) -> str | None:
    return "it needs the CPU kernels" if kernels is None else None


def _make_native(kv_cache: KVCache, kernels: Kernels | None) -> AttentionBackend:
    assert kernels is not None
    return NativeAttention(kernels, kv_cache)


# Fastest first; the last one runs anywhere and serves everything.
_BACKENDS = (
    _Backend(
        "flashinfer",
        _flashinfer_absent,
        FlashInferAttention.unsupported,
        lambda kv_cache, _kernels: FlashInferAttention(kv_cache),
    ),
    _Backend(
        "native",
        _native_absent,
        lambda layers, _dtype: NativeAttention.unsupported(layers),
        _make_native,
    ),
    _Backend(
        "torch",
        lambda _device, _kernels: None,
        lambda layers, _dtype: TorchAttention.unsupported(layers),
        lambda kv_cache, _kernels: TorchAttention(kv_cache),
    ),
)
