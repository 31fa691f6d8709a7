"""Runs of kernel calls, written down once and then made by one call.

A decode step makes hundreds of short calls, and Python takes microseconds to make each: a sixth of
a single stream's step. For one number of tokens they are the same calls with the same arguments
every time, as long as every result lies where the one before it lay. So they are written down when
a size comes for the second time, their results in memory that is kept. It is what CUDA graphs do on
a device (`agentrt.runtime.attention.graphs`).
"""

from __future__ import annotations

import math
import struct
import threading
import weakref
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from agentrt.runtime.native.library import REPLAYABLE, argument_types

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from agentrt.runtime.batch import Float32Array, Int64Array
    from agentrt.runtime.native.kernels import Kernels

    Tensors = tuple[torch.Tensor, ...]

MOST_TOKENS = 64
"""Of more, the kernels take so long that the time between them does not matter."""
_MOST_KEPT = 128  # lists; a size beyond that drops them all
_WORDS = 12  # `call` of replay.c: which function, and its arguments


class Replayed:
    """A function of tensors whose kernel calls are replayed once a size comes again.

    `function(sizes, *inputs)` returns tensors; for equal sizes, of which the first is the number of
    tokens, its inputs have equal shapes and strides. A function that does anything else than to
    call kernels and look at tensors in other ways is found out, and is called as it is. For one
    thread at a time.
    """

    def __init__(self, kernels: Kernels, function: Callable[..., Tensors]) -> None:
        self._kernels = kernels
        self._function = function
        self._lists: dict[Hashable, CallList | None] = {}  # None: came once
        self._is_replayable = True

    def __call__(self, sizes: tuple[Any, ...], *inputs: torch.Tensor) -> Tensors:
        calls = self._lists.get(sizes)
        if calls is not None:
            return calls.replay(inputs)
        if not self._is_replayable or sizes[0] > MOST_TOKENS:
            return self._function(sizes, *inputs)
        if sizes not in self._lists:
            self._keep(sizes, None)
            return self._function(sizes, *inputs)
        return self._record(sizes, inputs)

    def _record(self, sizes: tuple[Any, ...], inputs: Tensors) -> Tensors:
        with _Recorder(self._kernels) as recorder:
            outputs = self._function(sizes, *inputs)
        calls = recorder.finish(inputs, outputs)
        if calls is None:
            self._is_replayable = False
        else:
            self._keep(sizes, calls)
        return outputs  # replays write theirs to other memory

    def _keep(self, sizes: Hashable, calls: CallList | None) -> None:
        if len(self._lists) == _MOST_KEPT:
            self._lists.clear()
        self._lists[sizes] = calls


@dataclass(frozen=True, slots=True)
class _Output:
    """How an output lies in the memory that is made for it at every replay."""

    memory: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int


@dataclass(frozen=True, slots=True)
class _Patch:
    """The words that point into one tensor, by how far behind its beginning."""

    words: Int64Array
    offsets: Int64Array


class CallList:
    """Kernel calls in order, and which of their arguments are other ones every time."""

    def __init__(
        self,
        kernels: Kernels,
        words: Int64Array,
        *,
        inputs: Sequence[_Patch],
        memories: Sequence[tuple[int, _Patch]],
        outputs: Sequence[_Output],
        kept: Any,
    ) -> None:
        """words [n, 12]; `memories` are the floats to make anew for outputs; `kept` what the other
        arguments point to."""
        self._replay = kernels.call.replay
        self._count = len(words)
        self._words = words.reshape(-1)
        self._at = words.ctypes.data
        self._inputs = inputs
        self._memories = memories
        self._outputs = outputs
        self._kept = kept

    def replay(self, inputs: Tensors) -> Tensors:
        words = self._words
        for tensor, patch in zip(inputs, self._inputs, strict=True):
            words[patch.words] = patch.offsets + tensor.data_ptr()
        made = [torch.empty(size) for size, _ in self._memories]
        for tensor, (_, patch) in zip(made, self._memories, strict=True):
            words[patch.words] = patch.offsets + tensor.data_ptr()
        self._replay(self._at, self._count)
        return tuple(
            made[out.memory].as_strided(out.shape, out.stride, out.offset) for out in self._outputs
        )


