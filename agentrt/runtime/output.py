"""What a generation has produced so far: tokens, how they came to be, and the text they make."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from agentrt.generation import Chunk, TokenKind, TokenLogprob
from agentrt.runtime.stopping import StopChecker

if TYPE_CHECKING:
    from agentrt.generation import FinishReason, SamplingParams
    from agentrt.runtime.source import TextCodec


class Output:
    """Output tokens of one request, their kinds and log-probabilities, their text.

    Text is certain text: what may still become part of a stop string or of a longer character is
    held back until it is decided.
    """

    def __init__(
        self,
        params: SamplingParams,
        *,
        max_tokens: int,
        eos_token_ids: frozenset[int],
        codec: TextCodec,
    ) -> None:
        self.max_tokens = max_tokens
        self._params = params
        self._wants_logprobs = params.logprobs or params.top_logprobs > 0
        self._eos_token_ids = eos_token_ids
        self._codec = codec
        self._ids: list[int] = []
        self._kinds: list[TokenKind] = []
        self._logprobs: list[TokenLogprob] = []
        self._told_tokens = 0
        self._to_take_back = 0  # tokens that were told and have been dropped since
        self._told_chars = 0
        self._start_text()

    def _start_text(self) -> None:
        self._stream = self._codec.stream()
        self._stops = StopChecker(
            self._params, max_tokens=self.max_tokens, eos_token_ids=self._eos_token_ids
        )

    def __len__(self) -> int:
        return len(self._ids)

    @property
    def token_ids(self) -> tuple[int, ...]:
        return tuple(self._ids)

    @property
    def kinds(self) -> tuple[TokenKind, ...]:
        return tuple(self._kinds)

    @property
    def logprobs(self) -> tuple[TokenLogprob, ...] | None:
        return tuple(self._logprobs) if self._wants_logprobs else None

    @property
    def text(self) -> str:
        return self._stops.text

    @property
    def tokens_left(self) -> int:
        return self.max_tokens - len(self._ids)

    @property
    def finish_reason(self) -> FinishReason | None:
        return self._stops.finish_reason

    @property
    def stopped_by(self) -> str | int | None:
        return self._stops.stopped_by

    def push(
        self,
        token_id: int,
        kind: TokenKind,
        logprob: float = math.nan,
        top: tuple[tuple[int, float], ...] = (),
    ) -> None:
        """Takes one more token in; afterwards `finish_reason` may be set."""
        self._ids.append(token_id)
        self._kinds.append(kind)
        if self._wants_logprobs:
            known = None if math.isnan(logprob) else logprob
            self._logprobs.append(TokenLogprob(token_id, known, top))
        self._stops.push(token_id, self._stream.push(token_id))
        if self._stops.finish_reason is not None:
            self._stops.close(self._stream.finish())

    def end(self, reason: FinishReason) -> None:
        """Ends the output from outside, where a matcher has nothing to add."""
        self._stops.close(self._stream.finish(), reason)

    def drop(self, count: int) -> None:
        """Takes the last `count` tokens back. Their text must be repeated by what is pushed next:
        what was already told of it stays told."""
        keep = len(self._ids) - count
        del self._ids[keep:], self._kinds[keep:], self._logprobs[keep:]
        if keep < self._told_tokens:
            self._to_take_back += self._told_tokens - keep
            self._told_tokens = keep
        self._start_text()
        for token_id in self._ids:
            self._stops.push(token_id, self._stream.push(token_id))

    def take_chunk(self) -> Chunk | None:
        """What came since the last call, or None when nothing did."""
        text, since = self._stops.text, self._told_tokens
        taken_back, self._to_take_back = self._to_take_back, 0
        if since == len(self._ids) and len(text) <= self._told_chars and not taken_back:
            return None
        chunk = Chunk(
            text[self._told_chars :],
            tuple(self._ids[since:]),
            tuple(self._kinds[since:]),
            tuple(self._logprobs[since:]) if self._wants_logprobs else None,
            rollback=taken_back,
        )
        self._told_tokens = len(self._ids)
        self._told_chars = max(self._told_chars, len(text))
        return chunk
