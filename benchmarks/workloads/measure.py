"""Running a workload on an engine, and what came of it."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.prompt_trees import Call as Asked
from benchmarks.schedule import least_computed

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.workloads.branch import Branch, Call, Engine
    from benchmarks.workloads.catalogue import Program, Size, Workload

Figures = dict[str, float | None]


@dataclass(frozen=True, slots=True)
class Outcome:
    """One run of one workload."""

    programs: int
    seconds: float
    calls: list[Call]


async def run(engine: Engine, workload: Workload, size: Size) -> Outcome:
    """Runs every program, `at_once` of them at a time, from a cold cache."""
    await engine.fresh()
    programs = workload.programs(size)
    gate = asyncio.Semaphore(workload.at_once)
    log: list[Call] = []

    async def one(program: Program, branch: Branch) -> None:
        async with gate:
            await program(branch)

    start = time.perf_counter()
    await asyncio.gather(*(one(program, engine.branch(log)) for program in programs))
    return Outcome(len(programs), time.perf_counter() - start, log)


def summed_up(outcome: Outcome, tokens: Callable[[str], list[int]]) -> Figures:
    """The figures of a run. `tokens` is the model's tokenizer, for what an engine does not count.

    `computed_over_least` is the prompt tokens computed over those of every distinct prefix edge,
    each computed once. The last token of a choice is none of them: nothing comes after it.
    """
    calls, seconds = outcome.calls, outcome.seconds
    firsts = [call.first_s for call in calls if call.first_s is not None]
    judged = [call.valid for call in calls if call.valid is not None]
    return {
        "programs_per_s": outcome.programs / seconds,
        "seconds": seconds,
        "tokens_per_s": sum(call.tokens for call in calls) / seconds,
        "ttft_p50_s": float(np.percentile(firsts, 50)) if firsts else None,
        "ttft_p95_s": float(np.percentile(firsts, 95)) if firsts else None,
        "valid": sum(judged) / len(judged) if judged else None,
        **_reuse(calls, tokens),
    }


def _reuse(calls: list[Call], tokens: Callable[[str], list[int]]) -> Figures:
    if any(call.computed is None for call in calls):
        return {"hit_rate": None, "computed_over_least": None}
    asked = [each for call in calls for each in _asked(call, tokens)]
    prompt_tokens = sum(len(each.prompt) for each in asked)
    computed = sum(call.computed or 0 for call in calls)
    return {
        "hit_rate": 1 - computed / prompt_tokens,
        "computed_over_least": computed / least_computed(asked),
    }


def _asked(call: Call, tokens: Callable[[str], list[int]]) -> list[Asked]:
    """The requests of a call: to choose among texts, each of them is asked for after the prompt."""
    if len(call.continuations) > 1:
        return [Asked(tuple(tokens(call.prompt + text)[:-1]), ()) for text in call.continuations]
    written = tokens(call.prompt + call.continuations[0])
    prompt = tokens(call.prompt)
    return [Asked(tuple(prompt), tuple(written[len(prompt) :]))]
