"""Grade-school maths: the model says how the numbers go together, the recipe calculates, most win.

    python recipes/maths.py [--model MODEL] [--live] [--samples N] [--problems N]

Nothing is written freely. Of every sum that uses each number of a problem once, the model chooses
the likeliest after a few solved problems; it is asked so several times, with the solved problems in
another order each time, since a small model minds the order (Wang et al. 2022, Rationale-Augmented
Ensembles, arXiv:2207.00747, after Self-Consistency, arXiv:2203.11171). The vote is on what the sums
come to, and the known answer says whether the winner is right. Expect the provided model to get
problems of one or two steps like these; of longer ones it knows little.
"""

from __future__ import annotations

import random
import re
from fractions import Fraction
from itertools import permutations, product

from common import arguments, console, count, opened, run

from agentrt import State, Vote, gather, program, vote

SOLVED = [
    ("Ann has 3 boxes of 4 pens. She loses 2 pens. How many pens has she left?", "3 * 4 - 2"),
    ("A bus has 20 seats. 15 of them are taken. How many seats are free?", "20 - 15"),
    ("12 sweets are shared equally by 4 children. How many does each child get?", "12 / 4"),
    ("Tom has 6 cars. He gets 5 more. How many cars has he now?", "6 + 5"),
]
PROBLEMS = [
    ("Tim has 5 apples. He buys 3 more. How many apples has he now?", 8),
    ("A book costs 8 euros. Lea buys 4 books. How many euros does she pay?", 32),
    ("24 pupils are put into groups of 3. How many groups are there?", 8),
    ("Max reads 10 pages a day for 3 days, then 5 pages. How many pages did he read?", 35),
    ("Sam had 9 balloons. 4 of them burst. How many balloons are left?", 5),
    ("Paul has 2 bags of 9 marbles and finds 3 more. How many marbles has he?", 21),
]


def sums_of(problem: str) -> list[str]:
    """Every sum that uses each number of a problem once and comes to a whole number."""
    numbers = re.findall(r"[0-9]+", problem)
    sums = (
        order[0]
        + "".join(f" {sign} {number}" for sign, number in zip(signs, order[1:], strict=True))
        for order in dict.fromkeys(permutations(numbers))
        for signs in product("+-*/", repeat=len(numbers) - 1)
    )
    return [each for each in sums if (total := value(each)) is not None and is_count(total)]


def is_count(total: Fraction) -> bool:
    return total >= 0 and total.denominator == 1


def value(expression: str) -> Fraction | None:
    """What a sum comes to, times and divided before plus and minus; None for a division by 0."""
    total = Fraction(0)
    for sign, term in re.findall(r"(^|[-+]) ?([^-+]+)", expression):
        first, *rest = term.split()
        part = Fraction(first)
        for operation, number in zip(rest[::2], rest[1::2], strict=True):
            if operation == "/" and number == "0":
                return None
            part = part * int(number) if operation == "*" else part / int(number)
        total += -part if sign == "-" else part
    return total


@program
async def solve(s: State, problem: str, samples: int, seed: int) -> Vote[str]:
    """The sum that most ways of asking come to."""
    mixed = random.Random(seed)
    orders = [mixed.sample(SOLVED, len(SOLVED)) for _ in range(samples)]

    async def ask(branch: State, order: list[tuple[str, str]]) -> str:
        shown = "".join(f"{question}\nAnswer: {answer}\n\n" for question, answer in order)
        branch.text(f"{shown}{problem}\nAnswer: ")
        return await branch.select(sums_of(problem))

    return vote(await s.each(ask, orders), value)


def show(problem: str, known: int, found: Vote[str]) -> bool:
    """Prints a problem with its votes; whether the winner is right."""
    right = value(found.winner) == known
    counts = ", ".join(f"{answer} ({votes})" for answer, votes in found.counts.items())
    verdict = "[green]right[/]" if right else f"[red]wrong, it is {known}[/]"
    console.print(f"[bold]{problem}[/]\n  {found.winner} = {value(found.winner)}: {verdict}")
    console.print(f"  votes for {counts}", style="dim")
    return right


async def main() -> None:
    args = arguments(
        __doc__,
        samples=(count, 3, "ways in which each problem is asked"),
        problems=(count, len(PROBLEMS), "how many of the problems"),
        seed=(int, 1, "of the order of the solved problems"),
    )
    problems = PROBLEMS[: args.problems]
    async with opened(args):
        found = await gather(
            *(solve(problem, args.samples, args.seed) for problem, _ in problems), limit=2
        )
        right = 0
        for (problem, known), voted in zip(problems, found, strict=True):
            right += show(problem, known, voted)
        console.print(f"right by vote: {right} of {len(problems)}")


if __name__ == "__main__":
    run(main)
