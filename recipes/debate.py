"""A debate: three people answer a question, read each other, answer again, and are counted.

    python recipes/debate.py [--model MODEL] [--live] [--question "Should ...?"] [--rounds N]

Du et al. 2023 (arXiv:2305.14325). What is said is free text, the vote that ends each speech can
only be yes or no, so that there is always something to count. The three speak at once, and what
they read of each other is computed once. The provided model argues in clichés; who changes sides
from round to round is the part to watch.
"""

from __future__ import annotations

import asyncio

from common import arguments, console, opened

from agentrt.programs import debate

AGENTS = ["a shopkeeper who fears for her customers", "a doctor", "a bus driver"]

CAVEAT = (
    "A model of 135 million parameters argues in clichés, and its votes follow its words more than "
    "any reason: what is right here is the counting. --model takes a larger one."
)


async def main() -> None:
    args = arguments(
        __doc__,
        question="Should the main street of our town be closed to cars?",
        rounds=2,
        words=50,
        seed=3,
    )
    argue = debate.using(max_tokens=args.words, seed=args.seed)
    async with opened(args):
        found = await argue(args.question, AGENTS, rounds=args.rounds, regex="yes|no")
        console.print(f"[bold]{args.question}[/]")
        for number, speeches in enumerate(found.rounds, 1):
            console.print(f"\nround {number}")
            for speech in speeches:
                console.print(f"[bold]{speech.answer:3}[/] {speech.agent}: ", end="")
                console.print(" ".join(speech.text.split()), markup=False, style="dim")
        counts = ", ".join(f"{answer} {votes}" for answer, votes in found.votes.counts.items())
        console.print(f"\nin the end: [bold]{found.answer}[/] ({counts})")
        if args.model is None:
            console.print(CAVEAT, style="dim")


if __name__ == "__main__":
    asyncio.run(main())
