"""A chat answer as it is written, a choice by likelihood, and eight questions over one prompt.

    python recipes/hello.py [--model MODEL]

The provided model has 135 million parameters: it is quick and it is often wrong. What to look at is
the last table, where eight coroutines share a prompt that was computed once.
"""

from __future__ import annotations

import argparse
import asyncio

from rich.console import Console
from rich.table import Table

from agentrt import Completion, Message, Runtime, Usage

console = Console()

FACTS = """The town library opens at nine and closes at six. On Sundays it is closed.
A card is free for children and costs five euros a year for adults. Up to ten books may be borrowed
for four weeks; films and games for one. The reading room on the second floor seats forty.

"""
QUESTIONS = [
    "When does the library open?",
    "When does it close?",
    "What does a card cost?",
    "How many books may be borrowed?",
    "For how long may films be borrowed?",
    "Where is the reading room?",
    "How many people can sit in it?",
    "Is it open on Sundays?",
]


async def chat(runtime: Runtime) -> None:
    """One answer, written as it comes."""
    question = "Why is the sky blue? Answer in two sentences."
    console.print(f"[bold]{question}")
    async with runtime.stream([Message("user", question)], max_tokens=80) as stream:
        async for chunk in stream:
            console.print(chunk.text, end="", highlight=False, markup=False)
    console.print("\n")


async def choose(runtime: Runtime) -> None:
    """A classification: the model is asked which continuation it finds likeliest."""
    review = "The soup was cold and the waiter forgot us twice."
    prompt = f"Review: {review}\nThe review is"
    found = await runtime.select(prompt, [" positive.", " negative."])
    console.print(f"[bold]{review}[/] ->{found.text}\n")


async def ask_all(runtime: Runtime) -> None:
    """Eight coroutines at once over one prompt."""
    prompts = [f"{FACTS}Question: {question}\nAnswer:" for question in QUESTIONS]
    answers = await asyncio.gather(
        *(runtime.generate(prompt, max_tokens=24, stop=["\n"]) for prompt in prompts)
    )
    show(answers)


def show(answers: list[Completion]) -> None:
    table = Table("question", "answer", "prompt", "cached", "computed", "new")
    for question, answer in zip(QUESTIONS, answers, strict=True):
        usage = answer.usage
        table.add_row(
            question,
            answer.text.strip(),
            str(usage.prompt_tokens),
            str(usage.cached_tokens),
            str(usage.computed_tokens),
            str(usage.output_tokens),
        )
    console.print(table)
    total = sum((answer.usage for answer in answers), Usage())
    share = total.cached_tokens / total.prompt_tokens
    console.print(
        f"{total.prompt_tokens} prompt tokens, {total.cached_tokens} of them cached ({share:.0%})"
    )


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", help="a hub id, a folder or a .gguf file")
    args = parser.parse_args()
    async with Runtime(args.model) as runtime:
        await chat(runtime)
        await choose(runtime)
        await ask_all(runtime)
        stats = runtime.stats()
        console.print(
            f"{stats.steps} steps, {stats.computed_tokens} tokens computed by {runtime.model_name}"
        )


if __name__ == "__main__":
    asyncio.run(main())
