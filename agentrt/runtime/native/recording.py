"""Kernel calls written down while a function of tensors makes them.

What is written down is numbers, and of each that is an address what it is counted from: so that two
recordings can be compared, and be told what they have in common.
"""

from __future__ import annotations

import math
import struct
import threading
import weakref
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from agentrt.runtime.native.library import REPLAYABLE, argument_types

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from agentrt.runtime.batch import Float32Array, Int64Array
    from agentrt.runtime.native.kernels import Kernels

    Tensors = tuple[torch.Tensor, ...]

WORDS = 12
"""Of a call in replay.c: which function, and its arguments."""
FIXED, WORKSPACE, FIRST_INPUT = 0, 1, 2  # what a word is counted from; the blocks after the inputs


class Form(NamedTuple):
    """What recordings for different numbers of tokens have in common, if they can be one."""

    inputs: int
    homes: tuple[int, ...]
    """Of each word what it is counted from: FIXED (numbers, and addresses of what stays where it
    is), WORKSPACE, an input or, after those, a block of memory made for results."""
    outputs: tuple[tuple[int, int], ...]
    """In which block each output lies, and how many dimensions it has."""
    lengths: tuple[int, ...]
    """Of the five parts of `Recording.numbers`."""


class Recording(NamedTuple):
    """The calls of a function for one number of tokens."""

    tokens: int
    form: Form
    numbers: Int64Array
    """One after the other: the sizes, the words of the calls, the floats of each block, the bytes
    asked of the workspace, and of each output its offset, shape and strides."""


def record(
    kernels: Kernels, function: Callable[..., Tensors], sizes: tuple[Any, ...], inputs: Tensors
) -> tuple[Tensors, Recording | None]:
    """What function(sizes, *inputs) returns, and its calls; None where it does more than to call
    kernels and look at tensors in other ways."""
    with _Recorder(kernels) as recorder:
        outputs = function(sizes, *inputs)
    return outputs, recorder.finish(sizes, inputs, outputs)


def flat(sizes: Any) -> Iterator[int]:
    """Numbers, in tuples or not."""
    if isinstance(sizes, tuple):
        for size in sizes:  # pyright: ignore[reportUnknownVariableType]
            yield from flat(size)
    else:
        yield int(sizes)


