"""Starting from a recorded generation with something changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentrt.errors import InvalidRequest
from agentrt.runtime.runtime import Runtime
from agentrt.testing import EOS, ByteCodec, ScriptedModel, by_ending
from agentrt.trace import SpanKind, TraceConfig, latest_run
from agentrt.trace.replay import branch
from agentrt.trace.replay.branching import replaced

pytestmark = pytest.mark.anyio

MODEL = {"Bob": "Hi Bob.", "Eve": "Who?", "Bob!": "Louder."}


async def record(folder: Path) -> int:
    """Records one generation; the id of its span."""
    model = ScriptedModel.replying(by_ending(MODEL))
    async with Runtime(model, trace=TraceConfig(folder=folder)) as runtime:
        await runtime.generate("I am Bob", max_tokens=4)
    with latest_run(folder) as run:
        (span,) = run.spans(kinds=(SpanKind.GENERATION,))
    return span.id


async def test_both_outputs_side_by_side(tmp_path: Path) -> None:
    span_id = await record(tmp_path)
    model = ScriptedModel.replying(by_ending(MODEL))
    async with Runtime(model, trace=False) as runtime:
        with latest_run(tmp_path) as run:
            same = await branch(run, span_id, runtime)
            assert (same.recorded, same.completion.text) == ("Hi B", "Hi B")
            longer = await branch(run, span_id, runtime, max_tokens=50)
            assert longer.completion.text == "Hi Bob."
            assert longer.completion.usage.cached_tokens > 0  # the prefix was there already
            louder = await branch(run, span_id, runtime, append="!")
            assert (louder.prompt, louder.completion.text) == ("I am Bob!", "Loud")
            other = await branch(run, span_id, runtime, replace=("Bob", "Eve"))
            assert (other.prompt, other.completion.text) == ("I am Eve", "Who?")
            with pytest.raises(InvalidRequest, match="'Zoe' does not occur"):
                await branch(run, span_id, runtime, replace=("Zoe", "Eve"))
            with pytest.raises(InvalidRequest, match="is no generation"):
                await branch(run, run.root().id, runtime)


def test_special_tokens_stay_what_they_are() -> None:
    prompt = [EOS, *b"red red", EOS, *b"blue"]
    assert replaced(ByteCodec(), prompt, "red", "green") == [
        EOS,
        *b"green green",
        EOS,
        *b"blue",
    ]
