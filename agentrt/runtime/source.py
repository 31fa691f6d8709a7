"""Where a runtime gets its model from: the contract a real or a scripted model answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentrt.messages import Message
    from agentrt.runtime.batch import Executor
    from agentrt.runtime.config import RuntimeConfig
    from agentrt.runtime.front import Front
    from agentrt.schema import Vocabulary


class TextStream(Protocol):
    """Turns token ids into text as they come."""

    def push(self, token_id: int) -> str:
        """The text that is certain now; an incomplete UTF-8 sequence is held back."""
        ...

    def finish(self) -> str:
        """What was held back, incomplete bytes as U+FFFD."""
        ...


class TextCodec(Protocol):
    """Text to token ids and back, by the model's own tokenizer and chat template."""

    def encode(self, text: str) -> list[int]:
        """A plain prompt as the model expects it; special tokens inside the text stay text."""
        ...

    def encode_inside(self, text: str) -> list[int]:
        """Text that continues other text: nothing is put before or after it."""
        ...

    def encode_chat(
        self, messages: Sequence[Message], *, continue_final: bool = False
    ) -> list[int]:
        """A chat, ready for the assistant's next turn, or for the rest of its last message.

        Raises InvalidRequest.
        """
        ...

    def decode(self, token_ids: Sequence[int]) -> str: ...

    def token_bytes(self, token_id: int) -> bytes:
        """What a token adds to a text, as UTF-8 or a part of it; special tokens by their name."""
        ...

    def is_control(self, token_id: int) -> bool:
        """Whether the token is a special one, which text never becomes."""
        ...

    @property
    def vocabulary(self) -> Vocabulary:
        """What text each token stands for, and which tokens end a text: for compiling schemas."""
        ...

    @property
    def document_start(self) -> Sequence[int]:
        """The tokens before the first of a text: the model's BOS, or what separates documents."""
        ...

    def stream(self) -> TextStream: ...


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model ready to serve: what computes, and what reads and writes text for it."""

    executor: Executor
    codec: TextCodec


class ModelSource(Protocol):
    """Something a :class:`agentrt.Runtime` can be opened with."""

    def open(self, config: RuntimeConfig) -> LoadedModel:
        """Loads the model; called on the thread that will run it, once per runtime."""
        ...


class StandIn(ModelSource, Protocol):
    """What answers in place of a model, as a record does; its model computes nothing."""

    def front(self, front: Front) -> Front:
        """What serves a runtime's callers in place of `front`."""
        ...

    def tool(self, name: str, arguments: str) -> str | None:
        """What a tool gave; None where it is to be called."""
        ...
