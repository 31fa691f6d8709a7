"""Judging: the best of several answers, and an essay by several dimensions with a mark for each."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agentrt.programs.answers import texts_of
from agentrt.programs.arguments import check_count, check_hook
from agentrt.programs.asking import awaited
from agentrt.programs.program import program
from agentrt.programs.scoring import Rating, check_scale, rate

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from agentrt.programs.state import State

    Judge = Callable[[State, str], float | Awaitable[float]]


@dataclass(frozen=True, slots=True)
class Candidate:
    """An answer and what the judge gave it; more is better."""

    text: str
    score: float


@dataclass(frozen=True, slots=True)
class Best:
    """The answer that was judged best, and all of them, in the order they were sampled."""

    text: str
    score: float
    candidates: tuple[Candidate, ...]


@program(temperature=0.8, max_tokens=256)
async def best_of(
    s: State,
    prompt: str,
    *,
    samples: int = 4,
    judge: Judge | None = None,
    question: str = "How good is this answer?",
) -> Best:
    """Samples several answers at once and returns the one its judge likes best.

    The judge is the model's own mark from 1 to 10 for `question`, as an expectation (Zheng et al.
    2023, Judging LLM-as-a-Judge, arXiv:2306.05685, section 3.1, single-answer grading), or a
    function `(state, text) -> score` of yours, async or not. Every answer is judged in its own
    branch, whose prompt is computed already. Raises what `State.gen` raises.
    """
    check_count("samples", samples, 1)
    check_hook("judge", judge, "the state and the text")
    s.user(prompt)

    async def sample(branch: State, _: int) -> Candidate:
        text = (await branch.gen()).strip()
        if judge is not None:
            return Candidate(text, await awaited(judge(branch, text)))
        return Candidate(text, (await rate(branch, question)).score)

    found = await s.each(sample, range(samples))
    best = max(found, key=lambda candidate: candidate.score)
    return Best(best.text, best.score, tuple(found))


@dataclass(frozen=True, slots=True)
class Critique:
    """What was said of one dimension, and the mark for it."""

    text: str
    rating: Rating

    @property
    def score(self) -> float:
        return self.rating.score


@dataclass(frozen=True, slots=True)
class Judgement:
    """A critique of each dimension, a summary of them, and the mark of the whole."""

    critiques: dict[str, Critique]
    summary: str
    rating: Rating

    @property
    def score(self) -> float:
        return self.rating.score

    @property
    def mean(self) -> float:
        """The mean of the dimensions' marks."""
        return math.fsum(c.score for c in self.critiques.values()) / len(self.critiques)


@program(max_tokens=128)
async def judge_text(
    s: State,
    text: str,
    dimensions: Mapping[str, str] | Sequence[str],
    *,
    low: int = 1,
    high: int = 10,
) -> Judgement:
    """Judges a text by several dimensions at once, then as a whole from what was found.

    The multi-dimensional judge of Zheng et al. 2023, arXiv:2312.07104, figure 2 (a
    branch-solve-merge, arXiv:2310.15123): a fork for each dimension criticises and marks; then one
    reads all critiques, sums up and marks. `dimensions` are names, or names with what each is
    about. Marks are expectations, from `low` to `high`. The text is computed once. Raises what
    `State.gen` raises.
    """
    check_scale(low, high)
    names = texts_of(dimensions, "dimensions")
    about = dimensions if isinstance(dimensions, Mapping) else dict.fromkeys(names, "")
    s.system("You judge texts: fairly, briefly and for good reasons.")
    s.user(f"The text:\n\n{text}")

    async def criticise(branch: State, dimension: str) -> Critique:
        note = f" ({about[dimension]})" if about[dimension] else ""
        branch.user(f"Judge one thing only, its {dimension}{note}, in two sentences.")
        said = (await branch.gen(stop=["\n"])).strip()
        return Critique(said, await rate(branch, f"Its {dimension}?", low=low, high=high))

    found = dict(zip(about, await s.each(criticise, list(about)), strict=True))
    listing = "\n".join(f"{name}, {c.score:.1f}: {c.text}" for name, c in found.items())
    s.user(f"What was found:\n{listing}\n\nSum up what this says of the text, in two sentences.")
    summary = (await s.gen(stop=["\n"])).strip()
    return Judgement(found, summary, await rate(s, "The text as a whole?", low=low, high=high))
