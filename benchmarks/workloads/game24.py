"""The game of 24 by breadth-first tree search: legal moves, valued by the model, a few kept.

Yao et al. 2023, Tree of Thoughts, arXiv:2305.10601, section 4.1. Moves are worked out exactly and
drawn with a seed, and so is which states are kept: every engine values the same ones, whatever it
thinks of them.
"""

from __future__ import annotations

import asyncio
import random
from fractions import Fraction
from itertools import combinations
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.workloads.branch import Branch

TASK = """Use each number once, with + - * /, to make 24. Each step takes two of the numbers left \
and puts back what comes of them.
4 4 6 8
4 + 8 = 12 (left: 4 6 12)
It can be done: likely
6 - 4 = 2 (left: 2 12)
It can be done: surely
2 * 12 = 24 (left: 24)

1 1 11 11
11 * 11 = 121 (left: 1 1 121)
It can be done: never

"""
VERDICTS = (" surely", " likely", " never")
Numbers = tuple[Fraction, ...]
T = TypeVar("T")


def moves(numbers: Numbers) -> list[tuple[str, Numbers]]:
    """Every legal step, as it is written down, and what it leaves."""
    found: dict[str, Numbers] = {}
    for one, two in combinations(range(len(numbers)), 2):
        low, high = sorted((numbers[one], numbers[two]))
        rest = [n for at, n in enumerate(numbers) if at not in (one, two)]
        steps = [(low, "+", high, low + high), (low, "*", high, low * high)]
        steps.append((high, "-", low, high - low))
        steps += [(a, "/", b, a / b) for a, b in ((high, low), (low, high)) if b]
        for a, sign, b, result in steps:
            left = tuple(sorted([*rest, result]))
            found[f"{a} {sign} {b} = {result} (left: {' '.join(map(str, left))})"] = left
    return sorted(found.items())


async def search(s: Branch, numbers: Sequence[int], *, seed: int, keep: int, most: int) -> None:
    """Up to `most` moves of each state are valued, `keep` states of each level gone on with."""
    rng = random.Random(seed)
    s.say(f"{TASK}{' '.join(map(str, numbers))}")
    level = [(s, tuple(map(Fraction, sorted(numbers))))]
    while level and len(level[0][1]) > 1:
        grown: list[tuple[Branch, Numbers]] = []
        for state, left in level:
            drawn = _drawn(rng, moves(left), most)
            for branch, (said, then) in zip(state.fork(len(drawn)), drawn, strict=True):
                branch.say(f"\n{said}\nIt can be done:")
                grown.append((branch, then))
        await asyncio.gather(*(branch.select(VERDICTS) for branch, _ in grown))
        level = _drawn(rng, grown, keep)


def _drawn(rng: random.Random, items: list[T], most: int) -> list[T]:
    return rng.sample(items, min(most, len(items)))
