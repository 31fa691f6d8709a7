"""The quantised blocks of a GGUF file, found again in the weights transformers made from it.

A loader may rename, permute, split or merge a file's tensors on their way into a model, and how
differs by architecture. What stays is the content of a row: so rows are looked up by what they
dequantise to, which needs no knowledge of the architecture and is exact or not at all.

Block formats: `ggml-common.h` of ggml, 32 weights a block. Q4_1: d, m (fp16), 16 bytes of nibbles,
the low ones first; w = d q + m. Q4_0: d, nibbles; w = d (q - 8). Q8_0: d, 32 int8; w = d q.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TypeVar

import gguf
import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Halves = npt.NDArray[np.float16]
Bytes = npt.NDArray[np.uint8]
Quant = TypeVar("Quant", np.uint8, np.int8)

BLOCK = 32
Q4_0 = gguf.GGMLQuantizationType.Q4_0
Q4_1 = gguf.GGMLQuantizationType.Q4_1
Q8_0 = gguf.GGMLQuantizationType.Q8_0


@dataclass(frozen=True, slots=True)
class Blocks:
    """One weight [N, K] in blocks of 32: w[n, k] = d[n, k // 32] * q[n, k] + m[n, k // 32].

    q is uint8 in 0..15 with m given, or int8 with m None; d and m are fp16 [N, K / 32].
    """

    q: npt.NDArray[np.uint8] | npt.NDArray[np.int8]
    d: Halves
    m: Halves | None

    def dequantised(self) -> Floats:
        """The weight itself, fp32 [N, K]; exactly the file's values."""
        groups = self.q.reshape(len(self.q), -1, BLOCK).astype(np.float32)
        out = groups * self.d.astype(np.float32)[..., None]
        if self.m is not None:
            out += self.m.astype(np.float32)[..., None]
        return out.reshape(self.q.shape)


class BlockFinder:
    """Finds, for a dequantised weight, the quantised rows of a GGUF file that it was made of."""

    def __init__(self, reader: gguf.GGUFReader) -> None:
        kinds = (Q4_0, Q4_1, Q8_0)
        self._tensors = [t for t in reader.tensors if t.tensor_type in kinds and t.data.ndim == 2]
        self._rows: dict[bytes, tuple[int, int]] = {}
        for index, tensor in enumerate(self._tensors):
            values = gguf.dequantize(tensor.data, tensor.tensor_type)
            for row, digest in enumerate(_digests(values)):
                self._rows.setdefault(digest, (index, row))

    def find(self, weight: Floats) -> Blocks | None:
        """The blocks of `weight` fp32 [N, K], or None if any row of it is not in the file."""
        found = [self._rows.get(digest) for digest in _digests(weight)]
        places = np.array([place for place in found if place is not None])
        if not found or len(places) != len(found):
            return None
        kinds = {self._tensors[index].tensor_type for index in np.unique(places[:, 0])}
        if len(kinds) != 1:
            return None
        blocks = _unpack(self._gather(places), kinds.pop())
        # The digest only led here; this is what makes the answer exact.
        return blocks if np.array_equal(blocks.dequantised(), weight) else None

    def _gather(self, places: npt.NDArray[np.int64]) -> Bytes:
        out = np.empty((len(places), self._tensors[places[0, 0]].data.shape[1]), np.uint8)
        for index in np.unique(places[:, 0]):
            rows = places[:, 0] == index
            out[rows] = self._tensors[index].data[places[rows, 1]]
        return out


def _digests(values: Floats) -> list[bytes]:
    # Adding zero turns -0.0 into 0.0: d (q - 8) and d q + m may differ in the sign of a zero.
    rows = np.ascontiguousarray(values + np.float32(0))
    return [hashlib.blake2b(row, digest_size=16).digest() for row in rows]


def _unpack(raw: Bytes, kind: gguf.GGMLQuantizationType) -> Blocks:
    """Splits the file's rows [N, bytes] into quants and scales."""
    size = gguf.GGML_QUANT_SIZES[kind][1]
    blocks = raw.reshape(len(raw), -1, size)
    d = _half(blocks, 0)
    if kind == Q8_0:
        return Blocks(q=_rows(blocks[..., 2:].view(np.int8)), d=d, m=None)
    if kind == Q4_1:
        return Blocks(q=_nibbles(blocks[..., 4:]), d=d, m=_half(blocks, 2))
    # d (q - 8) = d q + (-8 d), and eight times an fp16 number is exact.
    return Blocks(q=_nibbles(blocks[..., 2:]), d=d, m=d * np.float16(-8))


def _half(blocks: Bytes, offset: int) -> Halves:
    return np.ascontiguousarray(blocks[..., offset : offset + 2]).view(np.float16)[..., 0]


def _nibbles(packed: Bytes) -> Bytes:
    low: Bytes = packed & np.uint8(15)
    high: Bytes = packed >> np.uint8(4)
    return _rows(np.concatenate([low, high], axis=-1))


def _rows(blocks: npt.NDArray[Quant]) -> npt.NDArray[Quant]:
    return np.ascontiguousarray(blocks.reshape(len(blocks), -1))
