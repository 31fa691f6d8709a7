"""Records one forward on real tensors: every aten operation, in order, with what it was given."""

# The dispatcher's own questions have no public names: torch._C and _cdata are used knowingly.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from agentrt.runtime.model.graph.ir import ATTEND, PRODUCT, Arg, Const, Device, Node, Ref, Symbol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from agentrt.runtime.attention.base import AttentionBackend
    from agentrt.runtime.batch import Layout as BatchLayout
    from agentrt.runtime.model.linears import Product

_aten = torch.ops.aten
# Both return the tensor they are given: torch marks with them what was made from Python numbers.
_NOTHING = (_aten.lift_fresh.default, _aten.detach_.default)


class NotCapturable(Exception):
    """The forward cannot be replayed from a list of operations; the message says why."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Where one tensor of a trace lies: the number of its storage, sizes, strides, offset."""

    root: Ref | Const
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int
    dtype: str


@dataclass(slots=True)
class Trace:
    """What one forward did. Values are numbered in the order in which they were made."""

    nodes: list[Node] = field(default_factory=list[Node])
    placements: dict[int, Placement] = field(default_factory=dict[int, Placement])
    constants: dict[str, torch.Tensor] = field(default_factory=dict[str, torch.Tensor])
    output: int = -1


class Tracer(TorchDispatchMode):
    """Records what runs under it. `names` are the tensors that have names, by id."""

    def __init__(self, inputs: Sequence[torch.Tensor], names: dict[int, str]) -> None:
        super().__init__()
        self.trace = Trace()
        self._names = names
        self._known: dict[int, Ref | Const] = {}
        self._roots: dict[int, Ref | Const] = {}
        # Every tensor is kept until the end, or ids and addresses would be used again.
        self._alive: list[torch.Tensor] = []
        for tensor in inputs:
            self._define(tensor)

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if func in _NOTHING:
            return args[0]
        if torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd"):
            with self:
                result = func.decompose(*args, **kwargs)
            if result is not NotImplemented:
                return result
        if func is _aten._local_scalar_dense.default:
            raise NotCapturable("it looks at the value of a tensor to decide what to do next")
        result = func(*args, **kwargs)
        name = f"{func.namespace}.{func._schema.name.split('::')[1]}.{func._overloadname}"
        self._record(name, args, kwargs, result, mutates=func._schema.is_mutable)
        return result

    def attending(self, backend: AttentionBackend) -> AttentionBackend:
        """The backend, with every call recorded as one operation."""
        return _TracedBackend(self, backend)

    def multiplying(self, key: str, product: Product) -> Product:
        """The product, with every call recorded as one operation."""
        return lambda x: self._call(PRODUCT, key, lambda: product(x), x)

    def finish(self, logits: torch.Tensor) -> Trace:
        """The trace; `logits` is the tensor that the forward returned."""
        reference = self._known.get(id(logits))
        if not isinstance(reference, Ref):
            raise NotCapturable("its logits are not made by a recorded operation")
        self.trace.output = reference.value
        return self.trace

    def _call(
        self, op: str, key: Arg, compute: Callable[[], torch.Tensor], *tensors: torch.Tensor | None
    ) -> torch.Tensor:
        with torch._C._DisableTorchDispatch():
            result = compute()
        self._record(op, (key, *tensors), {}, result, mutates=False)
        return result

    def _record(
        self, op: str, args: Sequence[Any], kwargs: dict[str, Any], result: Any, *, mutates: bool
    ) -> None:
        encoded = tuple(self._encode(arg) for arg in args)
        named = {key: self._encode(arg) for key, arg in kwargs.items()}
        if mutates:
            self._refuse_changed_constants((*encoded, *named.values()))
        results = result if isinstance(result, tuple | list) else (result,)
        if isinstance(result, tuple | list) and len(results) == 1:
            raise NotCapturable(f"{op} returns a list of one tensor")
        outputs = tuple(self._define(r) if isinstance(r, torch.Tensor) else None for r in results)
        self.trace.nodes.append(Node(op, encoded, named, outputs, mutates))

    def _refuse_changed_constants(self, args: Sequence[Arg]) -> None:
        for arg in args:
            root = self.trace.placements[arg.value].root if isinstance(arg, Ref) else arg
            if isinstance(root, Const):
                raise NotCapturable(f"it may write to {root.name}, which outlives the step")

    def _define(self, tensor: torch.Tensor) -> int:
        known = self._known.get(id(tensor))
        if isinstance(known, Ref):  # an operation in place returns what it was given
            return known.value
        value = len(self.trace.placements)
        self._alive.append(tensor)
        self._known[id(tensor)] = Ref(value)
        root = self._roots.setdefault(tensor.untyped_storage()._cdata, Ref(value))
        self.trace.placements[value] = Placement(
            root,
            tuple(tensor.shape),
            tensor.stride(),
            int(tensor.storage_offset()),
            str(tensor.dtype),
        )
        return value

    def _encode(self, arg: Any) -> Arg:
        if isinstance(arg, torch.Tensor):
            return self._known.get(id(arg)) or self._constant(arg)
        if isinstance(arg, list | tuple):
            return [self._encode(item) for item in cast("Sequence[Any]", arg)]
        if isinstance(arg, torch.device):
            return Device()
        if isinstance(arg, torch.dtype | torch.layout | torch.memory_format):
            return Symbol(str(arg).removeprefix("torch."))
        if arg is None or isinstance(arg, bool | int | float | str):
            return arg
        raise NotCapturable(f"it passes a {type(arg).__name__} to an operation")

    def _constant(self, tensor: torch.Tensor) -> Const:
        name = self._names.get(id(tensor), f"unnamed.{len(self.trace.constants)}")
        constant = Const(name)
        self._alive.append(tensor)
        self._known[id(tensor)] = constant
        self._roots.setdefault(tensor.untyped_storage()._cdata, constant)
        self.trace.constants[name] = tensor
        return constant


class _TracedBackend:
    def __init__(self, tracer: Tracer, backend: AttentionBackend) -> None:
        self._tracer = tracer
        self._backend = backend

    @classmethod
    def unsupported(cls, layers: Sequence[Any]) -> list[str]:  # noqa: ARG003
        return []

    def plan(self, layout: BatchLayout) -> None:
        self._backend.plan(layout)

    def run(
        self,
        layer: int,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        sinks: torch.Tensor | None = None,
    ) -> torch.Tensor:
        compute = lambda: self._backend.run(layer, q, k, v, sinks)  # noqa: E731
        return self._tracer._call(ATTEND, layer, compute, q, k, v, sinks)
