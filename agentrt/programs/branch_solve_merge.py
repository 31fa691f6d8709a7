"""Branch-solve-merge: a task is split into parts, each solved by itself, and the parts merged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from agentrt.programs.answers import texts_of
from agentrt.programs.asking import numbered
from agentrt.programs.program import program

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentrt.programs.state import State


@dataclass(frozen=True, slots=True)
class Merged:
    """The merged text, and the parts with what was found for each, in order."""

    text: str
    parts: tuple[str, ...]
    solutions: tuple[str, ...]


@program(max_tokens=256)
async def branch_solve_merge(
    s: State,
    task: str,
    parts: Sequence[str] | int = 4,
    *,
    branch: str = "Name the parts of this task that can be done apart from each other.",
    solve: str = "Do only this part: {part}",
    merge: str = "Put these together into one answer.",
) -> Merged:
    """Solves a task in parts that know nothing of each other, all at once, and merges them.

    Saha et al. 2023, Branch-Solve-Merge Improves Large Language Model Evaluation and Generation,
    arXiv:2310.15123, section 3. `parts` are given, or the model names that many. The prompts of the
    three steps may be yours; `{part}` stands for a part. Raises what `State.gen` raises.
    """
    given = () if isinstance(parts, int) else texts_of(parts, "parts")
    s.user(task)
    named = await _named(s.copy(), branch, parts) if isinstance(parts, int) else list(given)

    async def solved(fork: State, part: str) -> str:
        fork.user(solve.replace("{part}", part))
        return (await fork.gen()).strip()

    solutions = await s.each(solved, named)
    listing = "\n\n".join(f"{part}:\n{text}" for part, text in zip(named, solutions, strict=True))
    s.user(f"{listing}\n\n{merge}")
    return Merged((await s.gen()).strip(), tuple(named), tuple(solutions))


async def _named(s: State, instructions: str, count: int) -> list[str]:
    s.user(instructions)
    return await numbered(s, count)
