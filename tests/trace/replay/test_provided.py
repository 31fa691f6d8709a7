"""A record of the provided model: replayed by its tokenizer, without its weights."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentrt.errors import ReplayDrift
from agentrt.programs import State, program
from agentrt.runtime.runtime import Runtime
from agentrt.trace import TraceConfig
from agentrt.trace.replay import Replay

pytestmark = [pytest.mark.anyio, pytest.mark.model]


@program
async def opinions(s: State, thing: str) -> tuple[int, str, str]:
    s.system("You are brief.")
    s.user(f"Rate {thing} from 0 to 9.")
    rating = await s.gen(int, max_tokens=8)
    s.user("And would you buy it?")
    verdict = await s.select(["yes", "no"])
    s.user("Why?")
    return rating, verdict, await s.gen(max_tokens=12, temperature=0.8, seed=3)


async def test_a_program_replayed_and_drifting(tmp_path: Path) -> None:
    async with Runtime(trace=TraceConfig(folder=tmp_path)):
        recorded = await opinions("tea")
    (record,) = tmp_path.glob("*.sqlite")
    async with Replay(record) as runtime:
        assert await opinions("tea") == recorded
        assert (runtime.answered, runtime.unasked) == (3, [])
        with pytest.raises(ReplayDrift) as caught:
            await opinions("coffee")
        assert (caught.value.recorded, caught.value.asked) == (" tea", " coffee")
        runtime.drifts.clear()