class _Recorder(TorchDispatchMode):
    """Writes down the kernel calls of this thread while they are made."""

    def __init__(self, kernels: Kernels) -> None:
        super().__init__()
        self._kernels = kernels
        self._thread = threading.get_ident()
        self._memory = _Memory()
        self._words: list[list[int]] = []
        self._pointers: list[int] = []  # the places of addresses in the flat list of words
        self._asked: list[int] = []  # bytes of workspace
        self._is_complete = True

    def __enter__(self) -> Self:
        kernels = self._kernels
        self._before = kernels.call, kernels.empty, kernels.workspace
        recorded = {name: self._noting(name, call) for name, call in vars(kernels.call).items()}
        kernels.call = SimpleNamespace(**recorded)
        kernels.empty, kernels.workspace = self._empty, self._workspace
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self._kernels.call, self._kernels.empty, self._kernels.workspace = self._before

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

    @property
    def _is_ours(self) -> bool:
        return threading.get_ident() == self._thread

    def _empty(self, shape: Sequence[int]) -> torch.Tensor:
        return self._memory.empty(shape) if self._is_ours else self._before[1](shape)

    def _workspace(self, size: int) -> int:
        if not self._is_ours:
            return self._before[2](size)
        self._asked.append(size)
        return self._memory.workspace(size)

    def _noting(self, name: str, call: Callable[..., int]) -> Callable[..., int]:
        if name not in REPLAYABLE:
            return call
        number, types = REPLAYABLE.index(name), argument_types(name)

        def noting(*arguments: Any) -> int:
            if self._is_ours:
                self._note(number, types, arguments)
            return call(*arguments)

        return noting

    def _note(self, number: int, types: str, arguments: Sequence[Any]) -> None:
        first = len(self._words) * WORDS + 1
        self._pointers += [first + i for i, letter in enumerate(types) if letter == "p"]
        words = [_word(letter, value) for letter, value in zip(types, arguments, strict=True)]
        self._words.append([number, *words, *[0] * (WORDS - 1 - len(words))])

    def finish(self, sizes: tuple[Any, ...], inputs: Tensors, outputs: Tensors) -> Recording | None:
        """The recording; None where repeating the calls would not be all that was done."""
        blocks = self._memory.blocks
        number_of = {block.ctypes.data: number for number, block in enumerate(blocks)}
        homes = [number_of.get(output.untyped_storage().data_ptr()) for output in outputs]
        if not self._is_complete or None in homes:
            return None
        words = np.array(self._words, np.int64).reshape(-1)
        counted_from = self._count(words, inputs)
        layouts = [n for t in outputs for n in (int(t.storage_offset()), *t.shape, *t.stride())]
        extents = [block.size for block in blocks]
        parts = [list(flat(sizes)), words, extents, self._asked, layouts]
        form = Form(
            len(inputs),
            tuple(counted_from.tolist()),
            tuple((home or 0, t.dim()) for home, t in zip(homes, outputs, strict=True)),
            tuple(len(part) for part in parts),
        )
        numbers = np.concatenate([np.asarray(part, np.int64) for part in parts])
        return Recording(parts[0][0], form, numbers)

    def _count(self, words: Int64Array, inputs: Tensors) -> Int64Array:
        """Takes from the addresses what they are counted from; returns what that is."""
        places = np.array(self._pointers, np.int64)
        addresses = words[places]
        homes = np.zeros(len(words), np.int64)

        def count(home: int, start: int, first: int, end: int) -> None:
            inside = (addresses >= first) & (addresses < end)
            # Of tensors in one memory the last that begins before the address has it.
            inside &= (homes[places] == FIXED) | (addresses >= start)
            homes[places[inside]] = home
            words[places[inside]] = addresses[inside] - start

        for space in self._memory.workspaces:
            count(WORKSPACE, at := space.ctypes.data, at, at + space.nbytes)
        for number, block in enumerate(self._memory.blocks, FIRST_INPUT + len(inputs)):
            count(number, at := block.ctypes.data, at, at + block.nbytes)
        for number in sorted(range(len(inputs)), key=lambda i: inputs[i].data_ptr()):
            storage = inputs[number].untyped_storage()
            first = storage.data_ptr()
            end = first + storage.nbytes()
            count(FIRST_INPUT + number, inputs[number].data_ptr(), first, end)
        return homes


class _Memory:
    """Memory for results that outlives them: what held one is lent again when that is gone."""

    def __init__(self) -> None:
        self._free: dict[int, list[Float32Array]] = {}  # by size
        self.blocks: list[Float32Array] = []
        self.workspaces: list[Float32Array] = []

    def empty(self, shape: Sequence[int]) -> torch.Tensor:
        size = math.prod(shape)
        free = self._free.setdefault(size, [])
        block = free.pop() if free else self._new(size)
        # A tensor's storage holds on to the array it is made from: this one goes when it goes.
        lent = block.reshape(tuple(shape))
        weakref.finalize(lent, free.append, block).atexit = False
        return torch.from_numpy(lent)

    def _new(self, size: int) -> Float32Array:
        self.blocks.append(aligned(size))
        return self.blocks[-1]

    def workspace(self, size: int) -> int:
        if not self.workspaces or self.workspaces[-1].nbytes < size:
            self.workspaces.append(aligned(-(-size // 4)))
        return self.workspaces[-1].ctypes.data


def aligned(size: int) -> Float32Array:
    """So many floats, at the beginning of a cache line."""
    line = 16  # floats
    room = np.empty(size + line, np.float32)
    skip = -(room.ctypes.data // 4) % line
    return room[skip : skip + size]


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
