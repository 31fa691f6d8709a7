"""What a scripted model says, for prompts as the byte codec writes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

Say = str | list[str]


def saying(
    answers: Mapping[str, Say] | Callable[[str], Say], otherwise: Say = "Well said."
) -> Callable[[str], Say]:
    """The answer whose key is in the last turn before the answer; less what was said of it.

    That goes for scoring too, where what was said so far is the beginning of a choice.
    """

    def reply(prompt: str) -> Say:
        before, _, said = prompt.rpartition("assistant: ")
        turn = before.rpartition("user: ")[2]
        if callable(answers):
            found = answers(before)
        else:
            found = next((text for key, text in answers.items() if key in turn), otherwise)
        texts = [found] if isinstance(found, str) else found
        return [text.removeprefix(said) for text in texts]

    return reply


def mending(*texts: str) -> Callable[[str], str]:
    """Writes the texts one after another, each from where the one before was kept to."""
    left = list(texts)

    def reply(prompt: str) -> str:
        written = prompt.rpartition("assistant: ")[2]
        return left.pop(0).removeprefix(written)

    return reply
