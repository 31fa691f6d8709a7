"""The game of 24: four numbers, each used once, + - * /, and the result is 24.

    python recipes/game24.py [--model MODEL] [--live] [--puzzles "4 9 10 13, 1 2 7 12"]

A tree of thoughts, depth first, in which nothing illegal can be thought: the moves that the numbers
allow are worked out exactly, the model only says how likely it finds each one, and the likeliest
are gone into first. Where two numbers are left arithmetic decides, so that every answer printed is
right whatever the model is. The order is all that a model can win: beside the nodes it looked at
stand those of the same search without a model, going into the moves at random (the mean of 100
searches). The provided model hardly knows arithmetic: it looks at about as many, or more.
"""

from __future__ import annotations

import argparse
import random
import re
import statistics
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import TYPE_CHECKING

from common import arguments, console, opened, run
from rich.table import Table

from agentrt.programs import tree_of_thoughts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentrt import State
    from agentrt.programs import Tree

TASK = """Use each number once, with + - * /, to make 24. Each step takes two numbers and leaves \
their result.
4 4 6 8
4 + 8 = 12 (left: 4 6 12)
6 - 4 = 2 (left: 2 12)
2 * 12 = 24 (left: 24)

2 9 10 12
12 * 2 = 24 (left: 9 10 24)
10 - 9 = 1 (left: 1 24)
24 * 1 = 24 (left: 24)

Now this one.
"""
PUZZLES = "3 3 8 8, 2 5 8 11, 1 1 1 1"


def puzzles_in(text: str) -> list[str]:
    """The puzzles of an option."""
    puzzles = [puzzle.strip() for puzzle in text.split(",")]
    for puzzle in puzzles:
        if not re.fullmatch(r"\d{1,4}(\s+\d{1,4}){3}", puzzle):
            raise argparse.ArgumentTypeError(f"{puzzle!r} is not four whole numbers")
    return puzzles


def numbers_in(text: str) -> list[Fraction]:
    """The numbers that are left after the last line."""
    last = text.rstrip().splitlines()[-1]
    left = last.partition("left: ")[2].rstrip(")") or last
    return [Fraction(word) for word in left.split()]


def moves(numbers: Sequence[Fraction]) -> list[str]:
    """Every legal next step, as text; with two numbers left only those that end in 24."""
    found: dict[str, None] = {}
    for one, two in combinations(range(len(numbers)), 2):
        low, high = sorted((numbers[one], numbers[two]))
        rest = [n for index, n in enumerate(numbers) if index not in (one, two)]
        steps = [(low, "+", high, low + high), (low, "*", high, low * high)]
        steps.append((high, "-", low, high - low))
        steps += [(a, "/", b, a / b) for a, b in ((high, low), (low, high)) if b]
        for a, sign, b, result in steps:
            if rest or result == 24:
                left = " ".join(map(str, sorted([*rest, result])))
                found[f"{a} {sign} {b} = {result} (left: {left})"] = None
    return list(found)


@dataclass
class LikeliestFirst:
    """Generates the legal moves, the likeliest first; counts the nodes that were gone into."""

    nodes: int = 0

    async def __call__(self, s: State, count: int) -> list[str]:
        self.nodes += 1
        legal = moves(numbers_in(s.text_so_far))
        if len(legal) < 2:
            return legal
        asked = s.copy()
        steps = [move.partition(" = ")[0] for move in legal]  # the rest follows from these
        await asked.select(steps, name="move")
        selection = asked.result("move").selection
        assert selection is not None
        scores = [choice.score for choice in selection.choices]
        ranked = sorted(zip(scores, legal, strict=True), reverse=True)
        return [move for _, move in ranked[:count]]


async def solve(puzzle: str) -> tuple[Tree, int]:
    """The search tree, and how many of its nodes were gone into."""
    order = LikeliestFirst()
    tree = await tree_of_thoughts(
        TASK + puzzle,
        depth=3,
        branching=99,
        search="depth",
        generate=order,
        evaluate=lambda *_: 0.0,  # all alike: they stay in the order they came in
        solved=lambda thought: thought.text.endswith("(left: 24)"),
        limit=10_000,
    )
    return tree, order.nodes


def at_random(numbers: Sequence[Fraction], dice: random.Random) -> tuple[int, bool]:
    """How many nodes a search without a model goes into, and whether it finds an answer."""
    legal = moves(numbers)
    if len(numbers) == 2:
        return 1, bool(legal)
    looked = 1
    for move in dice.sample(legal, len(legal)):
        below, is_solved = at_random(numbers_in(move), dice)
        looked += below
        if is_solved:
            return looked, True
    return looked, False


async def main() -> None:
    args = arguments(
        __doc__, puzzles=(puzzles_in, puzzles_in(PUZZLES), "four numbers each, commas between")
    )
    table = Table("puzzle", "answer", "nodes", "nodes at random")
    async with opened(args):
        for puzzle in args.puzzles:
            tree, nodes = await solve(puzzle)
            answer = "\n".join(tree.best.steps) if tree.solved else "there is none"
            dice = random.Random(0)
            tries = [at_random(numbers_in(puzzle), dice)[0] for _ in range(100)]
            mean = f"{statistics.mean(tries):.0f}"
            table.add_row(puzzle, answer, str(nodes), mean)
        console.print(table)


if __name__ == "__main__":
    run(main)
