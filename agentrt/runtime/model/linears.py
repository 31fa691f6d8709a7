"""Turns a model's nn.Linear modules into as few matrix products as it has distinct inputs.

Nothing is known of names: modules that were handed the very same tensor object in a probing
forward (q, k and v; gate and up) become one product, of which each then returns its own columns.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import nn

from agentrt.runtime.model import hook
from agentrt.runtime.model.decoder import forward
from agentrt.runtime.model.probing import attend_to_self, probe_positions, probe_tokens

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class LinearGroup:
    """Weights [out_i, in] that are multiplied with one input; `names` are their module paths.

    `bias` [sum of out_i] is None when none of them has one.
    """

    names: tuple[str, ...]
    weights: tuple[torch.Tensor, ...]
    bias: torch.Tensor | None = None

    @property
    def key(self) -> str:
        """Names the product, the same at every load of the same model."""
        return "+".join(self.names)

    def to(self, device: torch.device) -> LinearGroup:
        """The group on a device."""
        weights = tuple(weight.to(device) for weight in self.weights)
        return replace(
            self, weights=weights, bias=self.bias if self.bias is None else self.bias.to(device)
        )


class Product(Protocol):
    """x [..., in] to x @ concatenated(weights).T + bias [..., sum of out_i], contiguous.

    x may be strided; the result has its dtype.
    """

    def __call__(self, x: torch.Tensor, /) -> torch.Tensor: ...


class ProductFactory(Protocol):
    """Makes the product of a group, which may keep the weights in any form it likes."""

    def __call__(self, group: LinearGroup, /) -> Product: ...


def separate_products(group: LinearGroup) -> Product:
    """The product as transformers computes it, weight by weight and so to the same bits."""
    sizes = [len(weight) for weight in group.weights]
    biases = [None] * len(sizes) if group.bias is None else group.bias.split(sizes)
    parts = list(zip(group.weights, biases, strict=True))

    def product(x: torch.Tensor) -> torch.Tensor:
        results = [nn.functional.linear(x, weight, bias) for weight, bias in parts]
        return torch.cat(results, dim=-1) if len(results) > 1 else results[0]

    return product


class FusedLinear(nn.Module):
    """Stands where an nn.Linear stood; returns its columns of the group's product."""

    def __init__(self, shared: SharedProduct, start: int, stop: int) -> None:
        super().__init__()
        self._shared = shared
        self._columns = slice(start, stop)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self._shared(x)[..., self._columns]

    def extra_repr(self) -> str:
        return f"columns {self._columns.start}:{self._columns.stop} of {self._shared.group.key}"


class SharedProduct:
    """One group's product and, until every member has taken its part, its last result.

    A result is only handed out for the very tensor it was computed from, which is held meanwhile:
    members called out of turn, twice or with other inputs cost a product and stay right.
    """

    def __init__(self, group: LinearGroup) -> None:
        self.group = group
        self.product = separate_products(group)
        self._last: tuple[torch.Tensor, torch.Tensor] | None = None
        self._waiting = 0

    def install(self, factory: ProductFactory) -> None:
        """Computes with factory's product from now on, and lets go of the plain weights."""
        self.product = factory(self.group)
        self.group = replace(self.group, weights=(), bias=None)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        last = self._last
        if last is None or last[0] is not x:
            last = (x, self.product(x))
            self._waiting = len(self.group.names)
        self._waiting -= 1
        self._last = last if self._waiting else None
        return last[1]


def fuse_linears(module: nn.Module, attention: Sequence[nn.Module]) -> list[SharedProduct]:
    """Replaces every nn.Linear of a model; the products are plain until `product` is set.

    Exactly nn.Linear: a subclass computes something else and is left alone.
    """
    return [_replace(module, names) for names in _groups(module, attention)]


def _groups(module: nn.Module, attention: Sequence[nn.Module]) -> list[list[str]]:
    """Paths of linear modules, those that always share an input together, in order of call."""
    fed = _inputs(module, attention)
    groups: dict[Any, list[str]] = {}
    for name, part in module.named_modules():
        if type(part) is nn.Linear and name not in fed:
            groups[name] = [name]  # a part this forward had no use for
    for name, inputs in fed.items():
        weight = module.get_submodule(name).weight
        # A module used more than once has no one input to share.
        key = (id(inputs[0]), weight.dtype, weight.device) if len(inputs) == 1 else name
        groups.setdefault(key, []).append(name)
    return list(groups.values())


def _inputs(module: nn.Module, attention: Sequence[nn.Module]) -> dict[str, list[torch.Tensor]]:
    """What each linear module was fed in one forward. Held together, so ids stay distinct."""
    fed: dict[str, list[torch.Tensor]] = {}

    def note(name: str) -> Any:
        return lambda _part, args: fed.setdefault(name, []).append(args[0])

    handles = [
        part.register_forward_pre_hook(note(name))
        for name, part in module.named_modules()
        if type(part) is nn.Linear
    ]
    hook.bind(attention, attend_to_self)
    try:
        positions = probe_positions(module)
        forward(module, probe_tokens(module), positions, positions)
    finally:
        hook.unbind(attention)
        for handle in handles:
            handle.remove()
    return fed


def _replace(module: nn.Module, names: list[str]) -> SharedProduct:
    linears: list[Any] = [module.get_submodule(name) for name in names]
    weights = tuple(linear.weight.detach() for linear in linears)
    shared = SharedProduct(LinearGroup(tuple(names), weights, _bias(linears)))
    start = 0
    for name, weight in zip(names, weights, strict=True):
        part = FusedLinear(shared, start, start + len(weight))
        parent, _, leaf = name.rpartition(".")
        setattr(module.get_submodule(parent), leaf, part)
        start += len(weight)
    return shared


def _bias(linears: list[Any]) -> torch.Tensor | None:
    if all(linear.bias is None for linear in linears):
        return None
    zeros = [linear.weight.new_zeros(linear.out_features) for linear in linears]
    biases = [z if a.bias is None else a.bias.detach() for a, z in zip(linears, zeros, strict=True)]
    return torch.cat(biases)
