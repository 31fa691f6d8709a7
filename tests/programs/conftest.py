"""A scripted model whose computed tokens are held against the least there could be."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest

from agentrt import Runtime
from agentrt.testing import ScriptedModel
from tests.programs.bound import Bound
from tests.runtime.serving import settled

Reply = str | Callable[[str], str]
Scripted = Callable[..., AbstractAsyncContextManager[Bound]]


@pytest.fixture
def scripted() -> Scripted:
    """`async with scripted(reply) as bound:` is a runtime that replies so, its books checked at
    the end. Without a reply the model babbles: every prompt goes on differently, for ever."""

    @asynccontextmanager
    async def run(reply: Reply | None = None, **options: Any) -> AsyncGenerator[Bound]:
        bound = Bound()
        size = {"num_slots": 1 << 16, "context_length": 1 << 14, "on_step": bound, **options}
        if reply is None:
            model = ScriptedModel.babbling(**size)
        else:
            model = ScriptedModel.replying(reply, **size)
        async with Runtime(model) as runtime:
            yield bound
            await settled(runtime)

    return run
