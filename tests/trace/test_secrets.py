"""A secret in everything that a program says is in nothing that is kept, exported or shown."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from rich.console import Console

from agentrt import Runtime, State, program
from agentrt.errors import RunError
from agentrt.messages import Message
from agentrt.testing import ScriptedModel
from agentrt.trace import SpanKind, TraceConfig, open_run, span
from agentrt.trace import attributes as names
from agentrt.trace.export import Form, exported
from agentrt.trace.viewer import live_view, printing
from tests.trace.recorded import everything_in

pytestmark = pytest.mark.anyio
SECRET = "hunter2"
HIDE: dict[str, dict[str, Any]] = {
    "content": {"content": False},
    "redact": {"redact": lambda text: text.replace(SECRET, "[...]")},
}


@program
async def telling(s: State, word: str) -> str:
    s.user(f"The word is {word}.")
    answer = await s.gen(max_tokens=40, stop=[f"{word}!"], logprobs=True, top_logprobs=2)
    await s.select([word, "no"])
    async for _ in s.stream(max_tokens=40):
        break
    with span(SpanKind.TOOL, "look", {names.TOOL_CALL_ARGUMENTS: word, "mine": word}) as tool:
        tool.event("looked", at=word)
        tool.set({names.TOOL_CALL_RESULT: word})
    try:
        await s.runtime.generate([Message("user", word)], max_tokens=1, namespace=word)
        with span(SpanKind.VALIDATION, "repair") as repair:
            repair.set({names.VALIDATION_ERRORS: f"/a: {word}"})
            raise RunError(f"not {word}")
    except RunError:
        return answer


@pytest.mark.parametrize("how", HIDE)
@pytest.mark.parametrize("is_animated", [False, True])
async def test_a_secret_stays_where_it_was_said(
    how: str, is_animated: bool, tmp_path: Path
) -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=is_animated, width=150, height=40)
    model = ScriptedModel.replying(f"It is {SECRET}, I think.")
    config = TraceConfig(folder=tmp_path / "runs", **HIDE[how])
    async with Runtime(model, trace=config) as runtime:
        async with live_view(console=console, animated=is_animated):
            assert SECRET in await telling(SECRET)
            with anyio.move_on_after(0):
                await telling(SECRET)
        await runtime.cache_tree()
    kept = everything_in(tmp_path)
    assert b"look" in kept
    assert b"RunError" in kept
    assert SECRET.encode() not in kept
    assert SECRET not in out.getvalue()
    with open_run("latest", tmp_path / "runs") as run:
        for form in Form:
            if form not in {Form.OTLP, Form.PNG}:
                assert SECRET.encode() not in b"".join(exported(run, form)), form
        pages: list[Callable[..., Any]] = [printing.tree_page, printing.radix_page]
        for page in pages:
            assert SECRET not in "".join(line.plain for line in page(run, console))
        assert list(run.search(SECRET)) == []
        assert SECRET not in repr(list(run.texts.pieces(1).values()))


async def test_without_hiding_it_would_be_there(tmp_path: Path) -> None:
    """What the tests above look for is what a record has otherwise."""
    out = io.StringIO()
    console = Console(file=out, force_terminal=False, width=150)
    async with (
        Runtime(ScriptedModel.replying(SECRET), trace=TraceConfig(folder=tmp_path)),
        live_view(console=console),
    ):
        await telling(SECRET)
    assert SECRET.encode() in everything_in(tmp_path)
    assert SECRET in out.getvalue()
    with open_run("latest", tmp_path) as run:
        assert list(run.search(SECRET))
