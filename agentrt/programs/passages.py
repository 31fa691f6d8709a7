"""Answers from given passages, with the passages and the sentence that they rest on."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agentrt.programs.answers import check_answer, texts_of
from agentrt.programs.arguments import wrong
from agentrt.programs.asking import conclusion
from agentrt.programs.program import program
from agentrt.programs.scoring import chance

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentrt.programs.state import State


@dataclass(frozen=True, slots=True)
class Citation:
    """A passage, by its index, how probable it is that it has the answer, and its best sentence."""

    passage: int
    support: float
    quote: str


@dataclass(frozen=True, slots=True)
class Grounded:
    """The answer and what it rests on, the strongest first; None where no passage has it."""

    answer: Any
    citations: tuple[Citation, ...]
    support: tuple[float, ...]


@program(max_tokens=64)
async def answer_from(
    s: State,
    question: str,
    passages: Sequence[str],
    *,
    most: int = 2,
    at_least: float = 0.3,
    kind: Any = str,
    regex: str | None = None,
) -> Grounded:
    """Answers a question from passages that a search found, and says from which.

    Retrieval-augmented generation (Lewis et al. 2020, arXiv:2005.11401) after reading: in a branch
    for each passage the model says how likely it is that the answer is in it; the `most` likeliest
    of at least `at_least` are cited, each by the sentence that the model finds likeliest to be the
    evidence, a choice among its own sentences, so that a quotation is always one. The answer is
    written after the quotations. Where no passage qualifies there is none. The question comes
    last in every branch: another question over the same passages computes none of them again.
    Raises InvalidRequest for no passages or empty ones, and what `State.gen` raises.
    """
    if not all(passage.strip() for passage in texts_of(passages, "passages")):
        raise wrong("passages", passages, "texts that are not empty")
    await check_answer(s, kind, regex)
    s.system("You answer questions from what you are given to read, and from nothing else.")

    async def read(branch: State, passage: str) -> float:
        branch.user(f"Read this:\n{passage}")
        return await chance(branch, f"Does it say the answer to this question: {question}")

    support = await s.each(read, passages)
    ranked = sorted(range(len(passages)), key=lambda index: support[index], reverse=True)
    cited = [index for index in ranked[:most] if support[index] >= at_least]

    async def quote(branch: State, index: int) -> Citation:
        branch.user(f"Read this:\n{passages[index]}")
        branch.user(f"Copy the sentence that has the answer to this question: {question}")
        sentences = sentences_of(passages[index])
        best = await branch.select(sentences) if len(sentences) > 1 else sentences[0]
        return Citation(index, support[index], best)

    citations = await s.each(quote, cited)
    if not citations:
        return Grounded(None, (), tuple(support))
    quotes = "\n".join(f"[{each.passage + 1}] {each.quote}" for each in citations)
    s.user(f"{quotes}\n\n{question} Answer in a few words of what you read.")
    answer = await conclusion(s, kind=kind, regex=regex)
    return Grounded(answer, tuple(citations), tuple(support))


def sentences_of(text: str) -> list[str]:
    """The different sentences of a text, in order: cut after a full stop, or at a line's end."""
    found = re.split(r"(?<=[.!?])\s+(?=[^a-z])|\n+", text.strip())
    return list(dict.fromkeys(part.strip() for part in found if part.strip()))
