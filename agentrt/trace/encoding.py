"""Token ids, numbers and texts as few bytes; what `agentrt.trace.tables` keeps in its blobs."""

from __future__ import annotations

import math
import struct
import sys
import zlib
from array import array
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_BY_WIDTH = {2: "H", 4: "I", 8: "q"}
_RAW, _DEFLATED = b"\x00", b"\x01"
_WORTH_DEFLATING = 512
"""Bytes below which deflating takes longer than it saves space."""


def pack(data: bytes) -> bytes:
    """Bytes as they are stored: deflated where that pays."""
    if len(data) >= _WORTH_DEFLATING:
        small = zlib.compress(data, 1)
        if len(small) < len(data):
            return _DEFLATED + small
    return _RAW + data


def unpack(blob: bytes) -> bytes:
    return zlib.decompress(blob[1:]) if blob[:1] == _DEFLATED else blob[1:]


def pack_ids(ids: Sequence[int]) -> bytes:
    """Token ids in as few bytes each as the largest takes: 2, 4 or 8; little-endian."""
    width, raw = id_bytes(ids)
    return bytes([width]) + raw


def id_bytes(ids: Sequence[int]) -> tuple[int, bytes]:
    """How many bytes an id takes, and the ids as such bytes. Raises OverflowError."""
    for code in _BY_WIDTH.values():
        try:
            values = array(code, ids)
        except OverflowError:  # wrong ids are recorded as well: they are why a request failed
            continue
        if sys.byteorder == "big":
            values.byteswap()
        return values.itemsize, values.tobytes()
    raise OverflowError("a token id takes more than 8 bytes")


def unpack_ids(blob: bytes) -> list[int]:
    values = array(_BY_WIDTH[blob[0]])
    values.frombytes(blob[1:])
    if sys.byteorder == "big":
        values.byteswap()
    return values.tolist()


def pack_floats(values: Iterable[float | None]) -> bytes:
    """Numbers as float32, None as NaN, little-endian."""
    known = [math.nan if value is None else value for value in values]
    return struct.pack(f"<{len(known)}f", *known)


def unpack_floats(blob: bytes) -> list[float | None]:
    values = struct.unpack(f"<{len(blob) // 4}f", blob)
    return [None if math.isnan(value) else value for value in values]
