from __future__ import annotations

import pytest

from agentrt import InvalidRequest, State
from agentrt.programs.chains import multi_chain
from agentrt.programs.consistency import self_consistency
from tests.programs.conftest import Scripted

pytestmark = pytest.mark.anyio

QUESTION = "A farmer has 17 sheep and buys 25 more. " * 12 + "How many are there?"


async def test_the_majority_wins_and_the_question_is_computed_once(scripted: Scripted) -> None:
    def reply(prompt: str) -> str | list[str]:
        if prompt.endswith("Answer: "):
            return "41" if "borrow" in prompt else "42"
        return [f"{step} 17 + 25." for step in ("Add:", "So", "borrow", "It is", "We see")]

    async with scripted(reply) as bound:
        found = await self_consistency.using(seed=5)(QUESTION, samples=6, kind=int)
        again = await self_consistency.using(seed=5)(QUESTION, samples=6, kind=int)
    assert found == again
    assert found.answer == 42
    assert len({chain.reasoning for chain in found.chains}) > 2
    assert found.votes["42"] == round(found.agreement * 6)
    assert bound.ratio < 1.05
    assert bound.waste == 0


async def test_answers_that_the_key_makes_equal_are_one_and_none_abstains(
    scripted: Scripted,
) -> None:
    async with scripted("yes. "):
        found = await self_consistency("?", samples=3, key=lambda answer: answer[0].upper())
        assert found.votes == {"Y": 3}
        with pytest.raises(InvalidRequest, match="no votes"):
            await self_consistency("?", samples=2, key=lambda _: None)


async def test_multi_chain_reads_all_chains_and_answers(scripted: Scripted) -> None:
    asked: list[str] = []

    def reply(prompt: str) -> str:
        asked.append(prompt)
        return "42" if prompt.endswith("Answer: ") else "it is 42."

    async with scripted(reply) as bound:
        found = await multi_chain(QUESTION, chains=4, kind=int)
    assert (found.answer, found.explanation, len(found.chains)) == (42, "it is 42.", 4)
    assert asked[-1].count("Line of thought") == 4
    assert bound.ratio < 1.05
    assert bound.waste == 0


async def test_a_chain_cut_by_a_state_of_ones_own_keeps_what_was_said(scripted: Scripted) -> None:
    async with scripted(lambda p: "7" if p.startswith("system: count\n") else "no"):
        s = State()
        s.system("count")
        found = await self_consistency.on(s, "how many?", samples=2, regex="[0-9]")
        assert found.answer == "7"
