"""The bound itself, on runs small enough to count by hand."""

from __future__ import annotations

import pytest

from agentrt import State, gather
from tests.programs.conftest import Scripted

pytestmark = pytest.mark.anyio


async def test_a_prompt_asked_twice_and_what_each_decodes(scripted: Scripted) -> None:
    async with scripted(["ab", "cd"]) as bound:
        s = State()
        s.text("x" * 100)
        await gather(*(fork.gen(temperature=1.0, seed=seed) for seed, fork in enumerate(s.fork(3))))
        # "a" or "c" and "b" or "d" are computed to say what follows; the end is not.
        assert bound.least == 100 + 3 * 2
        # the last token of the prompt is computed by each, to sample from
        assert bound.computed == 100 + 2 + 3 * 2


async def test_what_need_not_have_been_computed_shows(scripted: Scripted) -> None:
    async with scripted("a") as bound:
        for namespace in ("one", "two"):
            s = State()
            s.text("x" * 100)
            await s.gen(namespace=namespace)
        assert (bound.least, bound.computed) == (102, 202)
