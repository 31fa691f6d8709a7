"""The programs on the provided model: what real tokens and a real chat template do to sharing."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from agentrt import Runtime, State, gather, program
from agentrt.programs import (
    branch_solve_merge,
    judge_text,
    likely,
    sampled,
    tree_of_thoughts,
)
from agentrt.runtime.assembly import open_model
from tests.programs.bound import Bound

if TYPE_CHECKING:
    from agentrt.runtime.batch import Batch, StepResult
    from agentrt.runtime.config import RuntimeConfig
    from agentrt.runtime.source import LoadedModel

pytestmark = [pytest.mark.anyio, pytest.mark.model]

ARTICLE = (
    "The harbour of the town was built in 1604, when the river was deep enough for ships, and "
    "it has been rebuilt twice since then. Today it is used by fishermen and by the ferry. "
) * 8


class Watched:
    """The provided model, each of whose batches is shown to a bound."""

    def __init__(self, bound: Bound) -> None:
        self._bound = bound

    def open(self, config: RuntimeConfig) -> LoadedModel:
        loaded = open_model(None, config)
        execute = loaded.executor.execute

        def watched(batch: Batch) -> StepResult:
            self._bound(batch)
            return execute(batch)

        loaded.executor.execute = watched
        return replace(loaded)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def test_many_programs_that_fork_four_ways_over_one_prefix() -> None:
    """What test_state does with two hundred programs and a scripted model, on real tokens."""

    @program(max_tokens=4)
    async def ask(s: State, number: int) -> list[str]:
        s.system(ARTICLE)
        s.user(f"Number {number}: what is the harbour for?")

        async def way(branch: State, index: int) -> str:
            branch.assistant(f"{index}. It is")
            return await branch.gen()

        return await s.each(way, range(4))

    bound = Bound()
    async with Runtime(Watched(bound)):
        found = await gather(*(ask(number) for number in range(8)))
    assert [len(answers) for answers in found] == [4] * 8
    assert all(text for answers in found for text in answers)
    figures = (bound.least, bound.waste, bound.ratio)
    assert bound.waste <= 0.01 * bound.least, figures
    assert bound.ratio < 1.05, figures


async def test_judge_tree_and_branches_compute_what_they_share_once() -> None:
    """Beside the last token of a prompt, which every sample and every choice starts from."""
    bounds = {name: Bound() for name in ("judge", "tree", "branches")}
    async with Runtime(Watched(bounds["judge"])):
        found = await judge_text.using(max_tokens=16)(ARTICLE, ["facts", "style"], high=9)
        assert all(1 <= c.score <= 9 for c in found.critiques.values())
    async with Runtime(Watched(bounds["tree"])):
        tree = await tree_of_thoughts.using(seed=1)(
            f"{ARTICLE}\nPlan a day in this town, one step a line.",
            depth=2,
            beam=2,
            branching=2,
            generate=sampled(max_tokens=16),
            evaluate=likely("Is this a good plan so far?"),
        )
        assert tree.best.depth == 2
    async with Runtime(Watched(bounds["branches"])):
        merged = await branch_solve_merge.using(max_tokens=16)(ARTICLE, ["food", "sights"])
        assert all(merged.solutions)
    figures = {name: (bound.least, bound.waste, bound.ratio) for name, bound in bounds.items()}
    assert all(waste <= 0.01 * least for least, waste, _ in figures.values()), figures
    assert all(ratio < 1.05 for _, _, ratio in figures.values()), figures
