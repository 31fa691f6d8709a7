"""What pytest gets from agentrt when it is installed: the `scripted_runtime` fixture.

    @pytest.mark.anyio
    async def test_greeting(scripted_runtime):
        async with scripted_runtime({"Hello?": "Hi."}):
            assert await greet("Hello?") == "Hi."

Nothing of agentrt is imported until a test asks for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import TypeAlias

    from agentrt.runtime.runtime import Runtime

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
