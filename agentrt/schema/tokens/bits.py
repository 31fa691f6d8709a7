"""Packed masks: the bit of token t is bit t % 32 of the little-endian word t // 32."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Collection

_MANY = 60
_BITS = np.left_shift(np.uint32(1), np.arange(32, dtype=np.uint32))


def pack(allowed: np.ndarray) -> np.ndarray:
    """A Boolean array as packed 32-bit words, lowest bit first."""
    bits = np.packbits(allowed, bitorder="little")
    padded = np.zeros((len(allowed) + 31) // 32 * 4, dtype=np.uint8)
    padded[: len(bits)] = bits
    return padded.view("<u4").astype(np.uint32, copy=False)


def has_bit(mask: np.ndarray, token: int) -> bool:
    return bool(mask[token >> 5] >> (token & 31) & 1)


def set_bits(mask: np.ndarray, tokens: Collection[int]) -> None:
    """Sets the tokens' bits in a packed mask."""
    if len(tokens) < _MANY:
        octets = mask.data.cast("B")
        for token in tokens:
            octets[token >> 3] |= 1 << (token & 7)
        return
    listed = np.fromiter(tokens, dtype=np.int64, count=len(tokens))
    np.bitwise_or.at(mask, listed >> 5, _BITS[listed & 31])


def clear_bits(mask: np.ndarray, tokens: Collection[int]) -> None:
    """Clears the tokens' bits in a packed mask."""
    if len(tokens) < _MANY:
        octets = mask.data.cast("B")
        for token in tokens:
            octets[token >> 3] &= ~(1 << (token & 7))
        return
    others = np.zeros_like(mask)
    set_bits(others, tokens)
    mask &= ~others


def tokens_of(mask: np.ndarray) -> np.ndarray:
    """The tokens whose bit is set, int64."""
    words = np.flatnonzero(mask)
    if len(words) > len(mask) // 8:
        return np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little"))
    bits = np.unpackbits(mask[words].view(np.uint8).reshape(-1, 4), axis=1, bitorder="little")
    at, bit = np.nonzero(bits)
    return words[at] * 32 + bit
