"""Judging: marks are expectations, branches share what is judged."""

from __future__ import annotations

import math

import pytest

from agentrt import InvalidRequest, State
from agentrt.programs.debate import debate
from agentrt.programs.judge import best_of, judge_text
from agentrt.programs.reflexion import reflexion
from agentrt.programs.scoring import chance, probabilities, rate
from tests.programs.conftest import Scripted
from tests.programs.replies import saying

pytestmark = pytest.mark.anyio

ESSAY = "The harbour was built in 1604 and has been rebuilt twice since then. " * 25


async def test_a_mark_is_the_mean_of_the_scale_by_likelihood(scripted: Scripted) -> None:
    async with scripted(saying({"How good": "4"})):
        s = State()
        s.user("An essay.")
        found = await rate(s, "How good is it?", high=5)
        # the model gives 4 a half, and 1, 2, 3, 5 an equal share each of 1/512
        rest = 0.5 / 256
        whole = 0.5 + 4 * rest
        assert found.score == pytest.approx((4 * 0.5 + (1 + 2 + 3 + 5) * rest) / whole)
        assert (found.mode, math.fsum(found.shares.values())) == (4, pytest.approx(1))
        assert s.text_so_far.endswith("from 1 to 5.\n4")
        assert not s.results


async def test_marks_that_begin_others_are_told_apart(scripted: Scripted) -> None:
    async with scripted(saying({"How good": "10."})):
        s = State()
        s.user("An essay.")
        found = await rate(s, "How good is it?")
        assert found.mode == 10
        assert found.shares[10] > 0.99
        with pytest.raises(InvalidRequest, match="5 to 5"):
            await rate(s, "?", low=5, high=5)


async def test_a_chance_is_that_of_yes(scripted: Scripted) -> None:
    async with scripted(saying({"blue": "Yes", "green": "No"})):
        for colour, likely in (("blue", True), ("green", False)):
            s = State()
            assert (await chance(s, f"Is it {colour}?") > 0.9) == likely


async def test_probabilities_are_of_the_choices_alone(scripted: Scripted) -> None:
    async with scripted("ab"):
        s = State()
        s.text("x")
        await s.select(["a", "q", "r"], name="pick")
        shares = probabilities(s.result("pick").selection)
        rest = 0.5 / 256
        assert shares["a"] == pytest.approx(0.5 / (0.5 + 2 * rest))


async def test_dimensions_are_judged_apart_and_summed_up(scripted: Scripted) -> None:
    def reply(before: str) -> str:
        turn = before.rpartition("user: ")[2]
        if "Sum up" in turn:
            return "Clear." if "facts, " in turn and "style, " in turn else "Lost."
        if "number from" in turn:
            return "9." if "facts" in turn else "3."
        return "Well researched." if "its facts (what is said is true)" in turn else "Dull."

    async with scripted(saying(reply)) as bound:
        found = await judge_text(ESSAY, {"facts": "what is said is true", "style": ""}, high=9)
    assert found.summary == "Clear."
    assert {name: c.text for name, c in found.critiques.items()} == {
        "facts": "Well researched.",
        "style": "Dull.",
    }
    assert found.critiques["facts"].rating.mode == 9
    assert found.mean == pytest.approx(sum(c.score for c in found.critiques.values()) / 2)
    assert found.rating.mode == 3
    assert bound.ratio < 1.05
    assert bound.waste == 0


async def test_the_best_of_several_answers_is_the_judges_choice(scripted: Scripted) -> None:
    def reply(before: str) -> str | list[str]:
        if "How good" not in before:
            return ["a poor answer", "a fine answer", "an answer"]
        return "9." if "fine" in before else "2."

    async with scripted(saying(reply)) as bound:
        program = best_of.using(seed=4)
        found = await program(ESSAY, samples=6)
        assert bound.ratio < 1.05
        assert found == await program(ESSAY, samples=6)
        assert len({each.text for each in found.candidates}) == 3
        assert found.text == "a fine answer"
        longest = await program(ESSAY, samples=6, judge=lambda _, text: len(text))
    assert longest.score == len("a fine answer")


async def test_reflexion_goes_on_with_the_lesson_until_the_check_passes(
    scripted: Scripted,
) -> None:
    def reply(before: str) -> str:
        if before.endswith("next time?\n"):
            return "Count again."
        return "42" if "- Count again." in before else "41"

    def check(answer: int) -> str | None:
        return None if answer == 42 else f"{answer} is too small"

    async with scripted(saying(reply)) as bound:
        found = await reflexion(ESSAY, check=check, kind=int)
        assert (found.answer, found.solved) == (42, True)
        first, second = found.trials
        assert (first.fault, first.lesson) == ("41 is too small", "Count again.")
        assert second.fault is None
        assert bound.ratio < 1.05
        failed = await reflexion(ESSAY, check=lambda _: "no", trials=2, regex="[0-9]+")
        assert (failed.solved, len(failed.trials)) == (False, 2)


async def test_reflexion_without_a_check_asks_the_model(scripted: Scripted) -> None:
    async with scripted(saying({"right?": "Yes"}, "An answer.")):
        found = await reflexion(ESSAY)
        assert (found.solved, found.answer) == (True, "An answer.")


async def test_a_debate_brings_agents_together(scripted: Scripted) -> None:
    def spoken(prompt: str) -> str:
        if prompt.endswith("\nAnswer: "):
            first_round = "Answer: 17\n" not in prompt
            return "18" if first_round and "You are b" in prompt else "17"
        return "I think."

    async with scripted(spoken) as bound:
        found = await debate(ESSAY, ["a", "b", "c"], rounds=2, kind=int)
    assert [speech.answer for speech in found.rounds[0]] == [17, 18, 17]
    assert [speech.answer for speech in found.rounds[1]] == [17, 17, 17]
    assert (found.answer, found.votes.agreement) == (17, 1.0)
    assert (bound.waste, bound.ratio < 1.05) == (0, True)


async def test_a_debate_needs_agents_that_differ(scripted: Scripted) -> None:
    async with scripted(""):
        with pytest.raises(InvalidRequest, match="agents that all differ"):
            await debate("?", ["a", "a"])
