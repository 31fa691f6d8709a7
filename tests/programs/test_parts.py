"""Programs that split a task: branch-solve-merge, skeleton-of-thought, plan and execute."""

from __future__ import annotations

import pytest

from agentrt import State
from agentrt.programs.branch_solve_merge import branch_solve_merge
from agentrt.programs.plan import plan_and_execute
from agentrt.programs.skeleton import skeleton_of_thought
from tests.programs.conftest import Scripted
from tests.programs.replies import saying

pytestmark = pytest.mark.anyio

TASK = "Write a guide to the town, for people who come for the first time. " * 20


async def test_given_parts_are_solved_apart_and_merged(scripted: Scripted) -> None:
    answers = {"only this part: food": "Eat fish.", "only this part: sights": "See the harbour."}
    merged = "food:\nEat fish.\n\nsights:\nSee the harbour."

    def reply(before: str) -> str:
        if merged in before:
            return "Eat fish by the harbour."
        return next(text for key, text in answers.items() if key in before)

    async with scripted(saying(reply)) as bound:
        found = await branch_solve_merge(TASK, ["food", "sights"])
    assert found.text == "Eat fish by the harbour."
    assert found.solutions == ("Eat fish.", "See the harbour.")
    assert (bound.waste, bound.ratio < 1.05) == (0, True)


async def test_the_model_names_the_parts(scripted: Scripted) -> None:
    async with scripted(saying({"Name the parts": "1. food\n2. sights\n3. food"})) as bound:
        found = await branch_solve_merge(TASK, 3)
    assert found.parts == ("food", "sights")
    assert (bound.waste, bound.ratio < 1.05) == (0, True)


async def test_a_skeleton_is_written_out_all_points_at_once(scripted: Scripted) -> None:
    answers = {
        "skeleton": "1. go by boat\n2. eat the fish",
        "point 1": "There is a ferry.\nIt is slow.",
        "point 2": "It is fresh.",
    }
    async with scripted(saying(answers)) as bound:
        found = await skeleton_of_thought(TASK, points=2)
    assert found.paragraphs == ("There is a ferry.", "It is fresh.")
    assert found.text == "1. go by boat: There is a ferry.\n\n2. eat the fish: It is fresh."
    assert (bound.waste, bound.ratio < 1.05) == (0, True)


async def test_a_plan_is_carried_out_step_by_step(scripted: Scripted) -> None:
    answers = {
        "list the 2 steps": "1. add them\n2. double it",
        "step 1": "2 + 3 = 5",
        "step 2": "10",
        "Only the answer": "10",
    }
    async with scripted(saying(answers)) as bound:
        found = await plan_and_execute(TASK, steps=2, kind=int)
    assert found.answer == 10
    assert [step.outcome for step in found.steps] == ["2 + 3 = 5", "10"]
    assert (bound.waste, bound.ratio < 1.05) == (0, True)


async def test_steps_may_be_carried_out_by_a_function(scripted: Scripted) -> None:
    told: list[str] = []

    async def execute(state: State, step: str) -> str:
        told.append(step)
        return f"{len(told)} done"

    def reply(before: str) -> str:
        if "Only the answer" in before:
            return "yes" if before.count(" done") == 2 else "no"
        return "1. add them\n2. double it"

    async with scripted(saying(reply)):
        found = await plan_and_execute(TASK, steps=2, execute=execute)
    assert (told, found.answer) == (["add them", "double it"], "yes")
