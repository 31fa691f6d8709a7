"""Which attention backend serves a model on a device."""

from __future__ import annotations

import importlib.util
import logging
from typing import TYPE_CHECKING, NamedTuple

import torch

from agentrt.errors import InvalidRequest, UnsupportedModel
from agentrt.runtime.attention.flashinfer import FlashInferAttention
from agentrt.runtime.attention.reference import TorchAttention

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from agentrt.runtime.attention.base import AttentionBackend, KVCache, LayerAttention

_log = logging.getLogger(__name__)


class _Backend(NamedTuple):
    name: str
    absent: Callable[[torch.device], str | None]
    """Why it cannot run on this device, on this machine; None: it can."""
    lacks: Callable[[Sequence[LayerAttention], torch.dtype], list[str]]
    """What it cannot do of what these layers need, with a KV cache of this dtype."""
    make: Callable[[KVCache], AttentionBackend]


def choose_backend(
    device: torch.device,
    layers: Sequence[LayerAttention],
    kv_cache: KVCache,
    override: str | None = None,
) -> AttentionBackend:
    """The first backend, fastest first, that runs on `device` and can do all that `layers` need.

    `override` names one instead ("flashinfer", "torch"). Raises InvalidRequest for an unknown name
    or one that cannot run here, UnsupportedModel, naming what is missing, for one that cannot
    serve these layers. Nothing is approximated: a slower backend is chosen, and logged, instead.
    """
    if override is not None:
        return _named(override, device, layers, kv_cache)
    refusals: list[str] = []
    for backend in _BACKENDS:
        if backend.absent(device) is not None:
            continue
        lacks = backend.lacks(layers, kv_cache.dtype)
        if not lacks:
            for refusal in refusals:
                _log.warning("attention by %s, more slowly: %s", backend.name, refusal)
            return backend.make(kv_cache)
        refusals.append(f"{backend.name} lacks {'; '.join(lacks)}")
    raise UnsupportedModel(f"no attention backend can serve this model: {', '.join(refusals)}")


def _named(
    name: str, device: torch.device, layers: Sequence[LayerAttention], kv_cache: KVCache
) -> AttentionBackend:
    known = {backend.name: backend for backend in _BACKENDS}
    if name not in known:
        raise InvalidRequest(
            f"no attention backend is called {name!r}; there are {', '.join(map(repr, known))}"
        )
    backend = known[name]
    absent = backend.absent(device)
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
    return backend.make(kv_cache)


def _flashinfer_absent(device: torch.device) -> str | None:
    if device.type != "cuda":
        return "it needs a CUDA device"
    if torch.cuda.get_device_capability(device) < (8, 0):
        return "its kernels need compute capability 8.0 (Ampere) or later"
    if importlib.util.find_spec("flashinfer") is None:
        return "flashinfer is not installed (install agentrt[cuda])"
    return None


# Fastest first; the last one runs anywhere and serves everything.
_BACKENDS = (
    _Backend(
        "flashinfer", _flashinfer_absent, FlashInferAttention.unsupported, FlashInferAttention
    ),
    _Backend(
        "torch",
        lambda _device: None,
        lambda layers, _dtype: TorchAttention.unsupported(layers),
        TorchAttention,
    ),
)
