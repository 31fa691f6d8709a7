"""docs/programs.md: the programs there are, their signatures, and what it says that they cost."""

from __future__ import annotations

import ast
import inspect
import json
import re
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import agentrt.programs as library
from agentrt import Budget, State
from agentrt.programs import (
    Chat,
    Program,
    Route,
    answer_from,
    best_of,
    branch_solve_merge,
    classify,
    debate,
    extract,
    extract_long,
    extract_rows,
    judge_text,
    monte_carlo_search,
    multi_chain,
    plan_and_execute,
    proposed,
    react,
    reflexion,
    route,
    self_consistency,
    skeleton_of_thought,
    tree_of_thoughts,
    voted,
)
from agentrt.programs.long import cut

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.programs.conftest import Scripted

PAGE = (Path(__file__).parents[2] / "docs" / "programs.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\|[^|]+\| \[`(\w+)`\]\(#(\w+)\) \| `([^`]+)`( at most)? \|$", re.MULTILINE)
COSTS = {name: (cost, bool(at_most)) for name, _, cost, at_most in ROW.findall(PAGE)}
SECTIONS = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))
WRITTEN = re.compile(r"\n\n    (\w+\(.*?\))\n(?:    -> (\w+)(?:\((.*?)\))?\n)?\n", re.DOTALL)

EXTRACTS = {"extract", "extract_long", "extract_rows"}
TEXT = "How many sheep are there, of which three are black? " * 12  # shared by what goes on from it


def test_the_table_has_a_section_for_each_and_every_program_is_in_it() -> None:
    assert all(link == name.lower() for name, link, _, _ in ROW.findall(PAGE))
    assert list(SECTIONS) == list(COSTS)
    programs = {name for name, value in vars(library).items() if isinstance(value, Program)}
    assert set(COSTS) - programs == {"route", *EXTRACTS, "Chat"}
    assert programs <= set(COSTS)


@pytest.mark.parametrize("name", COSTS)
def test_a_section_has_the_signature_and_what_comes_of_it(name: str) -> None:
    found = WRITTEN.search(SECTIONS[name])
    assert found is not None
    written, kind, parts = found.groups()
    actual = inspect.signature(getattr(library, name))
    (node,) = ast.parse(f"def {written}: pass").body
    assert isinstance(node, ast.FunctionDef)
    assert node.name == name
    positional = dict(zip(reversed(node.args.args), reversed(node.args.defaults), strict=False))
    shown: dict[str, ast.expr | None] = {each.arg: positional.get(each) for each in node.args.args}
    named = zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
    shown |= {each.arg: default for each, default in named}
    if node.args.kwarg is not None:
        shown[node.args.kwarg.arg] = None
    assert list(shown) == list(actual.parameters)
    for parameter, default in shown.items():
        is_named = actual.parameters[parameter].kind is inspect.Parameter.KEYWORD_ONLY
        assert is_named == (parameter in {each.arg for each in node.args.kwonlyargs})
        assert same(default, actual.parameters[parameter].default), parameter
    if parts is not None:
        result = getattr(library, kind)
        assert kind in str(actual.return_annotation)
        known = {each.name for each in fields(result)}
        known |= {n for n, value in vars(result).items() if isinstance(value, property)}
        assert set(parts.split(", ")) == known


def same(shown: ast.expr | None, actual: Any) -> bool:
    """Whether a default is the one that is shown; for one that is shown as `...`, whether any."""
    if shown is None:
        return actual is inspect.Parameter.empty
    if isinstance(shown, ast.Name):
        return shown.id == actual.__name__
    value = ast.literal_eval(shown)
    return actual is not inspect.Parameter.empty if value is ... else value == actual


def look(what: str) -> str:
    """Looks for something."""
    return f"nothing of {what}"


def always_acting(prompt: str) -> str:
    before, _, begun = prompt.rpartition("assistant: ")
    if before.endswith("Call a tool.\n"):
        number = before.count("Call a tool.")
        return json.dumps({"name": "look", "arguments": {"what": str(number)}})
    return f"{begun}act".removeprefix(begun) if begun.endswith("Next: ") else "I look."


def answered(text: str) -> str:
    return f"answered: {text}"


def two_rows(prompt: str) -> str:
    said = prompt.rpartition("assistant: ")[2]
    return '["sheep","black"]'.removeprefix(said)


async def steps(s: State, count: int) -> list[str]:
    """As `sampled`, by a model that says the same whatever the seed: a call for each thought."""

    async def one(branch: State, number: int) -> str:
        return await branch.gen(regex=f"step {number}", max_tokens=8)

    return await s.each(one, range(count))


PARTS = ["the head", "the body", "the tail"]
PASSAGES = ["One sheep is black. Two are white.", "There is a dog. It is old.", "Rain. And snow."]
LONG = " ".join(f"Sheep number {number} is white." for number in range(60))

