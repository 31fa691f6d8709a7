"""A stored model's tokenizer and chat template, as the runtime reads and writes text."""

from __future__ import annotations

from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING

from agentrt.runtime.chat import ChatTemplate
from agentrt.runtime.tokenizer import Tokenizer
from agentrt.schema import Vocabulary

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentrt.messages import Message
    from agentrt.runtime.models import ModelFiles
    from agentrt.runtime.tokenizer import TokenStream


class ModelCodec:
    """Text to tokens and back for one model. Safe to share between threads."""

    def __init__(self, files: ModelFiles) -> None:
        self.tokenizer = Tokenizer.from_files(files)
        self.chat = ChatTemplate.from_files(self.tokenizer, files)
        self._making = Lock()
        self._control = frozenset(self.tokenizer.special_tokens.values())
        self.document_start = self._document_start(files)
        end_of_turn = self.chat.end_of_turn()
        self.eos_token_ids = self.tokenizer.eos_token_ids | (
            frozenset() if end_of_turn is None else frozenset({end_of_turn})
        )

    def _document_start(self, files: ModelFiles) -> tuple[int, ...]:
        """BOS where the tokenizer begins texts with one, else what ended the document before."""
        bare = self.tokenizer.encode("", add_special=True)
        if bare:
            return tuple(bare)
        for role in ("bos_token", "eos_token"):
            token = files.special_tokens.get(role)
            if token in self.tokenizer.special_tokens:
                return (self.tokenizer.special_tokens[token],)
        return tuple(sorted(self.tokenizer.eos_token_ids)[:1])

    def encode(self, text: str) -> list[int]:
        return self.tokenizer.encode(text, add_special=True)

    def encode_inside(self, text: str) -> list[int]:
        return self.tokenizer.encode(text, continues=True)

    def encode_chat(
        self, messages: Sequence[Message], *, continue_final: bool = False
    ) -> list[int]:
        return self.chat.encode(messages, continue_final=continue_final)

    def decode(self, token_ids: Sequence[int]) -> str:
        return self.tokenizer.decode(token_ids, continues=True)

    @property
    def vocabulary(self) -> Vocabulary:
        with self._making:  # a fifth of a second's work, once for all who ask at the same time
            return self._vocabulary

    @cached_property
    def _vocabulary(self) -> Vocabulary:
        return Vocabulary(
            self.tokenizer.vocabulary(), self.eos_token_ids, encode=self.encode_inside
        )

    def token_bytes(self, token_id: int) -> bytes:
        return self.tokenizer.token_bytes(token_id)

    def is_control(self, token_id: int) -> bool:
        return token_id in self._control

    def stream(self) -> TokenStream:
        return self.tokenizer.stream()
