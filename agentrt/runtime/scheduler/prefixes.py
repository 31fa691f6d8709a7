"""Token sequences in lexicographic order, which is a depth-first walk of their prefix tree."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np

from agentrt.runtime.radix.node import shared_length

if TYPE_CHECKING:
    from agentrt.runtime.batch import Int32Array, Int64Array

_DIGEST_BYTES = 16
_DIGEST_WORDS = _DIGEST_BYTES // 4


def encode(tokens: Int32Array, namespace: str) -> bytes:
    """A key that sorts as the tokens do, keys of one namespace together. Tokens are >= 0."""
    return _digest(namespace) + tokens.astype(">i4").tobytes()


@lru_cache(maxsize=1024)
def _digest(namespace: str) -> bytes:
    return blake2b(namespace.encode(), digest_size=_DIGEST_BYTES).digest()


def prefix(key: bytes, length: int) -> bytes:
    """The key of its first `length` tokens."""
    return key[: _DIGEST_BYTES + 4 * length]


def shared(a: bytes, b: bytes) -> int:
    """How many leading tokens two keys share; none across namespaces."""
    words = shared_length(np.frombuffer(a, np.int32), np.frombuffer(b, np.int32))
    return max(0, words - _DIGEST_WORDS)


class PrefixOrder:
    """A multiset of keys, each with an integer, sorted, and how much each shares with the last.

    What any two keys share is the smallest `shares` between them, so one pass of a running minimum
    answers how much each key shares with a given one. An insertion is a binary search and two block
    moves: O(log n) comparisons and O(n) bytes.
    """

    def __init__(self) -> None:
        self._keys: list[bytes] = []
        self._ids: Int64Array = np.zeros(64, dtype=np.int64)
        self._shares: Int64Array = np.zeros(64, dtype=np.int64)

    def __len__(self) -> int:
        return len(self._keys)

    @property
    def ids(self) -> Int64Array:
        """The integers in key order, int64 [n], a view."""
        return self._ids[: len(self._keys)]

    @property
    def shares(self) -> Int64Array:
        """shares[i]: tokens that keys i - 1 and i share, int64 [n], a view; shares[0] is 0."""
        return self._shares[: len(self._keys)]

    def key(self, place: int) -> bytes:
        return self._keys[place]

    def add(self, key: bytes, ident: int) -> None:
        size, at = len(self._keys), bisect_right(self._keys, key)
        if size == len(self._ids):
            self._ids = np.concatenate([self._ids, np.zeros_like(self._ids)])
            self._shares = np.concatenate([self._shares, np.zeros_like(self._shares)])
        if at < size:
            self._ids[at + 1 : size + 1] = self._ids[at:size]
            self._shares[at + 1 : size + 1] = self._shares[at:size]
            self._shares[at + 1] = shared(key, self._keys[at])
        self._ids[at] = ident
        self._shares[at] = shared(self._keys[at - 1], key) if at else 0
        self._keys.insert(at, key)

    def remove(self, key: bytes, ident: int) -> None:
        lo, hi = bisect_left(self._keys, key), bisect_right(self._keys, key)
        at = lo if hi - lo == 1 else lo + int(np.flatnonzero(self._ids[lo:hi] == ident)[0])
        size = len(self._keys)
        if at + 1 < size:
            self._shares[at + 1] = min(self._shares[at], self._shares[at + 1])
            self._ids[at : size - 1] = self._ids[at + 1 : size]
            self._shares[at : size - 1] = self._shares[at + 1 : size]
        del self._keys[at]

    def span(self, key: bytes) -> tuple[int, int]:
        """The places [lo, hi) of the keys that start with this one."""
        # Tokens are not negative, so no key goes on with a byte above 0x7f.
        return bisect_left(self._keys, key), bisect_left(self._keys, key + b"\xff")

    def common(self, key: bytes, lo: int, hi: int) -> Int64Array:
        """How many tokens the keys at places [lo, hi) share with this one, int64 [hi - lo]."""
        at = bisect_left(self._keys, key, lo, hi)
        answer = np.empty(hi - lo, dtype=np.int64)
        if at < hi:
            answer[at - lo :] = self._shares[at:hi]
            answer[at - lo] = shared(key, self._keys[at])
            np.minimum.accumulate(answer[at - lo :], out=answer[at - lo :])
        if lo < at:
            before = answer[: at - lo][::-1]  # nearest first
            before[1:] = self._shares[lo + 1 : at][::-1]
            before[0] = shared(key, self._keys[at - 1])
            np.minimum.accumulate(before, out=before)
        return answer
