"""Grade-school maths by self-consistency: several ways of reasoning, and a vote on the answer.

    python recipes/maths.py [--model MODEL] [--live] [--samples N] [--problems N]

Wang et al. 2022 (arXiv:2203.11171). A chain ends in a sum over the numbers of the problem, each
used once: the model chooses how they go together, and the recipe calculates. The vote is on what
the sums come to, and the known answer says whether the winner is right. Expect the provided model
to get one or two of the four: a vote makes a model that is often right better, and cannot help one
that guesses.
"""

from __future__ import annotations

import asyncio
import re
from fractions import Fraction
from itertools import permutations

from common import arguments, console, opened

from agentrt import gather
from agentrt.programs import Consensus, self_consistency

SOLVED = """Ann has 3 boxes of 4 pens. She loses 2 pens. How many pens has she left?
There are 3 boxes of 4 pens, so we multiply. 2 are lost, so we subtract.
Answer: 3 * 4 - 2

A bus has 20 seats. 15 of them are taken. How many seats are free?
Of the 20 seats 15 are taken away, so we subtract.
Answer: 20 - 15

12 sweets are shared equally by 4 children. How many sweets does each child get?
The 12 sweets are shared by 4, so we divide.
Answer: 12 / 4

Tom has 6 cars. He gets 5 more. How many cars has he now?
He gets 5 more cars, so we add.
Answer: 6 + 5

"""
PROBLEMS = [
    ("Tim has 5 apples. He buys 3 more. How many apples has he now?", 8),
    ("A book costs 8 euros. Lea buys 4 books. How many euros does she pay?", 32),
    ("24 pupils are put into groups of 3. How many groups are there?", 8),
    ("Max reads 10 pages a day for 3 days, then 5 pages. How many pages did he read?", 35),
]


def sums_of(problem: str) -> str:
    """A regex of every sum that uses each number of a problem once."""
    numbers = re.findall(r"[0-9]+", problem)
    orders = [" [-+*/] ".join(order) for order in permutations(numbers)]
    return "|".join(orders)


def value(expression: str) -> Fraction | None:
    """What a sum comes to, times and divided before plus and minus; None for a division by 0."""
    total = Fraction(0)
    for sign, product in re.findall(r"(^|[-+]) ?([^-+]+)", expression):
        first, *rest = product.split()
        part = Fraction(first)
        for operation, number in zip(rest[::2], rest[1::2], strict=True):
            if operation == "/" and number == "0":
                return None
            part = part * int(number) if operation == "*" else part / int(number)
        total += -part if sign == "-" else part
    return total


def show(problem: str, known: int, found: Consensus) -> bool:
    """Prints a problem with its votes; whether the winner is right."""
    right = value(found.answer) == known
    counts = ", ".join(f"{answer} ({votes})" for answer, votes in found.votes.items())
    verdict = "[green]right[/]" if right else f"[red]wrong, it is {known}[/]"
    console.print(f"[bold]{problem}[/]\n  {found.answer} = {value(found.answer)}: {verdict}")
    console.print(f"  votes for {counts}", style="dim")
    return right


async def main() -> None:
    args = arguments(__doc__, samples=8, problems=len(PROBLEMS), seed=1)
    problems = PROBLEMS[: args.problems]
    ask = self_consistency.using(max_tokens=40, seed=args.seed)
    async with opened(args):
        found = await gather(
            *(
                ask(
                    SOLVED + problem,
                    samples=args.samples,
                    regex=sums_of(problem),
                    key=value,
                    instructions="",
                )
                for problem, _ in problems
            )
        )
        right = alone = 0
        for (problem, known), consensus in zip(problems, found, strict=True):
            right += show(problem, known, consensus)
            alone += sum(value(chain.answer) == known for chain in consensus.chains)
        console.print(
            f"right by vote: {right} of {len(problems)}; "
            f"chains by themselves: {alone} of {len(problems) * args.samples}"
        )


if __name__ == "__main__":
    asyncio.run(main())
