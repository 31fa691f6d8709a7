"""A counter-based random stream per request: the same bits whatever else is being computed.

Philox4x32-10 of Salmon, Moraes, Dror and Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3"
(SC'11), section 3.3. There is no state to carry, so neither the batch, nor the cache, nor a retry
can shift a request's stream.
"""

from __future__ import annotations

_WORD = 0xFFFFFFFF
_MULTIPLIER_0, _MULTIPLIER_1 = 0xD2511F53, 0xCD9E8D57
_WEYL_0, _WEYL_1 = 0x9E3779B9, 0xBB67AE85  # the golden ratio and sqrt(3) - 1, in 32 bits
_ROUNDS = 10


def philox4x32(
    counter: tuple[int, int, int, int], key: tuple[int, int]
) -> tuple[int, int, int, int]:
    """Four random 32-bit words for a counter of four and a key of two 32-bit words."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(_ROUNDS):
        p0, p1 = c0 * _MULTIPLIER_0, c2 * _MULTIPLIER_1
        c0, c1, c2, c3 = (p1 >> 32) ^ c1 ^ k0, p1 & _WORD, (p0 >> 32) ^ c3 ^ k1, p0 & _WORD
        k0, k1 = (k0 + _WEYL_0) & _WORD, (k1 + _WEYL_1) & _WORD
    return c0, c1, c2, c3


def random_uint64(seed: int, position: int) -> int:
    """The 64 random bits that belong to (`seed`, `position`), both in [0, 2**64)."""
    key = (seed & _WORD, seed >> 32)
    low, high, _, _ = philox4x32((position & _WORD, position >> 32, 0, 0), key)
    return low | high << 32
