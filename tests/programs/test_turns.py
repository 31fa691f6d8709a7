"""How calls, results and turns are written by templates of several kinds."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pytest

from agentrt import InvalidRequest, Message, Runtime, State, call_tools, tool
from agentrt.programs.turns import Rendering, rendering_of
from agentrt.runtime.source import LoadedModel
from agentrt.testing import ByteCodec, ScriptedModel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentrt.runtime.config import RuntimeConfig

pytestmark = pytest.mark.anyio


@tool
def add(a: int, b: int = 2) -> int:
    """Adds."""
    return a + b


ADD = '{"name":"add","arguments":{"a":1}}'


class CallingCodec(ByteCodec):
    """A template that writes out calls, with ids, as many do."""

    def encode_chat(
        self, messages: Sequence[Message], *, continue_final: bool = False
    ) -> list[int]:
        lines: list[str] = []
        for message in messages:
            calls = "".join(f"<call>{c.name} {c.arguments}</call>" for c in message.tool_calls)
            lines.append(f"{message.role}: {message.content}{calls}\n")
        text = "".join(lines)
        return self.encode(text[:-1] if continue_final else text + "assistant: ")


class StrictCodec(ByteCodec):
    """A template that refuses a tool's messages."""

    def encode_chat(
        self, messages: Sequence[Message], *, continue_final: bool = False
    ) -> list[int]:
        if any(message.role == "tool" for message in messages):
            raise InvalidRequest("roles must alternate user and assistant")
        return super().encode_chat(messages, continue_final=continue_final)


class With(ScriptedModel):
    codec: ByteCodec

    def open(self, config: RuntimeConfig) -> LoadedModel:
        return LoadedModel(super().open(config).executor, self.codec)


@contextlib.asynccontextmanager
async def speaking(codec: ByteCodec, reply: str) -> Any:
    model = With.replying(reply)
    assert isinstance(model, With)
    model.codec = codec
    async with Runtime(model) as runtime:
        yield runtime


def shown(runtime: Runtime, s: State) -> str:
    pieces = runtime.vocabulary.tokens
    tokens = s.transcript.tokens(runtime)
    return b"".join(pieces[token] or b"" for token in tokens).decode()


async def test_a_template_that_writes_calls_gets_them_as_calls() -> None:
    async with speaking(CallingCodec(), ADD) as runtime:
        assert rendering_of(runtime) == Rendering(calls=True, results=True)
        s = State()
        s.user("?")
        s.assistant("Let me see. ")
        await call_tools(s, [add])
        await call_tools(s, [add])
        assert shown(runtime, s) == (
            'user: ?\nassistant: Let me see. <call>add {"a":1}</call>\ntool: 3\n'
            'assistant: <call>add {"a":1}</call>\ntool: 3\nassistant: '
        )
        ids = [call.id for message in s.transcript.messages for call in message.tool_calls]
        assert ids == ["call00001", "call00002"]


async def test_a_template_that_refuses_results_gets_them_from_the_user() -> None:
    async with speaking(StrictCodec(), ADD) as runtime:
        assert rendering_of(runtime) == Rendering(calls=False, results=False)
        s = State()
        s.user("?")
        await call_tools(s, [add])
        assert shown(runtime, s) == (
            f"user: ?\nassistant: {ADD}\nuser: Result of add: 3\nassistant: "
        )


@pytest.mark.model
async def test_the_provided_model_is_shown_call_and_result_once() -> None:
    async with Runtime() as runtime:
        assert rendering_of(runtime) == Rendering(calls=False, results=True)
        s = State()
        s.system("You call tools.")
        s.user("Add 40 and 2.")
        [done] = await call_tools(s, [add], max_tokens=40)
        written = f'{{"name":"add","arguments":{done.call.arguments}}}'
        assert shown(runtime, s) == (
            "system\nYou call tools.\nuser\nAdd 40 and 2.\n"
            f"assistant\n{written}\ntool\n{done.text}\nassistant\n"
        )
        assert await s.gen(max_tokens=8)


class AlternatingCodec(ByteCodec):
    """A template as strict as some: no system message, and turns that alternate."""

    def encode_chat(
        self, messages: Sequence[Message], *, continue_final: bool = False
    ) -> list[int]:
        roles = [message.role for message in messages]
        if roles != (["user", "assistant"] * len(roles))[: len(roles)]:
            raise InvalidRequest(f"roles must alternate user and assistant: {roles}")
        return super().encode_chat(messages, continue_final=continue_final)


async def test_a_template_that_wants_turns_to_alternate_gets_them_so() -> None:
    async with speaking(AlternatingCodec(), "Red.") as runtime:
        s = State()
        s.system("Be brief.")
        s.user("A box.")
        s.user("Its colour?")
        assert await s.gen() == "Red."
        s.user("Why?")
        assert shown(runtime, s) == (
            "user: Be brief.\n\nA box.\n\nIts colour?\nassistant: Red.\nuser: Why?\nassistant: "
        )
        assert [message.role for message in s.transcript.messages[:3]] == ["system", "user", "user"]
        s.tool("no such role")
        with pytest.raises(InvalidRequest, match="'system', 'user', 'user'"):
            await s.gen()
