"""A model's matrix products on the CPU: packed for the kernels once, mapped ever after."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from safetensors import safe_open
from safetensors.torch import save_file

from agentrt.runtime.models import reading
from agentrt.runtime.native import Q4Weight, Q8Weight

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    import torch

    from agentrt.runtime.model.linears import LinearGroup
    from agentrt.runtime.models import ModelFiles
    from agentrt.runtime.native import Kernels, PackedLinear

WeightForm = Literal["fp32", "int8", "file", "file-fast"]
"""How weights are kept: full floats, blocks of 32 eight-bit integers, or the file's own blocks.
"file-fast" rounds what its four-bit blocks are multiplied by to 8 bits, and to 16 where a block of
it stands out and in the products named `fine`."""

Tensors = dict[str, "torch.Tensor"]

_FILE = "packed.safetensors"


class PackedProducts:
    """Makes the products of one model in one form, and keeps what it packed beside the model.

    "file" multiplies by the quantised blocks exactly as the source has them; a weight that the
    source does not have in blocks is kept in full floats. Nothing is requantised unless "int8" asks
    for it, and then only what has blocks of 32 to quantise.
    """

    def __init__(
        self,
        kernels: Kernels,
        files: ModelFiles,
        form: WeightForm,
        *,
        fine: Iterable[str] = (),
        stored: Path | None = None,
    ) -> None:
        self._kernels = kernels
        self._form: WeightForm = form
        self._fine = frozenset(fine)
        self._blocks = (
            {} if not form.startswith("file") or files.blocks is None else _mapped(files.blocks)
        )
        self._stored = {} if stored is None else _by_product(_mapped(stored / _FILE))
        self._made: dict[str, PackedLinear] = {}

    def __call__(self, group: LinearGroup) -> PackedLinear:
        stored = self._stored.get(group.key)
        product = self._kernels.restore(stored) if stored is not None else self._pack(group)
        self._made[group.key] = product
        return product

    def store(self, folder: Path) -> None:
        """Writes what was made into an existing folder, for `stored` of the next start."""
        tensors = {
            f"{key}/{part}": tensor.contiguous()
            for key, product in self._made.items()
            for part, tensor in product.state().items()
        }
        save_file(tensors, folder / _FILE)

    def _pack(self, group: LinearGroup) -> PackedLinear:
        biases = _biases(group)
        if self._form == "int8" and group.weights[0].shape[1] % 32 == 0:
            return self._kernels.pack_q8(group.weights, biases)
        blocks = [self._blocks_of(name) for name in group.names]
        fours = [block for block in blocks if isinstance(block, Q4Weight)]
        eights = [block for block in blocks if isinstance(block, Q8Weight)]
        if len(fours) == len(group.names):
            mixed = self._form == "file-fast" and group.key not in self._fine
            return self._kernels.pack_q4(fours, biases, mixed=mixed)
        if len(eights) == len(group.names):
            return self._kernels.pack_q8(eights, biases)
        return self._kernels.pack_f32(group.weights, biases)

    def _blocks_of(self, name: str) -> Q4Weight | Q8Weight | None:
        quants = self._blocks.get(f"{name}.weight.q")
        if quants is None:
            return None
        scales = self._blocks[f"{name}.weight.d"]
        minima = self._blocks.get(f"{name}.weight.m")
        return Q8Weight(quants, scales) if minima is None else Q4Weight(quants, scales, minima)


def _biases(group: LinearGroup) -> list[torch.Tensor] | None:
    if group.bias is None:
        return None
    return list(group.bias.split([len(weight) for weight in group.weights]))


def _mapped(path: Path) -> Tensors:
    """The tensors of a file, mapped rather than read; none if there is no such file."""
    if not path.is_file():
        return {}
    with reading(path), safe_open(path, framework="pt") as file:
        return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


def _by_product(tensors: Tensors) -> dict[str, Tensors]:
    products: dict[str, Tensors] = {}
    for name, tensor in tensors.items():
        key, _, part = name.rpartition("/")
        products.setdefault(key, {})[part] = tensor
    return products
