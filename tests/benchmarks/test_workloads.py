"""Every workload runs on any engine that keeps the protocol, and its figures add up."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from benchmarks.workloads import (
    WORKLOADS,
    Answer,
    Branch,
    Call,
    Outcome,
    TextBranch,
    run,
    summed_up,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pydantic import BaseModel

ORDER = (
    '{"reference":"A-1000","customer":"Ada","item":"lamp","count":1,"price":2.5,"address":'
    '{"number":1,"street":"Mill Lane","town":"Porto"},"urgent":true,"mood":"patient"}'
)


class Scripted:
    """Writes a letter a token, chooses the last choice, and caches nothing."""

    name = "scripted"
    can = frozenset({"text", "select", "json"})

    def __init__(self) -> None:
        self.at_once = self.most_at_once = 0

    async def start(self) -> None: ...

    async def fresh(self) -> None: ...

    async def stop(self) -> None: ...

    def branch(self, log: list[Call]) -> Branch:
        return TextBranch(log, self)

    async def gen(self, prompt: str, max_tokens: int) -> Answer:
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await asyncio.sleep(0)
        self.at_once -= 1
        return Answer("abcdefgh"[len(prompt) % 8] * max_tokens, max_tokens, computed=len(prompt))

    async def select(self, prompt: str, choices: Sequence[str]) -> Answer:
        computed = sum(len(prompt + choice) - 1 for choice in choices)
        return Answer(choices[-1], 0, computed=computed)

    async def fill(self, prompt: str, kind: type[BaseModel], max_tokens: int) -> Answer:
        return Answer(ORDER, max_tokens, computed=len(prompt))


def letters(text: str) -> list[int]:
    return [ord(letter) for letter in text]


@pytest.mark.parametrize("name", WORKLOADS)
@pytest.mark.parametrize("size", ["small", "full"])
def test_every_workload_runs_to_its_end(name: str, size: str) -> None:
    workload = WORKLOADS[name]
    outcome = asyncio.run(run(Scripted(), workload, size))
    assert outcome.programs == len(workload.programs(size)) > 0
    assert len(outcome.calls) >= outcome.programs
    assert all(call.valid in (None, True) for call in outcome.calls)


@pytest.mark.parametrize("name", ["tree_of_thought", "judge", "tip_suggestion"])
def test_what_shares_a_prefix_is_counted_once(name: str) -> None:
    outcome = asyncio.run(run(Scripted(), WORKLOADS[name], "small"))
    figures = summed_up(outcome, letters)
    # An engine without a cache computes everything: what it could have saved is what is shared.
    assert figures["hit_rate"] == 0.0
    assert figures["computed_over_least"] > 2


def test_nothing_is_shared_where_nothing_should_be() -> None:
    outcome = asyncio.run(run(Scripted(), WORKLOADS["zero_reuse"], "small"))
    assert summed_up(outcome, letters)["computed_over_least"] == pytest.approx(1, abs=0.02)


def test_serial_programs_run_one_at_a_time() -> None:
    engine = Scripted()
    asyncio.run(run(engine, WORKLOADS["generative_agents"], "small"))
    assert engine.most_at_once == 1


def test_a_tree_has_all_its_thoughts() -> None:
    outcome = asyncio.run(run(Scripted(), WORKLOADS["tree_of_thought"], "full"))
    assert len(outcome.calls) == outcome.programs * (4 + 4 * 4 + 4 * 4 * 4)


def test_the_least_counts_what_was_written_before_as_known() -> None:
    # The second prompt goes on from the first's output: "ab" and the last letter of "cd" are new.
    calls = [
        Call("ab", ("cd",), 2, 1.0, None, computed=2),
        Call("abcd", ("e",), 1, 1.0, None, computed=1),
    ]
    figures = summed_up(Outcome(1, 2.0, calls), letters)
    assert figures["computed_over_least"] == 1.0
    assert figures["hit_rate"] == 0.5
    assert figures["tokens_per_s"] == 1.5
