"""The slot pool, against a set of free slots."""

from __future__ import annotations

import numpy as np
import pytest

from agentrt.errors import IntegrityError, InvalidRequest
from agentrt.runtime.pool import SlotPool


def run(*slots: int) -> np.ndarray:
    return np.array(slots, dtype=np.int32)


def test_slots_come_in_order_and_as_int32() -> None:
    pool = SlotPool(8)
    first, second = pool.alloc(3), pool.alloc(2)
    assert first is not None
    assert first.dtype == np.int32
    assert first.tolist() == [0, 1, 2]
    assert second is not None
    assert second.tolist() == [3, 4]
    pool.free(first)
    again = pool.alloc(3)
    assert again is not None
    assert again.tolist() == [0, 1, 2]


def test_alloc_is_all_or_nothing() -> None:
    pool = SlotPool(4)
    assert pool.alloc(5) is None
    assert pool.num_free == 4
    everything = pool.alloc(4)
    assert everything is not None
    assert pool.alloc(1) is None
    nothing = pool.alloc(0)
    assert nothing is not None
    assert len(nothing) == 0


def test_what_alloc_returns_is_the_callers_to_write() -> None:
    pool = SlotPool(4)
    slots = pool.alloc(4)
    assert slots is not None
    pool.free(slots)
    slots[:] = 99
    pool.check_integrity()


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (run(5), "that are free"),
        (run(0, 5, 1), "that are free"),
        (run(0, 1, 0), "twice in one call"),
        (run(0, 0, 0, 0, 0, 0, 0, 0, 0), r"freed 9 slots of <SlotPool 4 free of 8>"),
        (run(8), r"the pool has 0\.\.7"),
        (run(-1), r"the pool has 0\.\.7"),
    ],
)
def test_bad_slots_are_refused_and_nothing_is_freed(bad: np.ndarray, why: str) -> None:
    pool = SlotPool(8)
    held = pool.alloc(4)
    assert held is not None
    with pytest.raises(IntegrityError, match=why):
        pool.free(bad)
    assert pool.num_free == 4
    pool.check_integrity()
    pool.free(held)
    assert pool.num_free == 8
    pool.check_integrity()


def test_a_second_free_is_refused_also_after_others_moved_in() -> None:
    pool = SlotPool(8)
    a, b = pool.alloc(3), pool.alloc(3)
    assert a is not None
    assert b is not None
    pool.free(a)
    pool.free(b)
    for again in (a, b, a[1:2]):
        with pytest.raises(IntegrityError, match="are free"):
            pool.free(again)


def test_impossible_sizes() -> None:
    with pytest.raises(InvalidRequest, match="at least 1 slot, not 0"):
        SlotPool(0)
    with pytest.raises(IntegrityError, match="-1 slots"):
        SlotPool(1).alloc(-1)


def test_a_broken_free_list_is_found() -> None:
    pool = SlotPool(4)
    pool._stack[0] = 2
    with pytest.raises(IntegrityError, match="free list"):
        pool.check_integrity()


def test_repr() -> None:
    pool = SlotPool(8)
    pool.alloc(3)
    assert repr(pool) == "<SlotPool 5 free of 8>"


def test_random_traffic_against_a_set() -> None:
    random = np.random.default_rng(5)
    pool, free, held = SlotPool(50), set(range(50)), []
    for _ in range(3000):
        if random.random() < 0.5:
            n = int(random.integers(0, 12))
            slots = pool.alloc(n)
            assert (slots is None) == (n > len(free))
            if slots is not None:
                assert len(set(slots.tolist()) & free) == n
                free -= set(slots.tolist())
                held.extend(slots.tolist())
        else:
            random.shuffle(held)
            n = int(random.integers(0, len(held) + 1))
            back, held = held[:n], held[n:]
            pool.free(run(*back))
            free |= set(back)
        assert pool.num_free == len(free)
        assert set(pool.free_slots().tolist()) == free
        pool.check_integrity()
