"""Skeleton-of-thought: first the points of an answer, then all of them written at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from agentrt.programs.asking import numbered
from agentrt.programs.program import program

if TYPE_CHECKING:
    from agentrt.programs.state import State


@dataclass(frozen=True, slots=True)
class Written:
    """The points in short and as written out, in order."""

    points: tuple[str, ...]
    paragraphs: tuple[str, ...]

    @property
    def text(self) -> str:
        """The whole answer, a numbered paragraph for each point."""
        pairs = zip(self.points, self.paragraphs, strict=True)
        return "\n\n".join(f"{i}. {point}: {text}" for i, (point, text) in enumerate(pairs, 1))


@program(max_tokens=128)
async def skeleton_of_thought(s: State, question: str, *, points: int = 5) -> Written:
    """Answers in up to `points` points: a skeleton of a few words each, then all written at once.

    Ning et al. 2023, Skeleton-of-Thought, arXiv:2307.15337, section 2. It takes the time of the
    longest point in place of the sum of them. The skeleton is in the prompt that all points share;
    only which one to write comes after it. Raises what `State.gen` raises.
    """
    s.user(f"{question}\nGive only the skeleton: {points} points of 3 to 5 words each.")
    skeleton = await numbered(s, points, item=r"[^\n.]{3,60}", max_tokens=24 * points)

    async def write(branch: State, number: int) -> str:
        branch.user(f"Write point {number} out, in one or two sentences and nothing else.")
        return (await branch.gen(stop=["\n"])).strip()

    paragraphs = await s.each(write, range(1, len(skeleton) + 1))
    return Written(tuple(skeleton), tuple(paragraphs))
