"""A debate: three people answer a question, read each other, answer again, and are counted.

    python recipes/debate.py [--model MODEL] [--live] [--question "Should ...?"] [--rounds N]

Du et al. 2023 (arXiv:2305.14325). What is said is free text, the vote that ends each speech can
only be yes or no, so that there is always something to count. The three speak at once, and what
they read of each other is computed once. The provided model argues in clichés; who changes sides
from round to round is the part to watch.
"""

from __future__ import annotations

from common import arguments, console, count, opened, run, words
from rich.text import Text

from agentrt.programs import debate

QUESTION = "Should the main street of our town be closed to cars?"
AGENTS = ["a shopkeeper who fears for her customers", "a doctor", "a bus driver"]

CAVEAT = (
    "A model of 135 million parameters argues in clichés, and its votes follow its words more than "
    "any reason: what is right here is the counting. --model takes a larger one."
)


async def main() -> None:
    args = arguments(
        __doc__,
        question=(words, QUESTION, "what it is about, to be answered by yes or no"),
        rounds=(count, 2, "how often each of the three speaks"),
        words=(count, 50, "most tokens of a speech"),
        seed=(int, 3, "of what is said"),
    )
    argue = debate.using(max_tokens=args.words, seed=args.seed)
    async with opened(args):
        found = await argue(args.question, AGENTS, rounds=args.rounds, regex="yes|no")
        console.print(f"[bold]{args.question}[/]")
        for number, speeches in enumerate(found.rounds, 1):
            console.print(f"\nround {number}")
            for speech in speeches:
                said = Text(" ".join(speech.text.split()), style="dim")
                console.print(
                    Text.assemble((f"{speech.answer:3} ", "bold"), f"{speech.agent}: ", said)
                )
        counts = ", ".join(f"{answer} {votes}" for answer, votes in found.votes.counts.items())
        console.print(f"\nin the end: [bold]{found.answer}[/] ({counts})")
        if args.model is None:
            console.print(CAVEAT, style="dim")


if __name__ == "__main__":
    run(main)
