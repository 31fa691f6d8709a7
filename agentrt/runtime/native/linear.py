"""Linear products with weights packed once: y = x W^T + b."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

import torch

from agentrt.errors import InvalidRequest
from agentrt.runtime.native.library import address, checked

if TYPE_CHECKING:
    from agentrt.runtime.native.kernels import Kernels

Kind = Literal["f32", "q8", "q4", "q4_mixed"]
_KINDS: tuple[Kind, ...] = ("f32", "q8", "q4", "q4_mixed")
# The numbers that linear_int.c gives the quantised kinds.
_CODES = {"q8": 0, "q4": 1, "q4_mixed": 2}
LAYOUT = 1  # goes up when the packed layout changes, so that old files are packed again


class PackedLinear:
    """One weight, or several stacked by rows, in the layout of the kernels.

    A row of the result has the same bits whatever other rows are computed with it and on however
    many threads. Quantised kinds round activations to 16 bits with a scale per 32 of a row, which
    moves a result by about 1e-5 of its size; "q4_mixed" to 8 bits, and to 16 in the blocks of 32
    that stand out of their row, by less than 1e-2 of it.
    """

    def __init__(
        self,
        kernels: Kernels,
        kind: Kind,
        weight: torch.Tensor,
        *,
        in_features: int,
        out_features: int,
        bias: torch.Tensor | None = None,
    ) -> None:
        self.kind: Kind = kind
        self.in_features = in_features
        self.out_features = out_features
        self.weight = weight
        self.bias = bias
        self._kernels = kernels

    def __repr__(self) -> str:
        return f"<PackedLinear {self.kind} {self.in_features} -> {self.out_features}>"

    @property
    def nbytes(self) -> int:
        """Bytes that the packed weight takes, which a product with one row reads."""
        return self.weight.nbytes

    def forward(self, x: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
        """float32 [..., in_features] to [..., out_features], into `out` (contiguous) if given."""
        x = checked(x, "the input", torch.float32, self.in_features)
        if out is None:
            out = self._kernels.empty((*x.shape[:-1], self.out_features))
        rows = math.prod(x.shape[:-1])
        kernels, threads = self._kernels, self._kernels.threads
        pointers = self.weight.data_ptr(), address(self.bias), x.data_ptr(), out.data_ptr()
        sizes = rows, self.in_features, self.out_features
        if self.kind == "f32":
            kernels.call.linear_f32(*pointers, *sizes, threads)
            return out
        code = _CODES[self.kind]
        size = kernels.call.linear_int_workspace(rows, self.in_features, code, threads)
        kernels.call.linear_int(*pointers, kernels.workspace(size), *sizes, code, threads)
        return out

    __call__ = forward

    def rows(self, ids: torch.Tensor) -> torch.Tensor:
        """Rows of the weight, float32 [*ids.shape, in_features]: the embedding of tied weights.

        ids int64. Quantised values are what they stand for, rounded once to float32.
        """
        ids = ids.contiguous()
        if ids.numel() and not 0 <= int(ids.min()) <= int(ids.max()) < self.out_features:
            raise InvalidRequest(
                f"row ids reach from {int(ids.min())} to {int(ids.max())}; "
                f"this weight has rows 0 to {self.out_features - 1}"
            )
        out = torch.empty((*ids.shape, self.in_features))
        arguments = self.weight.data_ptr(), ids.data_ptr(), out.data_ptr(), ids.numel()
        kernels = self._kernels
        if self.kind == "f32":
            kernels.call.lookup_f32(*arguments, self.in_features)
        else:
            is_q4 = int(self.kind != "q8")
            kernels.call.lookup_int(*arguments, self.in_features, is_q4, kernels.threads)
        return out

    def state(self) -> dict[str, torch.Tensor]:
        """Tensors to store, in safetensors for one; `Kernels.restore` takes them back unread."""
        header = [LAYOUT, _KINDS.index(self.kind), self.in_features, self.out_features]
        state = {"header": torch.tensor(header), "weight": self.weight}
        return state if self.bias is None else {**state, "bias": self.bias}

    @classmethod
    def from_state(cls, kernels: Kernels, state: dict[str, torch.Tensor]) -> PackedLinear:
        """What `state` came from. Raises InvalidRequest for another version's layout."""
        layout, kind, in_features, out_features = (int(n) for n in state["header"].tolist())
        if layout != LAYOUT:
            raise InvalidRequest(
                f"these weights are packed in layout {layout} and this version reads {LAYOUT}; "
                "pack them again from the model"
            )
        return cls(
            kernels,
            _KINDS[kind],
            state["weight"],
            in_features=in_features,
            out_features=out_features,
            bias=state.get("bias"),
        )
