"""How calls and results are said to a model: as its chat template has them, or as plain text.

Some templates render `tool_calls` and a tool's messages, some leave one or both out in silence, and
some refuse them. Which, is found by trying each template once.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakKeyDictionary

from agentrt.errors import InvalidRequest
from agentrt.messages import Message, ToolCall

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentrt.programs.state import State
    from agentrt.programs.transcript import Transcript
    from agentrt.runtime.runtime import Runtime


class Rendering(NamedTuple):
    """What a chat template writes out: the calls of an assistant's message; a tool's message."""

    calls: bool
    results: bool


_known: WeakKeyDictionary[Runtime, Rendering] = WeakKeyDictionary()


def say(s: State, text: str) -> None:
    """Goes on in the assistant's turn, or in a plain text."""
    if s.transcript.plain is not None:
        s.text(text)
    else:
        s.assistant(text)


def say_calls(s: State, before: Transcript, calls: Sequence[ToolCall]) -> None:
    """Has the calls said in the template's own way, in place of the text they were written as."""
    if s.transcript.plain is None and rendering_of(s.runtime).calls:
        s.rewind(before)
        s.call(calls)


def say_results(s: State, results: Sequence[tuple[ToolCall, str]]) -> None:
    """Adds what the tools answered, each once, in the order of the calls."""
    is_plain = s.transcript.plain is not None
    how = Rendering(calls=False, results=False) if is_plain else rendering_of(s.runtime)
    for call, text in results:
        # Where the template shows no ids, several answers in a row need their names.
        named = text if how.calls or len(results) == 1 else f"{call.name}: {text}"
        if is_plain:
            s.text(f"\nResult: {named}\n")
        elif how.results:
            s.tool(named, call_id=call.id, name=call.name)
        else:
            s.user(f"Result of {call.name}: {text}")


def rendering_of(runtime: Runtime) -> Rendering:
    """What the model's template does with calls and results."""
    if runtime not in _known:
        _known[runtime] = _tried(runtime)
    return _known[runtime]


def _tried(runtime: Runtime) -> Rendering:
    question = Message("user", "question")
    call = ToolCall("call00001", "zebra", json.dumps({"stripes": "quagga"}))
    calls = Message("assistant", "", tool_calls=(call,))
    result = Message("tool", "okapi", tool_call_id=call.id, name=call.name)
    written = _rendered(runtime, [question, calls, result])
    if written.count("zebra") and written.count("quagga") == 1 and written.count("okapi") == 1:
        return Rendering(calls=True, results=True)
    said = Message("assistant", "giraffe")
    written = _rendered(runtime, [question, said, Message("tool", "okapi")])
    return Rendering(calls=False, results=written.count("okapi") == 1)


def _rendered(runtime: Runtime, messages: list[Message]) -> str:
    try:
        tokens = runtime.tokenize(messages)
    except InvalidRequest:  # a template may refuse roles it does not know
        return ""
    return runtime.vocabulary.spelled(tokens).decode(errors="replace")
