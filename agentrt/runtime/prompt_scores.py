"""The log-probabilities that one request wants of its prompt, as they are found out."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from agentrt.errors import GenerationFailed
from agentrt.generation import TokenLogprob

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from agentrt.runtime.batch import Float32Array, Int32Array, Int64Array
    from agentrt.runtime.request import Request


class PromptScores:
    """Scores of prompt tokens `first`, `first` + 1, ... of a request, in order.

    The row of one token says how likely the next one is, so token p is scored by row p - 1.
    """

    def __init__(self, request: Request, first: int) -> None:
        self._request = request
        self._first = first
        self._scores: list[float] = []
        self._expect()

    @property
    def next(self) -> int:
        """The first prompt token that is not scored yet."""
        return self._first + len(self._scores)

    @property
    def are_in(self) -> bool:
        return self.next >= self._request.prompt_len

    def recall(self, scores: Sequence[float]) -> None:
        """Takes the scores of the next tokens from an earlier request; their rows are not needed.

        For a request that is not scheduled yet.
        """
        self._scores.extend(scores)
        self._expect()
        if self.are_in and not self._request.max_tokens:
            self._request.cached_tokens = self._request.prompt_len

    def _expect(self) -> None:
        self._request.score_from = None if self.are_in else self.next

    def rows(self, start: int, end: int) -> Int64Array:
        """Positions in [start, end) whose rows score a token that is not scored yet."""
        last = min(end, self._request.prompt_len - 1)
        return np.arange(max(start, self.next - 1), last, dtype=np.int64)

    def targets(self, rows: Int64Array) -> Int64Array:
        """The tokens that those rows score."""
        tokens = self._request.token_ids
        return np.asarray([tokens[row + 1] for row in rows.tolist()], np.int64)

    def take(self, rows: Int64Array, scores: Iterator[float]) -> None:
        """Takes one score for each row, from those of the whole step. Raises GenerationFailed."""
        ours = [next(scores) for _ in rows]  # all of them first: the next ones are another's
        for row, score in zip(rows.tolist(), ours, strict=True):
            if math.isnan(score):
                raise GenerationFailed(
                    f"the model gave no finite distribution after prompt token {row}"
                )
        self._scores += ours

    def by_slot(self, start: int, end: int) -> tuple[Int32Array, Float32Array]:
        """The slots of the scored prompt tokens in [start, end), and their scores."""
        first = max(start, self._first)
        scores = self._scores[first - self._first : max(0, end - self._first)]
        slots = self._request.slots[first : first + len(scores)]
        return slots, np.asarray(scores, np.float32)

    def logprobs(self) -> tuple[TokenLogprob, ...]:
        """All of them, once they are in."""
        tokens = self._request.token_ids[self._first : self._request.prompt_len]
        return tuple(TokenLogprob(t, s) for t, s in zip(tokens, self._scores, strict=True))
