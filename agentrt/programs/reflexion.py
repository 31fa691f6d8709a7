"""Reflexion: an attempt that failed is reflected on, and the next one has the lesson in mind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agentrt.programs.answers import check_answer
from agentrt.programs.arguments import check_count, check_hook
from agentrt.programs.asking import awaited
from agentrt.programs.program import program
from agentrt.programs.scoring import chance

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from agentrt.programs.state import State

    Check = Callable[[Any], str | Awaitable[str | None] | None]


@dataclass(frozen=True, slots=True)
class Trial:
    """An attempt; what was wrong with it (None: nothing), and the lesson drawn from that."""

    answer: Any
    fault: str | None
    lesson: str = ""


@dataclass(frozen=True, slots=True)
class Reflected:
    """The last answer, and every trial, in order."""

    trials: tuple[Trial, ...]

    @property
    def answer(self) -> Any:
        return self.trials[-1].answer

    @property
    def solved(self) -> bool:
        """Whether the last answer has no fault."""
        return self.trials[-1].fault is None


@program(max_tokens=256, temperature=0.5)
async def reflexion(
    s: State,
    task: str,
    *,
    check: Check | None = None,
    trials: int = 3,
    kind: Any = str,
    regex: str | None = None,
) -> Reflected:
    """Tries up to `trials` times, each time with the lessons of what failed before.

    Shinn et al. 2023, Reflexion, arXiv:2303.11366, section 3. `check` is the evaluator: of an
    answer it says what is wrong, or None if nothing is (run the tests, compare the result); without
    one the model is asked whether its answer is right. An attempt starts from the task and the
    lessons, not from the failed attempts. Where no trial succeeds the result says so (`solved`).
    Raises what `State.gen` raises.
    """
    check_count("trials", trials, 1)
    check_hook("check", check, "the answer")
    await check_answer(s, kind, regex)
    s.user(task)
    done: list[Trial] = []
    while True:
        attempt = s.copy()
        lessons = [trial.lesson for trial in done]
        if lessons:
            attempt.user("Lessons from failed attempts:\n" + "\n".join(f"- {x}" for x in lessons))
        answer = await (attempt.gen(kind) if regex is None else attempt.gen(regex=regex))
        fault = await _fault(attempt, answer, check)
        if fault is None or len(done) + 1 == trials:
            return Reflected((*done, Trial(answer, fault)))
        attempt.user(f"This failed: {fault}\nIn one sentence: what to do differently next time?")
        lesson = await attempt.gen(stop=["\n"], max_tokens=64)
        done.append(Trial(answer, fault, lesson.strip()))


async def _fault(attempt: State, answer: Any, check: Check | None) -> str | None:
    if check is not None:
        return await awaited(check(answer))
    sure = await chance(attempt.copy(), "Is this answer right?")
    return None if sure >= 0.5 else "it is more likely wrong than right"
