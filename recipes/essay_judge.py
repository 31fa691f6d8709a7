"""An essay judged by several dimensions at once, then as a whole (branch, solve, merge).

    python recipes/essay_judge.py [--model MODEL] [--live] [--essay FILE]

The essay is computed once; a fork for each dimension criticises and marks it, and the critiques are
merged (Saha et al. 2023, arXiv:2310.15123). A mark is an expectation over the likelihood of every
mark from 1 to 10, not a digit that was drawn, so it is the same each time and finer than the scale.
The provided model is no judge: its marks lie close together near 1 whatever it reads, and its
critiques retell the text. Given a larger model, the same file is one.
"""

from __future__ import annotations

from common import DATA, arguments, console, count, file, opened, run
from rich.table import Table

from agentrt.programs import judge_text

DIMENSIONS = {
    "clarity": "is it easy to follow?",
    "argument": "are its reasons good, and are objections met?",
    "evidence": "does it name facts and numbers?",
    "style": "is it pleasant to read?",
}
CAVEAT = (
    "A model of 135 million parameters is no judge: its marks are near 1 whatever it reads, and "
    "its critiques retell the text. --model takes a larger one."
)


async def main() -> None:
    args = arguments(
        __doc__,
        essay=(file, DATA / "essays" / "bicycle.txt", "the text that is judged"),
        words=(count, 40, "most tokens of a critique"),
    )
    essay = args.essay.read_text(encoding="utf-8")
    async with opened(args):
        found = await judge_text.using(max_tokens=args.words)(essay, DIMENSIONS)
        table = Table("dimension", "mark", "likeliest", "critique")
        for name, critique in found.critiques.items():
            rating = critique.rating
            table.add_row(name, f"{rating.score:.1f}", str(rating.mode), critique.text)
        table.add_section()
        table.add_row("whole", f"{found.score:.1f}", str(found.rating.mode), found.summary)
        console.print(f"[bold]{args.essay.name}[/], marks from 1 to 10")
        console.print(table)
        if args.model is None:
            console.print(CAVEAT, style="dim")


if __name__ == "__main__":
    run(main)
