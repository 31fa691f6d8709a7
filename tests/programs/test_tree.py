"""Tree searches over a problem small enough to know every thought of."""

from __future__ import annotations

import pytest

from agentrt import Budget, InvalidRequest, State
from agentrt.programs.mcts import Searched, monte_carlo_search
from agentrt.programs.thoughts import Thought, likely, proposed, sampled, valued, voted
from agentrt.programs.tree import tree_of_thoughts
from tests.programs.conftest import Scripted

pytestmark = pytest.mark.anyio

PROBLEM = "Spell a word of three letters, one letter a line, from these rules: " + "abc " * 200


async def letters(state: State, count: int) -> list[str]:
    """Asks the model for a letter in each branch, as a generator of a game would."""

    async def one(branch: State, letter: str) -> str:
        return await branch.gen(regex=f"(take|give) the letter {letter}")

    return await state.each(one, "abcdef"[:count])


def so_far(thought: Thought) -> str:
    return "".join(step[-1] for step in thought.steps)


def closeness(state: State, thought: Thought) -> float:
    """An exact evaluator: how many letters agree with the word cab, of three."""
    return sum(a == b for a, b in zip(so_far(thought), "cab", strict=False)) / 3


def is_cab(thought: Thought) -> bool:
    return so_far(thought) == "cab"


@pytest.mark.parametrize(("search", "size"), [("breadth", 39), ("beam", 21), ("depth", 9)])
async def test_every_search_finds_the_word(scripted: Scripted, search: str, size: int) -> None:
    async with scripted("") as bound:
        tree = await tree_of_thoughts(
            PROBLEM,
            depth=3,
            branching=3,
            search=search,
            beam=3,
            generate=letters,
            evaluate=closeness,
            solved=is_cab,
        )
    assert (tree.solved, so_far(tree.best), tree.size) == (True, "cab", size)
    assert bound.ratio < 1.05
    assert bound.waste == 0


async def test_a_threshold_prunes_and_a_limit_ends_the_search(scripted: Scripted) -> None:
    async def how_big(**options: float) -> int:
        tree = await tree_of_thoughts(
            PROBLEM,
            depth=3,
            search="breadth",
            generate=letters,
            evaluate=closeness,
            **options,
        )
        return tree.size

    async with scripted(""):
        assert await how_big() == 3 + 9 + 27
        assert await how_big(threshold=1 / 3) == 3 + 3 + 9
        assert await how_big(limit=4) == 3 + 9
        assert await how_big(threshold=2) == 3


async def test_a_budget_that_runs_out_leaves_what_was_found(scripted: Scripted) -> None:
    async with scripted(""):
        with Budget(calls=3 + 4):
            tree = await tree_of_thoughts(
                PROBLEM, depth=3, branching=3, generate=letters, evaluate=closeness
            )
    assert tree.stopped_by is not None
    assert tree.stopped_by.what == "calls"
    assert so_far(tree.best) == "c"


def marked(prompt: str) -> str:
    """The model's own marks: nine for what ends in c, two for the rest."""
    if prompt.endswith("assistant: ") and "How promising" in prompt:
        return "9" if "letter c\n\nuser" in prompt else "2"
    return ""


async def test_the_models_marks_lead_the_search(scripted: Scripted) -> None:
    async with scripted(marked) as bound:
        tree = await tree_of_thoughts(
            PROBLEM, depth=2, branching=3, beam=1, generate=letters, evaluate=valued()
        )
    assert so_far(tree.best) == "cc"
    # Nine is more likely than each other mark, and not certain: a mean of the scale and of nine.
    assert 0.5 < tree.best.score < 1
    assert bound.ratio < 1.05
    assert bound.waste == 0


async def test_votes_and_likelihoods_judge_too(scripted: Scripted) -> None:
    def reply(prompt: str) -> str:
        said = prompt.rpartition("assistant: ")[2]
        return ("B" if "Which of" in prompt else "Yes").removeprefix(said)

    async with scripted(reply) as bound:
        ranked = await tree_of_thoughts(
            PROBLEM, depth=1, branching=3, generate=letters, evaluate=voted()
        )
        assert [so_far(child) for child in ranked.root.children] == list("abc")
        assert so_far(ranked.best) == "b"
        assert sum(child.score for child in ranked.root.children) == pytest.approx(1)
        sure = await tree_of_thoughts(
            PROBLEM, depth=1, branching=2, generate=letters, evaluate=likely("Is it good?")
        )
        assert sure.best.score > 0.9
    assert bound.ratio < 1.05
    assert bound.waste == 0


async def test_sampled_and_proposed_thoughts(scripted: Scripted) -> None:
    def reply(prompt: str) -> str | list[str]:
        if "List 3" in prompt:
            return "1. add\n2. multiply\n3. add"
        return ["one way", "another way", "a third way", "a fourth way"]

    def flat(state: State, thought: Thought) -> float:
        return 0.5

    async with scripted(reply):
        search = tree_of_thoughts.using(seed=3)
        tree = await search(PROBLEM, depth=1, branching=5, generate=sampled(), evaluate=flat)
        again = await search(PROBLEM, depth=1, branching=5, generate=sampled(), evaluate=flat)
        texts = [child.text for child in tree.root.children]
        assert texts == [child.text for child in again.root.children]
        assert 1 < len(texts) < 5  # samples that agree are one thought
        tree = await tree_of_thoughts(
            PROBLEM, depth=1, generate=proposed("What may come next?"), evaluate=flat
        )
        assert [child.text for child in tree.root.children] == ["add", "multiply"]


async def test_monte_carlo_search_finds_the_word(scripted: Scripted) -> None:
    async def search() -> Searched:
        return await monte_carlo_search(
            PROBLEM,
            depth=3,
            iterations=30,
            generate=letters,
            evaluate=closeness,
            solved=is_cab,
            seed=1,
        )

    async with scripted("") as bound:
        found = await search()
        assert bound.ratio < 1.05
        assert bound.waste == 0
        again = await search()
    assert so_far(found.best) == "cab"
    assert [t.text for t in found.root.walk()] == [t.text for t in again.root.walk()]
    visits = found.visits[found.root]
    assert visits.count == sum(found.visits[child].count for child in found.root.children)
    assert found.line[0].text.endswith("c")


async def test_monte_carlo_search_plays_several_rollouts_at_once_and_ends_by_budget(
    scripted: Scripted,
) -> None:
    async with scripted(""):
        with Budget(calls=40):
            found = await monte_carlo_search(
                PROBLEM,
                depth=4,
                iterations=100,
                rollouts=3,
                generate=letters,
                evaluate=closeness,
            )
    assert found.stopped_by is not None
    assert found.visits[found.root].count % 3 == 0
    assert found.best.depth == 4


async def test_a_search_that_makes_no_sense_is_refused(scripted: Scripted) -> None:
    async with scripted(""):
        with pytest.raises(InvalidRequest, match="1 or more"):
            await tree_of_thoughts(PROBLEM, depth=0)
        with pytest.raises(InvalidRequest, match="search='wide'"):
            await tree_of_thoughts(PROBLEM, depth=1, search="wide")
        with pytest.raises(InvalidRequest, match="1 or more"):
            await monte_carlo_search(PROBLEM, depth=1, rollouts=0)
