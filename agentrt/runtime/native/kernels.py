"""The loaded kernels: packs weights, and runs the small operators between the products."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING, Literal

import torch

from agentrt.errors import InvalidRequest
from agentrt.runtime.native import pack
from agentrt.runtime.native.library import address, bind, check, checked
from agentrt.runtime.native.linear import PackedLinear
from agentrt.runtime.native.threads import usable_cores

if TYPE_CHECKING:
    import ctypes
    from collections.abc import Callable, Sequence

    from agentrt.runtime.native.linear import Kind

Activation = Literal["silu", "gelu_tanh"]
_ACTIVATIONS: tuple[Activation, ...] = ("silu", "gelu_tanh")
_F32 = torch.float32


class Kernels:
    """CPU kernels whose results do not depend on the batch, the threads or the tiling.

    All tensors are on the CPU. May be called from several threads at once; while one has the pool
    of threads, another's calls run on its own.
    """

    def __init__(self, library: ctypes.CDLL, *, threads: int | None = None) -> None:
        self.call = SimpleNamespace(**bind(library))
        self.empty: Callable[[Sequence[int]], torch.Tensor] = torch.empty
        """Makes room for a result, float32."""
        self.workspace: Callable[[int], int] = self._workspace
        """The address of so many bytes, 64-byte aligned, this thread's until it asks again."""
        self.threads = threads or usable_cores()
        self._local = threading.local()

    def __repr__(self) -> str:
        return f"<Kernels {self.threads} threads>"

    def _workspace(self, size: int) -> int:
        held = getattr(self._local, "workspace", None)
        if held is None or held.nbytes < size:
            held = torch.empty(size, dtype=torch.uint8)
            self._local.workspace = held
        return held.data_ptr()

    def pack_f32(
        self, weights: Sequence[torch.Tensor], bias: Sequence[torch.Tensor | None] | None = None
    ) -> PackedLinear:
        """Stacks weights [N, K] of any float dtype; `bias`, one entry a weight, [N] or None."""
        packed = pack.pack_f32(torch.cat([weight.float() for weight in weights]))
        return self._packed("f32", packed, weights, bias)

    def pack_q8(
        self,
        weights: Sequence[pack.Q8Weight | torch.Tensor],
        bias: Sequence[torch.Tensor | None] | None = None,
    ) -> PackedLinear:
        """Stacks 8-bit weights; a float tensor [N, K] is quantised as Q8_0 would be."""
        ready = [w if isinstance(w, pack.Q8Weight) else pack.quantise_q8(w) for w in weights]
        stacked = pack.Q8Weight(
            torch.cat([w.quants for w in ready]), torch.cat([w.scales for w in ready])
        )
        return self._packed("q8", pack.pack_q8(stacked), [w.quants for w in ready], bias)

    def pack_q4(
        self,
        weights: Sequence[pack.Q4Weight],
        bias: Sequence[torch.Tensor | None] | None = None,
        *,
        mixed: bool = False,
    ) -> PackedLinear:
        """Stacks 4-bit weights; `mixed` products are half again as fast, at the accuracy that
        PackedLinear states."""
        stacked = pack.Q4Weight(
            torch.cat([w.quants for w in weights]),
            torch.cat([w.scales for w in weights]),
            torch.cat([w.minima for w in weights]),
        )
        kind: Kind = "q4_mixed" if mixed else "q4"
        return self._packed(kind, pack.pack_q4(stacked), [w.quants for w in weights], bias)

    def restore(self, state: dict[str, torch.Tensor]) -> PackedLinear:
        """A product from what `PackedLinear.state` gave."""
        return PackedLinear.from_state(self, state)

    def _packed(
        self,
        kind: Kind,
        packed: torch.Tensor,
        weights: Sequence[torch.Tensor],
        bias: Sequence[torch.Tensor | None] | None,
    ) -> PackedLinear:
        sizes = [weight.shape[0] for weight in weights]
        return PackedLinear(
            self,
            kind,
            packed,
            in_features=weights[0].shape[1],
            out_features=sum(sizes),
            bias=_stack_bias(sizes, bias),
        )

    def rms_norm(self, x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
        """x / sqrt(mean(x^2) + eps) * weight over the last dimension, float32."""
        return self._normalised(x, None, None, weight, eps)

    def add_rms_norm(
        self, x: torch.Tensor, y: torch.Tensor, weight: torch.Tensor, eps: float
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """x + y, of one shape, and its rms_norm; float32. Neither x nor y is changed."""
        y = checked(y, "the second input", _F32, weight.shape[-1])
        total = self.empty(y.shape)
        return total, self._normalised(x, y, total, weight, eps)

    def _normalised(
        self,
        x: torch.Tensor,
        residual: torch.Tensor | None,
        total: torch.Tensor | None,
        weight: torch.Tensor,
        eps: float,
    ) -> torch.Tensor:
        dim = weight.shape[-1]
        heads, token_stride = 1, dim
        if not x.is_contiguous() and _is_part_of_rows(x):
            heads, token_stride = x.shape[-2], x.stride(-3)
        else:
            x = x.contiguous()
        check(x, "the input", _F32, dim)
        out = self.empty(x.shape)
        self.call.rms_norm(
            x.data_ptr(),
            address(residual),
            address(total),
            weight.data_ptr(),
            out.data_ptr(),
            x.numel() // dim,
            heads,
            token_stride,
            dim,
            eps,
            self.threads,
        )
        return out

    def gate(self, gate_up: torch.Tensor, activation: Activation = "silu") -> torch.Tensor:
        """activation(gate) * up of float32 [..., 2 * I], gate first; [..., I]."""
        dim = gate_up.shape[-1] // 2
        x = checked(gate_up, "the input", _F32, 2 * dim)
        out = self.empty((*x.shape[:-1], dim))
        kind = _ACTIVATIONS.index(activation)
        self.call.gate(x.data_ptr(), out.data_ptr(), out.numel() // dim, dim, kind, self.threads)
        return out

    def rotate(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> None:
        """Rotary embedding in place: the first R values of each head, halves paired.

        x float32 [T, heads, dim], may be a strided view; cos and sin float32 [T, R], contiguous.
        """
        tokens, heads, _ = x.shape
        if x.dtype != _F32 or x.stride(-1) != 1:
            raise InvalidRequest(
                f"rotate wants float32 heads with adjacent values, not {x.dtype} {x.stride()}"
            )
        self.call.rotate(
            x.data_ptr(),
            cos.data_ptr(),
            sin.data_ptr(),
            tokens,
            heads,
            cos.shape[-1],
            x.stride(0),
            x.stride(1),
            self.threads,
        )


def _is_part_of_rows(x: torch.Tensor) -> bool:
    """Whether x [..., T, heads, dim] has whole heads side by side, tokens any distance apart."""
    if x.dim() < 3 or x.stride(-1) != 1 or x.stride(-2) != x.shape[-1]:
        return False
    return x.shape[:-3].numel() == 1


def _stack_bias(
    sizes: Sequence[int], bias: Sequence[torch.Tensor | None] | None
) -> torch.Tensor | None:
    if bias is None or all(part is None for part in bias):
        return None
    parts = zip(sizes, bias, strict=True)
    return torch.cat([torch.zeros(n) if b is None else b.float() for n, b in parts])
