"""What a run could not have computed less of, to hold against what it computed.

The lower bound of the RadixAttention paper (Zheng et al. 2023, arXiv:2312.07104, theorem 3.1): of
prompts, every distinct prefix once, however many requests have it. Every token that was decoded
counts as often as it was: two samples that happen to agree are still two samples.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agentrt.runtime.batch import Batch


class Bound:
    """An `on_step` that follows what stands in each slot, and keeps every distinct prefix."""

    def __init__(self) -> None:
        self.computed = 0
        self.asked_again = 0  # the last known token of a prompt, to sample or score from it
        self._decoded = 0
        self._slots: dict[int, int] = {}
        self._asked: set[int] = set()  # prefixes that a prompt wanted computed
        self._written: set[int] = set()  # prefixes that decoding made

    def __call__(self, batch: Batch) -> None:
        layout = batch.layout
        self.computed += layout.num_tokens
        self._slots |= zip(layout.out_slots.tolist(), layout.token_ids.tolist(), strict=True)
        decoding = {sample.row for sample in batch.samples if sample.history}
        rows, kv = layout.q_indptr.tolist(), layout.kv_indptr.tolist()
        for i in range(len(rows) - 1):
            new = rows[i + 1] - rows[i]
            prefixes = self._prefixes(layout.kv_slots[kv[i] : kv[i + 1]].tolist())[-new:]
            if rows[i + 1] - 1 in decoding:
                self._decoded += new
                self._written.update(prefixes)
            else:
                known = prefixes[0] in self._asked.union(self._written)
                self.asked_again += known
                self._asked.update(prefixes)

    def _prefixes(self, slots: list[int]) -> list[int]:
        """One number for every prefix of the sequence that stands in `slots`."""
        found = [0]
        for slot in slots:
            found.append(hash((found[-1], self._slots[slot])))
        return found[1:]

    @property
    def least(self) -> int:
        """Tokens that had to be computed, whatever the order of the requests."""
        return self._decoded + len(self._asked - self._written)

    @property
    def waste(self) -> int:
        """Tokens computed twice that need not have been; 0 is perfect."""
        return self.computed - self.least - self.asked_again

    @property
    def ratio(self) -> float:
        """Computed tokens by the least there could be, `asked_again` counted as computed."""
        return self.computed / self.least
