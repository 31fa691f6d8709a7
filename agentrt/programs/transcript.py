"""What has been said so far: chat messages, or one plain text."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from agentrt.errors import InvalidRequest, PromptTooLong
from agentrt.messages import Message, Role, ToolCall
from agentrt.programs.arguments import check_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentrt.runtime.runtime import Runtime


@dataclass(frozen=True, slots=True)
class Transcript:
    """A prompt as it grows; every addition is a new one, so that branches share what came before.

    The last message is open while it is the assistant's: what is said next goes on in it.
    """

    messages: tuple[Message, ...] = ()
    plain: str | None = None

    def with_message(self, role: Role, content: str, **fields: Any) -> Transcript:
        """Another message; of the same assistant's turn, if that is open."""
        check_text(role, content)
        if self.plain is not None:
            raise InvalidRequest(
                f"a {role} message was added to a plain text; a state is a chat or a text, not both"
            )
        if role == "assistant" and self._is_open and not fields:
            return self.going_on(content)
        return Transcript((*self.messages, Message(role, content, **fields)))

    def with_text(self, text: str) -> Transcript:
        """More of a plain text."""
        check_text("text", text)
        if self.messages:
            raise InvalidRequest(
                "plain text was added to a chat; use system, user, assistant or tool, or begin a "
                "state with text"
            )
        return Transcript(plain=(self.plain or "") + text)

    def going_on(self, text: str) -> Transcript:
        """What a generation wrote, or is to go on from."""
        if self.plain is not None:
            return Transcript(plain=self.plain + text)
        if not self._is_open:
            return Transcript((*self.messages, Message("assistant", text)))
        last = self.messages[-1]
        return Transcript((*self.messages[:-1], replace(last, content=last.content + text)))

    def calling(self, calls: tuple[ToolCall, ...]) -> Transcript:
        """The assistant's turn, ended by calls of tools."""
        opened = self if self._is_open else self.with_message("assistant", "")
        last = replace(opened.messages[-1], tool_calls=calls)
        return Transcript((*opened.messages[:-1], last))

    def objected(self, reason: str) -> Transcript:
        """The reason why what was said last will not do, as the next turn."""
        note = f"That answer was not accepted: {reason} Answer again."
        if self.plain is not None:
            return Transcript(plain=f"{self.plain}\n{note}\n")
        return Transcript((*self.messages, Message("user", note)))

    def tokens(self, runtime: Runtime) -> list[int]:
        """The token ids, as one whole, ready to be gone on with.

        Where the model's template refuses two turns of the same role in a row, they are one; where
        it has no system message, that is the beginning of the first turn.
        """
        if self.plain is not None:
            return runtime.tokenize(self.plain)
        if not self.messages:
            raise InvalidRequest("nothing has been said yet; begin with user(...) or text(...)")
        refusal: InvalidRequest | None = None
        for messages in _renderings(self.messages):
            try:
                return runtime.tokenize(messages, continue_final=self._is_open)
            except InvalidRequest as error:
                refusal = refusal or error
        assert refusal is not None
        raise refusal

    def counted(self, error: PromptTooLong, runtime: Runtime) -> PromptTooLong:
        """The same error with the tokens of each message."""
        counts = tuple((m.role, len(runtime.tokenize(m.content))) for m in self.messages)
        return PromptTooLong(
            error.prompt_tokens, error.limit_tokens, error.limit, error.advice, counts
        )

    @property
    def said(self) -> str:
        """Everything, as text without any template."""
        if self.plain is not None:
            return self.plain
        return "\n".join(message.content for message in self.messages)

    def said_since(self, earlier: Transcript) -> str:
        """What was added after `earlier`, of which this is a continuation."""
        if self.plain is not None:
            return self.plain[len(earlier.plain or "") :]
        added = [message.content for message in self.messages[len(earlier.messages) :]]
        if earlier.messages and earlier.messages[-1].role == "assistant":
            last = len(earlier.messages) - 1
            grown = self.messages[last].content[len(earlier.messages[last].content) :]
            added = [grown, *added] if grown else added
        return "\n".join(added)

    @property
    def _is_open(self) -> bool:
        last = self.messages[-1] if self.messages else None
        return last is not None and last.role == "assistant" and not last.tool_calls


def _renderings(messages: tuple[Message, ...]) -> Iterator[tuple[Message, ...]]:
    """The messages as they are, then as stricter templates take them, where that is different."""
    yield messages
    merged = _merged(messages)
    if merged != messages:
        yield merged
    if messages[0].role == "system" and len(messages) > 1:
        yield _merged((replace(messages[0], role="user"), *messages[1:]))


def _merged(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Users' turns in a row, and system messages in a row, as one."""
    out: list[Message] = []
    for message in messages:
        last = out[-1] if out else None
        if last is not None and last.role == message.role and message.role in ("user", "system"):
            out[-1] = replace(last, content=f"{last.content}\n\n{message.content}")
        else:
            out.append(message)
    return tuple(out)
