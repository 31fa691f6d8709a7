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
        self._prefix_at: dict[int, int] = {-1: 0}  # by slot; one number for each distinct prefix
        self._asked: set[int] = set()  # prefixes that a prompt wanted computed
        self._written: set[int] = set()  # prefixes that decoding made

    def __call__(self, batch: Batch) -> None:
        layout = batch.layout
        self.computed += layout.num_tokens
        for slot in layout.out_slots.tolist():
            self._prefix_at.pop(slot, None)
        decoding = {sample.row for sample in batch.samples if sample.history}
        rows, kv = layout.q_indptr.tolist(), layout.kv_indptr.tolist()
        tokens = layout.token_ids.tolist()

        def start(i: int) -> int:
            return kv[i + 1] - kv[i] - (rows[i + 1] - rows[i])

        for i in sorted(range(len(rows) - 1), key=start):  # what one stands on is seen before it
            new = tokens[rows[i] : rows[i + 1]]
            slots = [-1, *layout.kv_slots[kv[i] : kv[i + 1]].tolist()][-len(new) - 1 :]
            for before, slot, token in zip(slots, slots[1:], new, strict=False):
                self._prefix_at[slot] = hash((self._prefix_at[before], token))
            prefixes = [self._prefix_at[slot] for slot in slots[1:]]
            if rows[i + 1] - 1 in decoding:
                self._decoded += len(new)
                self._written.update(prefixes)
            else:
                self.asked_again += prefixes[0] in self._asked or prefixes[0] in self._written
                self._asked.update(prefixes)

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
