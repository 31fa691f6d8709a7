"""Tree of thoughts: search over partial solutions that the model proposes and judges."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from agentrt.errors import BudgetExhausted
from agentrt.programs.arguments import check_count, check_word
from agentrt.programs.program import program
from agentrt.programs.thoughts import Expander, Thought, sampled, valued

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentrt.programs.state import State
    from agentrt.programs.thoughts import Checker, Evaluator, Generator, Ranking


@dataclass(frozen=True, slots=True)
class Tree:
    """What a search grew: the root (which says nothing) and the best thought.

    `stopped_by` is the budget's error where one ran out before the search was over.
    """

    root: Thought
    best: Thought
    stopped_by: BudgetExhausted | None = None

    @property
    def solved(self) -> bool:
        return self.best.solved

    @property
    def size(self) -> int:
        """How many thoughts there are, the root not counted."""
        return sum(1 for _ in self.root.walk()) - 1


@program(max_tokens=64)
async def tree_of_thoughts(
    s: State,
    problem: str,
    *,
    depth: int,
    branching: int = 3,
    search: Literal["breadth", "beam", "depth"] = "beam",
    beam: int = 3,
    generate: Generator | None = None,
    evaluate: Evaluator | Ranking | None = None,
    solved: Checker | None = None,
    threshold: float = 0.0,
    limit: int = 200,
) -> Tree:
    """Searches up to `depth` steps for the best solution of a problem.

    Yao et al. 2023, Tree of Thoughts, arXiv:2305.10601, section 3: "breadth" keeps every thought of
    a level, "beam" the `beam` best (algorithm 1), "depth" goes on from the best first and comes
    back (algorithm 2). From each thought `branching` next ones come of `generate` (sampled unless
    given; see `agentrt.programs.thoughts`) and are scored by `evaluate` (the model's mark unless
    given). Thoughts that score below `threshold` are pruned, the search ends at the first that
    `solved` accepts, and no level is begun once there are `limit` thoughts. The best is a solved
    one, else the highest score among the deepest; where nothing was grown it is the root. A budget
    that runs out ends the search with what was found. Raises InvalidRequest, and what `State.gen`
    raises.
    """
    for name, given in (
        ("depth", depth), ("branching", branching), ("beam", beam), ("limit", limit)
    ):  # fmt: skip
        check_count(name, given, 1)
    check_word("search", search, ("breadth", "beam", "depth"))
    s.user(problem)
    root = Thought("", s)
    tree = _Search(
        expander=Expander(root, generate or sampled(), evaluate or valued(), solved),
        branching=branching,
        beam=beam if search == "beam" else limit,
        threshold=threshold,
        left=limit,
    )
    stopped_by: BudgetExhausted | None = None
    try:
        if search == "depth":
            await tree.deep(root, depth)
        else:
            await tree.level_by_level(root, depth)
    except BudgetExhausted as error:
        stopped_by = error
    best = max(root.walk(), key=lambda thought: (thought.solved, thought.depth, thought.score))
    return Tree(root, best, stopped_by)


@dataclass(slots=True, kw_only=True)
class _Search:
    """`left` is how many thoughts may still be grown."""

    expander: Expander
    branching: int
    beam: int
    threshold: float
    left: int

    async def level_by_level(self, root: Thought, depth: int) -> None:
        level = [root]
        for _ in range(depth):
            level = await self._next(level)
            if not level or level[0].solved or self.left <= 0:
                return

    async def deep(self, thought: Thought, depth: int) -> bool:
        """Whether a solution was found at or below a thought."""
        if thought.solved or depth == 0 or self.left <= 0:
            return thought.solved
        for child in await self._next([thought]):
            if await self.deep(child, depth - 1):
                return True
        return False

    async def _next(self, parents: Sequence[Thought]) -> list[Thought]:
        """What is worth going on from, the best first; of equals, those that came first."""
        found = await self.expander.expand(parents, self.branching)
        self.left -= len(found)
        await self.expander.score(found)
        kept = [each for each in found if each.solved or each.score >= self.threshold]
        kept.sort(key=lambda each: (each.solved, each.score), reverse=True)
        return kept[: self.beam]
