"""Monte-Carlo tree search: thoughts are tried to the end, and what came of it guides the next."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from agentrt.errors import BudgetExhausted
from agentrt.programs.arguments import check_count
from agentrt.programs.combine import gather
from agentrt.programs.program import program
from agentrt.programs.thoughts import Expander, Thought, sampled, valued

if TYPE_CHECKING:
    from agentrt.programs.state import State
    from agentrt.programs.thoughts import Checker, Evaluator, Generator


@dataclass(slots=True)
class Visits:
    """How often a thought was passed through, and the sum of what came of it."""

    count: int = 0
    total: float = 0.0

    @property
    def mean(self) -> float:
        return self.total / self.count if self.count else 0.0


@dataclass(frozen=True, slots=True)
class Searched:
    """What a search found: the tree, the most visited line through it, the best end it reached.

    `stopped_by` is the budget's error where one ran out before the search was over.
    """

    root: Thought
    line: tuple[Thought, ...]
    best: Thought
    visits: dict[Thought, Visits] = field(repr=False)
    stopped_by: BudgetExhausted | None = None


@program(max_tokens=64)
async def monte_carlo_search(
    s: State,
    problem: str,
    *,
    depth: int,
    iterations: int = 16,
    branching: int = 3,
    rollouts: int = 1,
    exploration: float = math.sqrt(2),
    generate: Generator | None = None,
    evaluate: Evaluator | None = None,
    solved: Checker | None = None,
    seed: int = 0,
) -> Searched:
    """Searches solutions of up to `depth` steps by `iterations` of select, expand, try, learn.

    Kocsis and Szepesvári 2006, Bandit based Monte-Carlo Planning (UCT, section 2); over a model's
    thoughts as Hao et al. 2023, Reasoning with Language Model is Planning with World Model,
    arXiv:2305.14992, section 3.3. An iteration goes down by mean + `exploration` * sqrt(ln N / n),
    grows `branching` children of the leaf, plays `rollouts` of them to the end at once, one
    generated step after another, and adds the score of that end (from 0 to 1, by `evaluate`) to all
    on its path. It ends early at a thought that `solved` accepts. `seed` decides among equals; the
    samples' own seed is the program's (`using(seed=...)`). A budget that runs out ends the search
    with what was found. Raises InvalidRequest, and what `State.gen` raises.
    """
    for name, given in (
        ("depth", depth), ("iterations", iterations), ("branching", branching),
        ("rollouts", rollouts),
    ):  # fmt: skip
        check_count(name, given, 1)
    s.user(problem)
    root = Thought("", s)
    expander = Expander(root, generate or sampled(), evaluate or valued(), solved)
    search = _Search(expander, depth, exploration, random.Random(seed))
    stopped_by: BudgetExhausted | None = None
    try:
        for _ in range(iterations):
            await search.iterate(branching, rollouts)
            if search.best.solved:
                break
    except BudgetExhausted as error:
        stopped_by = error
    return Searched(root, tuple(search.line()), search.best, search.visits, stopped_by)


class _Search:
    def __init__(
        self, expander: Expander, depth: int, exploration: float, chance: random.Random
    ) -> None:
        self.best = expander.root
        self.visits: dict[Thought, Visits] = {expander.root: Visits()}
        self._expander = expander
        self._depth = depth
        self._exploration = exploration
        self._chance = chance

    async def iterate(self, branching: int, rollouts: int) -> None:
        """Goes down to a leaf, grows it, tries some of what grew, and learns from how they end."""
        leaf = self._expander.root
        while leaf.children:
            leaf = self._most_urgent(leaf)
        tried = [leaf]
        if not self._is_end(leaf):
            grown = await self._expander.expand([leaf], branching)
            self.visits |= {child: Visits() for child in grown}
            wanted = min(rollouts, len(grown))
            solved = [child for child in grown if child.solved]
            tried = solved or self._chance.sample(grown, wanted) or tried
        ends = await gather(*(self._played_out(thought) for thought in tried))
        await self._expander.score(ends)
        for thought, end in zip(tried, ends, strict=True):
            self._learn(thought, end)

    def line(self) -> list[Thought]:
        """From the root down, the child that was visited most; among equals the better one."""
        thought, line = self._expander.root, list[Thought]()
        while thought.children:
            thought = max(thought.children, key=lambda t: (self.visits[t].count, t.score))
            if not self.visits[thought].count:
                break
            line.append(thought)
        return line

    def _most_urgent(self, parent: Thought) -> Thought:
        """UCT: those never visited first, else the highest upper bound; drawn among equals."""
        seen = self.visits[parent].count

        def urgency(child: Thought) -> float:
            visits = self.visits[child]
            if not visits.count:
                return math.inf
            return visits.mean + self._exploration * math.sqrt(math.log(seen) / visits.count)

        urgencies = [urgency(child) for child in parent.children]
        most = max(urgencies)
        equals = [c for c, u in zip(parent.children, urgencies, strict=True) if u == most]
        return self._chance.choice(equals)

    async def _played_out(self, thought: Thought) -> Thought:
        """Where the model gets to from a thought, one step after another; not part of the tree."""
        end = thought
        while not self._is_end(end):
            step = await self._expander.step(end)
            if step is None:
                break
            end = step
        return end

    def _is_end(self, thought: Thought) -> bool:
        return thought.solved or thought.depth >= self._depth

    def _learn(self, thought: Thought, end: Thought) -> None:
        if (end.solved, end.score) > (self.best.solved, self.best.score):
            self.best = end
        for passed in [self._expander.root, *thought.path]:
            self.visits[passed].count += 1
            self.visits[passed].total += end.score
