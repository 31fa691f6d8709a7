"""A scripted model for tests of agents and of the runtime itself: exact, instant, no weights.

It runs under the real :class:`agentrt.Runtime`: the same scheduler, radix cache and KV pool. Its
"KV" is the token that was written to each slot, so a slot handed to the wrong request shows up as
a wrong answer, not as a slightly different float.

    async with Runtime(ScriptedModel.replying(lambda prompt: "42")) as runtime:
        assert (await runtime.generate("6 times 7?")).text == "42"
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from agentrt.errors import InvalidRequest
from agentrt.runtime.batch import ModelSpec, Sampled, StepResult
from agentrt.runtime.rng import random_uint64
from agentrt.runtime.source import LoadedModel
from agentrt.schema import Vocabulary

if TYPE_CHECKING:
    from collections.abc import Callable

    from agentrt.messages import Message
    from agentrt.runtime.batch import Batch, Float32Array, Int32Array, SampleRow
    from agentrt.runtime.config import RuntimeConfig

EOS = 256
VOCAB_SIZE = 257
"""One token a byte, and the end-of-sequence token."""

Reply = str | Sequence[str]
"""What a scripted model says: a text, or one of several."""

_LIKELY = 0.5
"""Probability the scripted model gives to the token it would choose; the rest share the other."""


class ByteCodec:
    """Text as UTF-8 bytes, one token each; chats as `role: content` lines."""

    document_start = (EOS,)

    def encode(self, text: str) -> list[int]:
        try:
            return list(text.encode())
        except UnicodeEncodeError as error:
            raise InvalidRequest(f"the text is not valid Unicode: {error}") from error

    encode_inside = encode

    def encode_chat(
        self, messages: Sequence[Message], *, continue_final: bool = False
    ) -> list[int]:
        lines = [f"{message.role}: {message.content}\n" for message in messages]
        text = "".join(lines)
        return self.encode(text[:-1] if continue_final else text + "assistant: ")

    @property
    def vocabulary(self) -> Vocabulary:
        return self._vocabulary

    @cached_property
    def _vocabulary(self) -> Vocabulary:
        return Vocabulary([*(bytes([i]) for i in range(EOS)), None], [EOS], encode=self.encode)

    def decode(self, token_ids: Sequence[int]) -> str:
        return bytes(t for t in token_ids if t < EOS).decode(errors="replace")

    def token_bytes(self, token_id: int) -> bytes:
        return bytes([token_id]) if token_id < EOS else b""

    def is_control(self, token_id: int) -> bool:
        return token_id >= EOS

    def stream(self) -> ByteStream:
        return ByteStream()


class ByteStream:
    """Bytes to text; holds back an incomplete character."""

    def __init__(self) -> None:
        self._held = b""

    def push(self, token_id: int) -> str:
        if token_id < EOS:
            self._held += bytes([token_id])
        try:
            text = self._held.decode()
        except UnicodeDecodeError as error:
            if error.reason == "unexpected end of data":
                return ""
            text = self._held.decode(errors="replace")
        self._held = b""
        return text

    def finish(self) -> str:
        text, self._held = self._held.decode(errors="replace"), b""
        return text


class ScriptedModel:
    """A model source whose next token is a function of the tokens before it.

    `choose(prefix, prompt_length)` gets every token so far (prompt and output) and returns the next
    one; where it is masked or banned, the lowest allowed token is taken. `on_step`, if given, sees
    each batch before it is computed and may raise, or wait: that is how faults and cancellation are
    tested. `steps` keeps the number of new tokens of every step.
    """

    def __init__(
        self,
        choose: Callable[[Sequence[int], int], int],
        *,
        num_slots: int = 4096,
        context_length: int = 4096,
        on_step: Callable[[Batch], None] | None = None,
    ) -> None:
        self.choose = choose
        self._script: _Script | None = None
        self.num_slots = num_slots
        self.on_step = on_step
        self.steps: list[int] = []
        self.spec = ModelSpec(
            name="scripted",
            vocab_size=VOCAB_SIZE,
            context_length=context_length,
            eos_token_ids=frozenset({EOS}),
            kv_bytes_per_token=4,
        )

    @classmethod
    def replying(
        cls,
        reply: Reply | Mapping[str, Reply] | Callable[[str], Reply],
        *,
        num_slots: int = 4096,
        context_length: int = 4096,
        on_step: Callable[[Batch], None] | None = None,
    ) -> ScriptedModel:
        """Answers every prompt text with `reply`, `reply[prompt]` or `reply(prompt)`, then ends.

        Where the reply is a list of texts, a generation that samples (temperature > 0) gets the one
        that its seed draws, any other the first.
        """
        script = _Script(reply)
        model = cls(
            script.byte, num_slots=num_slots, context_length=context_length, on_step=on_step
        )
        model._script = script
        return model

    @classmethod
    def babbling(
        cls,
        seed: int = 0,
        *,
        num_slots: int = 4096,
        context_length: int = 4096,
        on_step: Callable[[Batch], None] | None = None,
    ) -> ScriptedModel:
        """Goes on with a letter that is a hash of everything before it, and never ends.

        Any mix-up of slots, positions or tokens changes all that follows.
        """

        def choose(prefix: Sequence[int], _: int) -> int:
            content = np.asarray(prefix, np.int32).tobytes()
            digest = hashlib.blake2b(content, key=seed.to_bytes(8, "little"), digest_size=8)
            return ord("a") + int.from_bytes(digest.digest(), "little") % 26

        return cls(choose, num_slots=num_slots, context_length=context_length, on_step=on_step)

    def next_token(self, prefix: Sequence[int], row: SampleRow) -> int:
        """What is said after `prefix` when a token of `row` is to be chosen."""
        prompt_length = len(prefix) - len(row.history)
        if self._script is None or row.params.temperature == 0:
            return self.choose(prefix, prompt_length)
        return self._script.byte(prefix, prompt_length, random_uint64(row.seed, 0))

    def open(self, config: RuntimeConfig) -> LoadedModel:
        """Called by the runtime."""
        return LoadedModel(ScriptedExecutor(self, config.kv_tokens or self.num_slots), ByteCodec())


class _Script:
    """The replies to every prompt, byte by byte."""

    def __init__(self, reply: Reply | Mapping[str, Reply] | Callable[[str], Reply]) -> None:
        if not callable(reply) and not isinstance(reply, Sequence | Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidRequest(
                f"reply={reply!r}; give a text, several in a list, a mapping from prompts to them, "
                "or a function of the prompt"
            )
        self._reply = reply
        self._replies: dict[str, list[bytes]] = {}

    def byte(self, prefix: Sequence[int], prompt_length: int, draw: int = 0) -> int:
        """What comes after `prefix` in the reply that `draw` picks."""
        prompt = ByteCodec().decode(prefix[:prompt_length])
        if prompt not in self._replies:
            found = _reply_to(self._reply, prompt)
            texts = [found] if isinstance(found, str) else found
            self._replies[prompt] = [text.encode() for text in texts]
        texts = self._replies[prompt]
        text = texts[draw % len(texts)]
        done = len(prefix) - prompt_length
        return text[done] if done < len(text) else EOS


class ScriptedExecutor:
    """Runs batches of a :class:`ScriptedModel`: slots hold token ids, and attending reads them."""

    def __init__(self, model: ScriptedModel, num_slots: int) -> None:
        self.spec = model.spec
        self.num_slots = num_slots
        self._model = model
        self._tokens: Int32Array = np.full(num_slots, -1, np.int32)

    def execute(self, batch: Batch) -> StepResult:
        if self._model.on_step is not None:
            self._model.on_step(batch)
        self._model.steps.append(batch.layout.num_tokens)
        self._tokens[batch.layout.out_slots] = batch.layout.token_ids
        return StepResult(
            tuple(self._sample(batch, row) for row in batch.samples), self._score(batch)
        )

    def close(self) -> None:
        self._tokens = np.zeros(0, np.int32)

    def _prefix(self, batch: Batch, row: int) -> list[int]:
        """The tokens that flat row `row` sees, itself included, read from their slots."""
        layout = batch.layout
        seq = int(np.searchsorted(layout.q_indptr, row, side="right")) - 1
        slots = layout.kv_slots[layout.kv_indptr[seq] : layout.kv_indptr[seq + 1]]
        unseen = int(layout.q_indptr[seq + 1]) - 1 - row
        prefix = self._tokens[slots[: len(slots) - unseen]]
        assert layout.positions[row] == len(prefix) - 1, "position and KV length disagree"
        assert (prefix >= 0).all(), "a slot was read before it was written"
        return prefix.tolist()

    def _sample(self, batch: Batch, row: SampleRow) -> Sampled:
        prefix = self._prefix(batch, row.row)
        choice = self._model.next_token(prefix, row)
        token = _allowed(choice, row)
        if token is None:
            return Sampled(-1, error="the mask allows no token")
        if not (row.params.logprobs or row.params.top_logprobs):
            return Sampled(token)
        top = [(choice, math.log(_LIKELY))] if row.params.top_logprobs else []
        return Sampled(token, _logprob(token, choice), tuple(top))

    def _score(self, batch: Batch) -> Float32Array:
        scores = [
            _logprob(int(target), self._model.choose(prefix, len(prefix)))
            for row, target in zip(batch.score_rows, batch.score_targets, strict=True)
            for prefix in [self._prefix(batch, int(row))]
        ]
        return np.asarray(scores, np.float32)


def by_ending(replies: Mapping[str, str]) -> Callable[[str], str]:
    """A reply function: the reply whose key is how the last thing said ends, the longest first.

    Where the assistant's turn has begun as the reply does, it is the rest. Raises LookupError where
    nothing fits, which stops the engine: the test then fails with EngineFailed from it.
    """

    def reply(prompt: str) -> str:
        said, turn, begun = prompt.rpartition("\nassistant: ")
        said = said if turn else prompt
        known = [ending for ending in replies if said.endswith(ending)]
        if not known:
            raise LookupError(f"no reply is scripted for a prompt that ends in {said[-200:]!r}")
        return replies[max(known, key=len)].removeprefix(begun)

    return reply


def _reply_to(reply: Reply | Mapping[str, Reply] | Callable[[str], Reply], prompt: str) -> Reply:
    if callable(reply):
        return reply(prompt)
    if not isinstance(reply, Mapping):
        return reply
    if prompt not in reply:
        known = ", ".join(map(repr, reply)) or "none"
        raise InvalidRequest(f"no reply is scripted for the prompt {prompt!r}; there are: {known}")
    return reply[prompt]


def _allowed(choice: int, row: SampleRow) -> int | None:
    if row.mask is None and choice not in row.banned:
        return choice
    words = np.full(-(-VOCAB_SIZE // 32), 0xFFFFFFFF, np.uint32) if row.mask is None else row.mask
    bits = np.unpackbits(words.view(np.uint8), bitorder="little")[:VOCAB_SIZE]
    bits[list(row.banned)] = 0
    if bits[choice]:
        return choice
    allowed = np.flatnonzero(bits)
    return int(allowed[0]) if len(allowed) else None


def _logprob(token: int, choice: int) -> float:
    rest = (1.0 - _LIKELY) / (VOCAB_SIZE - 1)
    return math.log(_LIKELY if token == choice else rest)
