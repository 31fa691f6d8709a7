"""What pytest gets from agentrt when it is installed: `scripted_runtime` and `replayed_runtime`.

    @pytest.mark.anyio
    async def test_greeting(scripted_runtime):
        async with scripted_runtime({"Hello?": "Hi."}):
            assert await greet("Hello?") == "Hi."

    @pytest.mark.anyio
    async def test_as_recorded(replayed_runtime):
        async with replayed_runtime("tests/records/greeting.sqlite"):
            await greet("Hello?")

Nothing of agentrt is imported until a test asks for it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import TypeAlias

    from agentrt.runtime.runtime import Runtime
    from agentrt.trace.replay import Replay

    Replies: TypeAlias = "str | Mapping[str, str] | Callable[[str], str]"


@pytest.fixture
def scripted_runtime() -> Callable[..., Runtime]:
    """Makes runtimes whose model says what the test tells it to, for `async with`.

    Called with one reply for everything; with a mapping from how the last thing said ends to the
    reply, the longest ending first; or with a function of the whole prompt. A constrained answer
    follows the reply as far as it may. Options are those of `Runtime` and, of `ScriptedModel`,
    `context_length` and `on_step`.
    """

    def make(replies: Replies, **options: Any) -> Runtime:
        from agentrt.runtime.runtime import Runtime
        from agentrt.testing import ScriptedModel, by_ending

        own = {key: options.pop(key) for key in ("context_length", "on_step") if key in options}
        reply = replies if isinstance(replies, str) or callable(replies) else by_ending(replies)
        return Runtime(ScriptedModel.replying(reply, **own), **options)

    return make


@pytest.fixture
def replayed_runtime() -> Callable[..., Replay]:
    """Makes runtimes that answer from a recorded run, for `async with`.

    Called with the path of a record, and with the options of `agentrt.trace.replay.Replay`. A test
    fails with ReplayDrift when its program asks for what was not recorded: a prompt has changed, or
    a sampling parameter. To record one, run the program with `Runtime(trace=TraceConfig(
    folder="tests/records"))`, or with AGENTRT_TRACE=tests/records, and keep the file.
    """

    def make(run: str | Path, **options: Any) -> Replay:
        from agentrt.trace.replay import Replay

        return Replay(Path(run), **options)

    return make
