"""Runs of kernel calls, written down once and then made by one call.

A step makes hundreds of short calls, and Python takes microseconds to make each: a sixth of a
single stream's step. They are the same calls every time, with arguments that are the same or grow
with the number of tokens. So they are written down for three numbers of tokens; where all arguments
of the three lie on lines, the calls for any other number are known. It is what CUDA graphs do on a
device (`agentrt.runtime.attention.graphs`), which are of one size each.
"""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from agentrt.runtime.native.recording import (
    FIRST_INPUT,
    WORDS,
    WORKSPACE,
    aligned,
    flat,
    record,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from agentrt.runtime.batch import Float32Array, Int64Array
    from agentrt.runtime.native.kernels import Kernels
    from agentrt.runtime.native.recording import Form, Recording

    Tensors = tuple[torch.Tensor, ...]

MOST_TOKENS = 512
"""Of more, the kernels take so long that the time between them does not matter."""
_MOST_RECORDED = 8  # sizes of several tokens, of which no three lie on a line: then it is given up
_MOST_ALONE = 16  # sizes that have a list of their own


class Replayed:
    """A function of tensors whose kernel calls are replayed.

    `function(sizes, *inputs)` returns tensors; for equal sizes, of which the first is the number of
    tokens, its inputs have equal shapes and strides, and what it calls does not depend on what they
    hold. Where it grows with the tokens it does so evenly, or is found out: so is a function that
    does more than to call kernels and look at tensors in other ways, which is called as it is. For
    one thread at a time.
    """

    def __init__(self, kernels: Kernels, function: Callable[..., Tensors]) -> None:
        self._kernels = kernels
        self._function = function
        self._recorded: dict[tuple[Any, ...], Recording] = {}
        self._alone: dict[tuple[Any, ...], CallList] = {}  # what is recorded, each for its sizes
        self._general: CallList | None = None
        # Of one token the strides between tokens may be anything: it is kept apart.
        self._given_up: set[bool] = set()  # False for one token, True for several

    def __call__(self, sizes: tuple[Any, ...], *inputs: torch.Tensor) -> Tensors:
        are_several = sizes[0] > 1
        if are_several in self._given_up or sizes[0] > MOST_TOKENS:
            return self._function(sizes, *inputs)
        calls = self._alone.get(sizes)
        if calls is None and are_several:
            calls = self._general
        if calls is not None and calls.made_ready(sizes):
            return calls.replay(inputs)
        if len(self._alone) == _MOST_ALONE:
            return self._function(sizes, *inputs)
        return self._record(sizes, inputs)

    def _record(self, sizes: tuple[Any, ...], inputs: Tensors) -> Tensors:
        outputs, recording = record(self._kernels, self._function, sizes, inputs)
        if recording is None:
            self._given_up.add(sizes[0] > 1)
        else:
            self._alone[sizes] = CallList(self._kernels, recording.form, recording.numbers)
            if sizes[0] > 1:
                self._compare(sizes, recording)
        return outputs  # replays write theirs to other memory

    def _compare(self, sizes: tuple[Any, ...], last: Recording) -> None:
        """Looks for two recordings that lie on a line with this one."""
        for first, second in combinations(self._recorded.values(), 2):
            line = _line(first, second, last)
            if line is not None:
                self._general = CallList(self._kernels, last.form, *line)
                self._keep_one_token()
                return
        self._recorded[sizes] = last
        if len(self._recorded) == _MOST_RECORDED:
            self._given_up.add(True)
            self._keep_one_token()

    def _keep_one_token(self) -> None:
        self._alone = {s: calls for s, calls in self._alone.items() if s[0] == 1}
        self._recorded.clear()


def _line(a: Recording, b: Recording, c: Recording) -> tuple[Int64Array, Int64Array] | None:
    """What numbers are at no tokens and how they grow with each, if three recordings agree."""
    if not (a.form == b.form == c.form and len({a.tokens, b.tokens, c.tokens}) == 3):
        return None
    slope, rest = np.divmod(b.numbers - a.numbers, b.tokens - a.tokens)
    start = a.numbers - a.tokens * slope
    if rest.any() or not np.array_equal(start + c.tokens * slope, c.numbers):
        return None
    return start, slope


class CallList:
    """Kernel calls in order, whose arguments grow with the number of tokens."""

    def __init__(
        self,
        kernels: Kernels,
        form: Form,
        at_none: Int64Array,
        per_token: Int64Array | None = None,
    ) -> None:
        """The numbers of a recording, at no tokens and for each; without the latter they are for
        one size alone."""
        self._kernels = kernels
        self._form = form
        self._at_none = at_none
        self._per_token = per_token
        homes = np.array(form.homes)
        self._places = [np.flatnonzero(homes == home) for home in range(homes.max(initial=0) + 1)]
        self._lent = sorted({block for block, _ in form.outputs})  # made anew at every replay
        self._kept: dict[int, Float32Array] = {}  # the other blocks
        self._sizes: tuple[Any, ...] = ()

    def made_ready(self, sizes: tuple[Any, ...]) -> bool:
        """Whether there are calls for these sizes; if so they are the next to be replayed."""
        if sizes != self._sizes:
            numbers = self._at_none
            if self._per_token is not None:
                numbers = numbers + sizes[0] * self._per_token
            count, *others = np.split(numbers, np.cumsum(self._form.lengths)[:-1])
            if count.tolist() != list(flat(sizes)):
                return False
            self._lay_out(*others)
            self._sizes = sizes
        return True

    def _lay_out(
        self, words: Int64Array, extents: Int64Array, asked: Int64Array, layouts: Int64Array
    ) -> None:
        self._words = words.copy()
        self._asked = int(asked.max(initial=0))
        self._extents = extents
        self._offsets = [words[places] for places in self._places]
        for block, size in enumerate(extents.tolist()):
            if block in self._lent:
                continue
            if block not in self._kept or self._kept[block].size < size:
                self._kept[block] = aligned(size)
            self._point(FIRST_INPUT + self._form.inputs + block, self._kept[block].ctypes.data)
        self._outputs = list(_outputs(self._form.outputs, layouts.tolist()))

    def _point(self, home: int, address: int) -> None:
        if home < len(self._places):
            self._words[self._places[home]] = self._offsets[home] + address

    def replay(self, inputs: Tensors) -> Tensors:
        """Makes the calls; the outputs lie in memory that nothing else has."""
        if self._asked:
            self._point(WORKSPACE, self._kernels.workspace(self._asked))
        for number, tensor in enumerate(inputs, FIRST_INPUT):
            self._point(number, tensor.data_ptr())
        made = {block: torch.empty(int(self._extents[block])) for block in self._lent}
        for block, tensor in made.items():
            self._point(FIRST_INPUT + len(inputs) + block, tensor.data_ptr())
        self._kernels.call.replay(self._words.ctypes.data, len(self._words) // WORDS)
        return tuple(
            made[out.block].as_strided(out.shape, out.strides, out.offset) for out in self._outputs
        )


class _Output(NamedTuple):
    """How an output lies in the memory that is made for it."""

    block: int
    offset: int
    shape: list[int]
    strides: list[int]


def _outputs(outputs: Sequence[tuple[int, int]], layouts: list[int]) -> Iterator[_Output]:
    at = 0
    for block, dims in outputs:
        offset, *layout = layouts[at : at + 2 * dims + 1]
        yield _Output(block, offset, layout[:dims], layout[dims:])
        at += 2 * dims + 1
