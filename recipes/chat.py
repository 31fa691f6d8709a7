"""A chat in the terminal, each answer as it is written.

    python recipes/chat.py [--model MODEL] [--system "You are ..."]

An empty line ends it. Where the input is no terminal it says three turns by itself. What was said
before is never computed again: the usage line shows it. When the chat outgrows the model, the
oldest turn is forgotten. The provided model keeps up a friendly conversation, and knows little.
"""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

from common import arguments, console, count, opened, run, words

from agentrt import PromptTooLong
from agentrt.programs import Chat

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

SCRIPT = [
    "Hello! My name is Ida.",
    "What is a good breakfast on a cold morning?",
    "Thank you. What was my name again?",
]


async def turns() -> AsyncGenerator[str]:
    """What the person says: typed, or out of the script."""
    if not sys.stdin.isatty():
        for line in SCRIPT:
            console.print(f"[bold]you  [/]{line}")
            yield line
        return
    while line := (await asyncio.to_thread(console.input, "[bold]you  [/]")).strip():
        yield line


async def answer(chat: Chat, text: str) -> None:
    """Prints the answer as it comes, forgetting the oldest turn for as long as it does not fit."""
    while True:
        try:
            async with chat.stream(text) as stream:
                console.print("[bold]model[/] ", end="")
                async for piece in stream:
                    console.print(piece, end="", markup=False, soft_wrap=True)
            console.print()
            return
        except PromptTooLong:
            if not any(message.role == "user" for message in chat.messages):
                raise
            chat.forget()


async def main() -> None:
    args = arguments(
        __doc__,
        draws=True,
        system=(words, "You are friendly and answer in one or two sentences.", "who the model is"),
        words=(count, 80, "most tokens of an answer"),
    )
    async with opened(args):
        chat = Chat(args.system, max_tokens=args.words)
        async for text in turns():
            await answer(chat, text)


if __name__ == "__main__":
    run(main)
