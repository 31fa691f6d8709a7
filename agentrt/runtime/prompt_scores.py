"""The log-probabilities that one request wants after its prompt's tokens, as they are found out."""

from __future__ import annotations

import math
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from agentrt.errors import GenerationFailed
from agentrt.generation import TokenLogprob

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from agentrt.runtime.batch import Float32Array, Int32Array, Int64Array
    from agentrt.runtime.request import Request


class PromptScores:
    """Scores of what may stand at `first`, what may stand at `first` + 1, ..., in order.

    The row of one token says how likely each next one is, so what may stand at p is scored by row
    p - 1. That is the prompt's own token or, where `targets` are given, each of
    `targets[p - first]`.
    """

    def __init__(
        self, request: Request, first: int, targets: Sequence[Sequence[int]] | None = None
    ) -> None:
        if targets is None:
            targets = [(token,) for token in request.token_ids[first : request.prompt_len]]
        counts = np.asarray([len(each) for each in targets], np.int64)
        self._request = request
        # One entry for each score.
        self._rows = np.repeat(np.arange(first - 1, first - 1 + len(counts)), counts)
        self._targets = np.fromiter(chain.from_iterable(targets), np.int64, len(self._rows))
        self._scores: list[float] = []
        self._expect()

    @property
    def next(self) -> int:
        """The first place that is not scored yet."""
        return self._request.prompt_len if self.are_in else int(self._rows[len(self._scores)]) + 1

    @property
    def are_in(self) -> bool:
        return len(self._scores) == len(self._rows)

    def recall(self, scores: Sequence[float]) -> None:
        """Takes the scores of the prompt's next tokens from an earlier request, as far as nothing
        else was to be scored in their places; their rows are not needed.

        For a request that is not scheduled yet.
        """
        rows = self._rows
        alone = np.append(rows[1:] != rows[:-1], True) & (rows == rows[:1] + np.arange(len(rows)))
        others = np.flatnonzero(~(alone & self._own()))
        self._scores.extend(scores[: others[0] if len(others) else None])
        self._expect()
        if self.are_in and not self._request.max_tokens:
            self._request.cached_tokens = self._request.prompt_len

    def _expect(self) -> None:
        self._request.score_from = None if self.are_in else self.next

    def _own(self) -> npt.NDArray[np.bool_]:
        """Which entries are of the prompt's own tokens."""
        places = self._rows + 1
        inside = places < self._request.prompt_len
        tokens = self._request.tokens(0, self._request.prompt_len)
        return inside & (tokens[np.where(inside, places, 0)] == self._targets)

    def rows(self, end: int) -> Int64Array:
        """The rows before `end` with scores that are not in yet, once for each of them."""
        done = len(self._scores)
        return self._rows[done : max(done, int(np.searchsorted(self._rows, end)))]

    def targets(self, rows: Int64Array) -> Int64Array:
        """The tokens that those rows score."""
        return self._targets[len(self._scores) :][: len(rows)]

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
        places = self._rows + 1
        found = self._own() & (start <= places) & (places < end)
        found[len(self._scores) :] = False
        scores = np.asarray(self._scores, np.float32)
        return self._request.slots[places[found]], scores[np.flatnonzero(found)]

    def logprobs(self) -> tuple[TokenLogprob, ...]:
        """All of them, once they are in."""
        return tuple(map(TokenLogprob, self._targets.tolist(), self._scores))
