"""How many tokens the KV pool holds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import torch

from agentrt.errors import UnsupportedModel

if TYPE_CHECKING:
    from agentrt.runtime.batch import ModelSpec
    from agentrt.runtime.config import RuntimeConfig

_MOST_CONTEXTS = 16
"""A pool of unspecified size holds no more than this many full contexts: enough to keep what many
requests share, without taking memory that nothing uses."""
_LEAST_TOKENS = 256


def pool_slots(spec: ModelSpec, config: RuntimeConfig, device: torch.device) -> int:
    """Slots of the KV pool: as told, or a share of the memory that is free now.

    Raises UnsupportedModel with the numbers when that is too little to be of use, or when what was
    asked for does not fit.
    """
    free = free_bytes(device)
    fits = free // spec.kv_bytes_per_token
    if config.kv_tokens is not None:
        if config.kv_tokens > fits:
            raise UnsupportedModel(
                f"kv_tokens={config.kv_tokens} takes {_gib(config.kv_tokens, spec)} of KV memory "
                f"({spec.kv_bytes_per_token} bytes a token for {spec.name}) and {device} has "
                f"{free / 2**30:.2f} GiB free; ask for at most {fits}"
            )
        return config.kv_tokens
    slots = min(int(fits * config.kv_memory_share), _MOST_CONTEXTS * spec.context_length)
    if slots < _LEAST_TOKENS:
        raise UnsupportedModel(
            f"{spec.name} takes {spec.kv_bytes_per_token} bytes of KV memory a token; a pool of "
            f"{_LEAST_TOKENS} tokens is {_gib(_LEAST_TOKENS, spec)}, and "
            f"{config.kv_memory_share:.0%} of the {free / 2**30:.2f} GiB free on {device} is less; "
            "free some memory, use a smaller model, or set kv_tokens"
        )
    return slots


def free_bytes(device: torch.device, *, group: Path = Path("/sys/fs/cgroup")) -> int:
    """Bytes free on the device now; for a CPU, at most what the process's control group allows.

    `group` is the folder of that group (Linux control groups version 2), where there is one.
    """
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    free = psutil.virtual_memory().available
    try:
        limit = int((group / "memory.max").read_text())
        used = int((group / "memory.current").read_text())
    except (OSError, ValueError):  # no such group, or "max": no limit
        return free
    return max(0, min(free, limit - used))


def _gib(tokens: int, spec: ModelSpec) -> str:
    return f"{tokens * spec.kv_bytes_per_token / 2**30:.2f} GiB"
