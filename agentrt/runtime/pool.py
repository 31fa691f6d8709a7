"""The pool of KV slots: which are free. One token lives in one slot."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from agentrt.errors import IntegrityError, InvalidRequest

if TYPE_CHECKING:
    from agentrt.runtime.batch import Int32Array


class SlotPool:
    """Hands out the slots 0 .. num_slots - 1 and takes them back; O(n) numpy per call.

    The free slots are a sparse set (Briggs and Torczon, "An efficient representation for sparse
    sets", 1993): `_stack[:num_free]` lists them and `_place[s]` says where s is listed, so that
    membership of many slots is two gathers and nothing ever has to be cleared.

    Raises InvalidRequest when `num_slots` is less than one.
    """

    def __init__(self, num_slots: int) -> None:
        if num_slots < 1:
            raise InvalidRequest(f"a KV pool needs at least 1 slot, not {num_slots}")
        # Descending, so that slots leave the top in ascending order: neighbours in a sequence
        # start out as neighbours in memory.
        self._stack = np.arange(num_slots - 1, -1, -1, dtype=np.int32)
        self._place = self._stack.copy()
        self._num_free = num_slots

    @property
    def num_slots(self) -> int:
        return len(self._stack)

    @property
    def num_free(self) -> int:
        return self._num_free

    def alloc(self, n: int) -> Int32Array | None:
        """Takes n slots out of the pool, int32 [n]; None, and nothing taken, when fewer are free.

        The caller owns them until it frees them or hands them to the tree.
        """
        if n < 0:
            raise IntegrityError(f"asked the pool for {n} slots")
        if n > self._num_free:
            return None
        self._num_free -= n
        return self._stack[self._num_free : self._num_free + n][::-1].copy()

    def free(self, slots: Int32Array) -> None:
        """Takes slots back, all or none.

        Raises IntegrityError for slots that are free already, named twice or not of this pool.
        """
        slots = np.asarray(slots, dtype=np.int32)
        if not len(slots):
            return
        if slots.min() < 0 or slots.max() >= self.num_slots:
            raise IntegrityError(
                f"freed slots {slots.min()}..{slots.max()}; the pool has 0..{self.num_slots - 1}"
            )
        if (already := slots[self.is_free(slots)]).size:
            raise IntegrityError(f"freed {already.size} slots that are free: {already[:8]}...")
        end = self._num_free + len(slots)
        if end > self.num_slots:
            raise IntegrityError(f"freed {len(slots)} slots of {self!r}")
        places = np.arange(end - 1, self._num_free - 1, -1, dtype=np.int32)
        # Written above the top, these still count as taken; a slot named twice shows because only
        # one of its places can stick.
        self._place[slots] = places
        if (twice := slots[self._place[slots] != places]).size:
            raise IntegrityError(f"freed {twice.size} slots twice in one call: {twice[:8]}...")
        self._stack[self._num_free : end] = slots[::-1]
        self._num_free = end

    def is_free(self, slots: Int32Array) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Which of the given slots are free, bool [n]; they must be slots of this pool."""
        places = self._place[slots]
        # A taken slot keeps its last place: above the top, or below it and since given to another.
        return (places < self._num_free) & (self._stack[places] == slots)

    def free_slots(self) -> Int32Array:
        """A copy of the free slots, in no particular order; for integrity checks."""
        return self._stack[: self._num_free].copy()

    def check_integrity(self) -> None:
        """Raises IntegrityError unless the free list names distinct slots of this pool."""
        free = self._stack[: self._num_free]
        inside = self._num_free == 0 or (free.min() >= 0 and free.max() < self.num_slots)
        # A slot has one place, so no slot can be listed in two and pass.
        if not inside or (self._place[free] != np.arange(self._num_free)).any():
            raise IntegrityError(f"the free list of {self!r} is broken: {free[:16]}...")

    def __repr__(self) -> str:
        return f"<SlotPool {self._num_free} free of {self.num_slots}>"