class _Recorder(TorchDispatchMode):
    """Writes down the kernel calls of this thread while they are made, their results kept."""

    def __init__(self, kernels: Kernels) -> None:
        super().__init__()
        self._kernels = kernels
        self._thread = threading.get_ident()
        self._memory = _KeptMemory()
        self._words: list[list[int]] = []
        self._pointers: list[int] = []  # the places of addresses in the flat list of words
        self._workspaces: list[torch.Tensor | None] = [None]
        self._is_complete = True

    def __enter__(self) -> Self:
        kernels = self._kernels
        self._before = kernels.call, kernels.empty
        recorded = {name: self._noting(name, call) for name, call in vars(kernels.call).items()}
        kernels.call, kernels.empty = SimpleNamespace(**recorded), self._empty
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self._kernels.call, self._kernels.empty = self._before

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # there is nothing of torch.compile's to skip, and asking it imports all of it

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if func._schema.is_mutable or not _is_view(result, args):
            self._is_complete = False
        return result

    def _empty(self, shape: Sequence[int]) -> torch.Tensor:
        ours = threading.get_ident() == self._thread
        return self._memory.empty(shape) if ours else self._before[1](shape)

    def _noting(self, name: str, call: Callable[..., int]) -> Callable[..., int]:
        if name not in REPLAYABLE:
            return call
        number, types = REPLAYABLE.index(name), argument_types(name)

        def noting(*arguments: Any) -> int:
            if threading.get_ident() == self._thread:
                self._note(number, types, arguments)
            return call(*arguments)

        return noting

    def _note(self, number: int, types: str, arguments: Sequence[Any]) -> None:
        first = len(self._words) * _WORDS + 1
        self._pointers += [first + i for i, letter in enumerate(types) if letter == "p"]
        words = [_word(letter, value) for letter, value in zip(types, arguments, strict=True)]
        self._words.append([number, *words, *[0] * (_WORDS - 1 - len(words))])
        if self._kernels.workspace_memory is not self._workspaces[-1]:  # it has grown
            self._workspaces.append(self._kernels.workspace_memory)

    def finish(self, inputs: Tensors, outputs: Tensors) -> CallList | None:
        """The list of calls; None where replaying it would not be all that was done."""
        homes = [output.untyped_storage().data_ptr() for output in outputs]
        if not self._is_complete or not self._memory.blocks.keys() >= set(homes):
            return None
        words = np.array(self._words, np.int64)
        blocks = {home: self._memory.blocks[home] for home in homes}
        numbers = {home: number for number, home in enumerate(blocks)}
        return CallList(
            self._kernels,
            words,
            inputs=[self._patch(words, *_extent(tensor)) for tensor in inputs],
            memories=[
                (block.size, self._patch(words, home, 0, block.nbytes))
                for home, block in blocks.items()
            ],
            outputs=[
                _Output(numbers[home], tuple(t.shape), t.stride(), int(t.storage_offset()))
                for t, home in zip(outputs, homes, strict=True)
            ],
            kept=(self._memory, self._workspaces),
        )

    def _patch(self, words: Int64Array, at: int, before: int, after: int) -> _Patch:
        """The words that point into [at - before, at + after)."""
        places = np.array(self._pointers)
        offsets = words.reshape(-1)[places] - at
        inside = (offsets >= -before) & (offsets < after)
        return _Patch(places[inside], offsets[inside])


class _KeptMemory:
    """Memory for results that outlives them: what held one is lent again when that is gone."""

    def __init__(self) -> None:
        self._free: dict[int, list[Float32Array]] = {}  # by size
        self.blocks: dict[int, Float32Array] = {}
        """By address."""

    def empty(self, shape: Sequence[int]) -> torch.Tensor:
        size = math.prod(shape)
        free = self._free.setdefault(size, [])
        block = free.pop() if free else self._new(size)
        # A tensor's storage holds on to the array it is made from: this one goes when it goes.
        lent = block.reshape(tuple(shape))
        weakref.finalize(lent, free.append, block).atexit = False
        return torch.from_numpy(lent)

    def _new(self, size: int) -> Float32Array:
        line = 16  # floats
        room = np.empty(size + line, np.float32)
        skip = -(room.ctypes.data // 4) % line
        block = room[skip : skip + size]
        self.blocks[block.ctypes.data] = block
        return block


def _extent(tensor: torch.Tensor) -> tuple[int, int, int]:
    """Where a tensor begins, and how many bytes its storage has before and after that."""
    storage = tensor.untyped_storage()
    before = tensor.data_ptr() - storage.data_ptr()
    return tensor.data_ptr(), before, storage.nbytes() - before


def _is_view(result: Any, args: Sequence[Any]) -> bool:
    """Whether what an operation returned is the tensor it was given, seen in some other way."""
    results = result if isinstance(result, tuple | list) else (result,)
    tensors = [*args[:1], *results]
    if len(tensors) < 2 or not all(isinstance(t, torch.Tensor) for t in tensors):
        return False
    return len({t.untyped_storage().data_ptr() for t in tensors}) == 1


def _word(letter: str, value: Any) -> int:
    if letter in "fd":
        return int.from_bytes(struct.pack("=d", value), "little", signed=True)
    return int(value or 0)
