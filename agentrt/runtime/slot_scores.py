"""How likely cached prompt tokens were, so that asking again does not compute them again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from agentrt.runtime.batch import Float32Array, Int32Array, Int64Array


class SlotScores:
    """The log-probability of the token in each slot given all before it, where it is known.

    A slot in the radix tree always stands behind the same prefix, so what was found out for its
    token stays true until something else is written there.
    """

    def __init__(self, num_slots: int) -> None:
        self._scores: Float32Array = np.full(num_slots, np.nan, np.float32)
        self._is_empty = True

    def forget(self, slots: Int64Array) -> None:
        """New tokens were written to these slots."""
        if not self._is_empty:
            self._scores[slots] = np.nan

    def remember(self, slots: Int32Array, scores: Float32Array) -> None:
        self._scores[slots] = scores
        self._is_empty = False

    def known(self, slots: Int32Array) -> Float32Array:
        """The scores of the leading slots, up to the first that is not known."""
        scores = self._scores[slots]
        unknown = np.flatnonzero(np.isnan(scores))
        return scores[: unknown[0]] if len(unknown) else scores