# How each is run, and the numbers that its cost is told by. Without a reply the model babbles.
Run = tuple["Callable[[], Awaitable[Any]]", dict[str, int], Any]
RUNS: dict[str, Run] = {
    "react": (
        lambda: react.using(max_tokens=60)(TEXT, [look], turns=3), {"turns": 3}, always_acting
    ),
    "plan_and_execute": (
        lambda: plan_and_execute.using(max_tokens=8)(TEXT, steps=3), {"steps": 3}, None
    ),
    "reflexion": (lambda: reflexion.using(max_tokens=8)(TEXT, trials=3), {"trials": 3}, "No"),
    "self_consistency": (
        lambda: self_consistency.using(max_tokens=8)(TEXT, samples=3), {"samples": 3}, None
    ),
    "multi_chain": (lambda: multi_chain.using(max_tokens=8)(TEXT, chains=3), {"chains": 3}, None),
    "debate": (
        lambda: debate.using(max_tokens=8)(TEXT, PARTS, rounds=2), {"agents": 3, "rounds": 2}, None
    ),
    "best_of": (lambda: best_of.using(max_tokens=8)(TEXT, samples=3), {"samples": 3}, None),
    "tree_of_thoughts": (
        lambda: tree_of_thoughts(TEXT, depth=3, branching=2, beam=2, generate=steps),
        {"depth": 3, "branching": 2, "beam": 2},
        None,
    ),
    "monte_carlo_search": (
        lambda: monte_carlo_search(
            TEXT, depth=3, branching=2, rollouts=2, iterations=1, generate=steps
        ),
        {"depth": 3, "branching": 2, "rollouts": 2, "iterations": 1},
        None,
    ),
    "branch_solve_merge": (
        lambda: branch_solve_merge.using(max_tokens=8)(TEXT, 3), {"parts": 3}, None
    ),
    "skeleton_of_thought": (
        lambda: skeleton_of_thought.using(max_tokens=8)(TEXT, points=3), {"points": 3}, None
    ),
    "extract": (lambda: extract(list[int], TEXT, max_tokens=8), {}, "[3]"),
    "extract_long": (
        lambda: extract_long(list[int], LONG, chunk_tokens=400, overlap_tokens=40, max_tokens=8),
        {"chunks": len(cut(LONG, len, 400, 40))},
        "[3]",
    ),
    "extract_rows": (lambda: extract_rows(str, TEXT, max_tokens=8), {"rows": 2}, two_rows),
    "answer_from": (
        lambda: answer_from.using(max_tokens=8)(TEXT, PASSAGES, at_least=0.0),
        {"passages": 3, "most": 2},
        None,
    ),
    "classify": (lambda: classify(TEXT, PARTS), {}, None),
    "route": (lambda: route(TEXT, {p: Route(p, answered) for p in PARTS}), {}, None),
    "judge_text": (
        lambda: judge_text.using(max_tokens=8)(TEXT, PARTS), {"dimensions": 3}, None
    ),
    "Chat": (lambda: talked(3), {"turns": 3}, None),
}  # fmt: skip


async def talked(turns: int) -> None:
    chat = Chat(TEXT, max_tokens=8)
    for _ in range(turns):
        await chat.say("Go on.")


@pytest.mark.anyio
@pytest.mark.parametrize("name", COSTS)
async def test_it_takes_the_calls_that_the_page_says_and_computes_what_is_shared_once(
    name: str, scripted: Scripted
) -> None:
    run, numbers, reply = RUNS[name]
    cost, _ = COSTS[name]
    async with scripted(reply) as bound:
        with Budget() as budget:
            await run()
    assert budget.calls_spent == eval(cost, {}, numbers)
    assert bound.ratio < 1.05


@pytest.mark.anyio
async def test_what_is_said_to_be_the_most_is(scripted: Scripted) -> None:
    async def calls(awaited: Awaitable[Any]) -> int:
        with Budget() as budget:
            await awaited
        return budget.calls_spent

    async with scripted():
        parts = branch_solve_merge.using(max_tokens=8)(TEXT, PARTS)
        assert await calls(parts) == len(PARTS) + 1
        checked = reflexion.using(max_tokens=8)(TEXT, trials=3, check=lambda _: "no")
        assert await calls(checked) == 5
        most = {"depth": 3, "branching": 2, "rollouts": 2, "iterations": 5}
        cost, at_most = COSTS["monte_carlo_search"]
        assert at_most
        assert await calls(monte_carlo_search(TEXT, **most, generate=steps)) < eval(cost, {}, most)
        judged = best_of.using(max_tokens=8)(TEXT, samples=3, judge=lambda _, text: len(text))
        assert await calls(judged) == 3
        tree = tree_of_thoughts(
            TEXT, depth=2, branching=2, generate=proposed("Go on.", max_tokens=8), evaluate=voted()
        )
        assert await calls(tree) == 1 + 1 + 2 + 1  # a listing for each parent, a vote for a level
        executed = plan_and_execute.using(max_tokens=8)(TEXT, steps=3, execute=lambda _, step: step)
        assert await calls(executed) == 2
