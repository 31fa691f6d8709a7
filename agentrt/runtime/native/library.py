"""The C functions as Python sees them: names, arguments, and tensors turned into addresses."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

from agentrt.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch

# p: an address, n: int64, i: int, f: float, d: double.
_TYPES = {
    "p": ctypes.c_void_p,
    "n": ctypes.c_int64,
    "i": ctypes.c_int,
    "f": ctypes.c_float,
    "d": ctypes.c_double,
}
_SIGNATURES = {
    "agentrt_linear_f32": ("ppppnnni", ""),
    "agentrt_lookup_f32": ("pppnn", ""),
    "agentrt_linear_int": ("pppppnnnii", ""),
    "agentrt_linear_int_workspace": ("nnii", "n"),
    "agentrt_lookup_int": ("pppnnii", ""),
    "agentrt_rms_norm": ("pppppnnnnfi", ""),
    "agentrt_gate": ("ppnnii", ""),
    "agentrt_rotate": ("pppnnnnni", ""),
    "agentrt_attention_rows": ("", "n"),
    "agentrt_attention_scratch": ("nn", "n"),
    "agentrt_attention": ("pppnnpppi", ""),
    "agentrt_store": ("pppnnnnn", ""),
    "agentrt_replay": ("pn", ""),
}
REPLAYABLE = ("linear_f32", "linear_int", "rms_norm", "gate", "rotate", "store", "attention")
"""The functions that `replay` can call, in the order in which replay.c numbers them."""


def bind(library: ctypes.CDLL) -> dict[str, Callable[..., int]]:
    """Every function of the library, its argument types declared, by its name less the prefix."""
    functions: dict[str, Callable[..., int]] = {}
    for name, (arguments, result) in _SIGNATURES.items():
        function = getattr(library, name)
        function.argtypes = [_TYPES[letter] for letter in arguments]
        function.restype = _TYPES[result] if result else None
        functions[name.removeprefix("agentrt_")] = function
    return functions


def argument_types(name: str) -> str:
    """The letters of a function's arguments."""
    return _SIGNATURES[f"agentrt_{name}"][0]


def address(tensor: torch.Tensor | None) -> int | None:
    """Where a tensor's data begins; None stays None."""
    return None if tensor is None else tensor.data_ptr()


def checked(tensor: torch.Tensor, name: str, dtype: torch.dtype, width: int) -> torch.Tensor:
    """The tensor, contiguous, if it is what `check` wants."""
    check(tensor, name, dtype, width)
    return tensor.contiguous()


def check(tensor: torch.Tensor, name: str, dtype: torch.dtype, width: int) -> None:
    """Raises InvalidRequest unless the tensor is of `dtype`, on the CPU and `width` wide."""
    if tensor.dtype != dtype or tensor.shape[-1] != width or tensor.device.type != "cpu":
        raise InvalidRequest(
            f"{name} is {tensor.dtype} {tuple(tensor.shape)} on {tensor.device}; "
            f"the kernels want {dtype} [..., {width}] on the CPU"
        )
