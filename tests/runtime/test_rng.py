"""The random stream: published answers of the generator, and what a stream must look like."""

from __future__ import annotations

import numpy as np
import pytest

from agentrt.runtime.rng import philox4x32, random_uint64

# philox4x32, 10 rounds, from the known-answer vectors published with Random123.
KNOWN_ANSWERS = [
    (
        (0x00000000, 0x00000000, 0x00000000, 0x00000000),
        (0x00000000, 0x00000000),
        (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8),
    ),
    (
        (0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF),
        (0xFFFFFFFF, 0xFFFFFFFF),
        (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD),
    ),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@pytest.mark.parametrize(("counter", "key", "answer"), KNOWN_ANSWERS)
def test_philox_gives_the_published_answers(counter, key, answer):
    assert philox4x32(counter, key) == answer


def test_the_first_words_are_the_low_ones():
    assert random_uint64(0, 0) == 0xE169C58D_6627E8D5


def test_every_bit_of_seed_and_position_matters():
    base = random_uint64(0, 0)
    others = [random_uint64(1 << bit, 0) for bit in range(63)]
    others += [random_uint64(0, 1 << bit) for bit in range(63)]
    assert len({base, *others}) == 127
    # Half of the 64 bits flip: a mean of 32 with a deviation of 4, over 126 of them.
    flips = [(base ^ other).bit_count() for other in others]
    assert min(flips) > 8
    assert max(flips) < 56
    assert abs(np.mean(flips) - 32) < 4 * 4 / np.sqrt(126)


@pytest.mark.parametrize("along", ["positions", "seeds"])
def test_streams_are_even(along):
    n = 20_000
    draws = [random_uint64(7, i) if along == "positions" else random_uint64(i, 7) for i in range(n)]
    counts = np.bincount([draw >> 58 for draw in draws], minlength=64)
    chi_square = float(((counts - n / 64) ** 2 / (n / 64)).sum())
    assert 30 < chi_square < 110  # 63 degrees of freedom: mean 63, deviation 11


def test_neighbouring_seeds_are_unrelated():
    a, b = (np.asarray([random_uint64(seed, i) for i in range(4000)]) / 2**64 for seed in (1, 2))
    assert abs(np.corrcoef(a, b)[0, 1]) < 4 / np.sqrt(4000)
