"""Plan and execute: the steps first, then one after another with what came of those before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agentrt.programs.answers import check_answer
from agentrt.programs.arguments import check_hook
from agentrt.programs.asking import awaited, conclusion, numbered
from agentrt.programs.program import program

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from agentrt.programs.state import State

    Execute = Callable[[State, str], str | Awaitable[str]]


@dataclass(frozen=True, slots=True)
class Step:
    """A step of the plan and what came of it."""

    text: str
    outcome: str


@dataclass(frozen=True, slots=True)
class Executed:
    """The answer, and the steps that led to it."""

    answer: Any
    steps: tuple[Step, ...]


@program(max_tokens=256)
async def plan_and_execute(
    s: State,
    task: str,
    *,
    steps: int = 4,
    execute: Execute | None = None,
    kind: Any = str,
    regex: str | None = None,
) -> Executed:
    """Writes a plan of up to `steps` steps, carries them out in order, and answers.

    Wang et al. 2023, Plan-and-Solve Prompting, arXiv:2305.04091, section 2. `execute` carries out a
    step, `(state, step) -> outcome`, with tools or without a model at all; unless given, the model
    writes the outcome. Each step goes on from all that was said before. `kind` or `regex` is what
    the answer must be. Raises what `State.gen` and `execute` raise.
    """
    check_hook("execute", execute, "the state and the step")
    await check_answer(s, kind, regex)
    s.user(f"{task}\n\nFirst list the {steps} steps to take, one a line.")
    done: list[Step] = []
    for number, step in enumerate(await numbered(s, steps, max_tokens=48 * steps), 1):
        s.user(f"Now do step {number}: {step}")
        if execute is None:
            outcome = (await s.gen(stop=["\n\n"])).strip()
        else:
            outcome = await awaited(execute(s.copy(), step))
            s.assistant(outcome)
        done.append(Step(step, outcome))
    s.user("What is the answer to the task? Only the answer.")
    return Executed(await conclusion(s, kind=kind, regex=regex), tuple(done))
