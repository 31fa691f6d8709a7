"""The waiting requests: who goes next, and how much of each is cached, without asking the cache."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from agentrt.errors import IntegrityError
from agentrt.runtime.scheduler.prefixes import PrefixOrder, encode, prefix

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from agentrt.runtime.batch import Int64Array
    from agentrt.runtime.request import Request

    Choose = Callable[["WaitingQueue", Int64Array], int]

_NOBODY = np.iinfo(np.int64).min


class WaitingQueue:
    """Waiting requests as rows of a table, and their prompts in prefix order.

    `match` is how much of each row's prompt is cached. When the cache grows by one sequence, the
    rows it helps are a run of the prefix order and are raised at once, so a match is never too low.
    When the cache evicts, nothing is done: a match may be too high until its row is chosen, looked
    up, and everything that shares the lost prefix is lowered with it. So a step costs a few passes
    over flat arrays, and one lookup for each request that is admitted or found to have lost.

    Rows are ints that stay a request's while it waits; rows nobody has read as priority -2**63.
    """

    def __init__(self, max_passed_over: int) -> None:
        self.order = PrefixOrder()
        self.last_key = b""
        """The key of the last request admitted: where a depth-first walk goes on from."""
        self._max_passed_over = max_passed_over
        self._table: Int64Array = np.full((6, 64), _NOBODY, dtype=np.int64)
        self._free_rows = list(range(63, -1, -1))
        self._at: dict[int, tuple[Request, bytes]] = {}
        self._row: dict[Request, int] = {}

    @property
    def priority(self) -> Int64Array:
        return self._table[0]

    @property
    def match(self) -> Int64Array:
        return self._table[1]

    @property
    def arrival(self) -> Int64Array:
        return self._table[2]

    @property
    def epoch(self) -> Int64Array:
        return self._table[3]

    @property
    def passed_over(self) -> Int64Array:
        return self._table[4]

    @property
    def at_front(self) -> Int64Array:
        """1 for the retracted."""
        return self._table[5]

    def __len__(self) -> int:
        return len(self._row)

    def __iter__(self) -> Iterator[Request]:
        """The waiting requests, no particular order."""
        return iter(self._row)

    def add(self, request: Request, cached: int, *, at_front: bool = False) -> None:
        """Enters a request of which the first `cached` tokens are cached now."""
        row = self._new_row()
        key = encode(request.tokens(0, request.match_limit), request.namespace)
        self._table[:, row] = (
            request.priority,
            cached,
            request.arrival,
            request.epoch,
            request.passed_over,
            at_front,
        )
        self._at[row] = request, key
        self._row[request] = row
        self.order.add(key, row)

    def remove(self, request: Request) -> bytes:
        """Takes a request out and returns the key of the tokens it may match."""
        row = self._row.pop(request)
        _, key = self._at.pop(row)
        request.passed_over = int(self.passed_over[row])
        self.order.remove(key, row)
        self._table[:, row] = _NOBODY
        self._free_rows.append(row)
        return key

    def admit(self, request: Request) -> None:
        """Takes out a request that is let in, and counts for whom it is one more to go ahead."""
        self.last_key = self.remove(request)
        if not self._row:
            return
        # Whoever came between the same two schedule calls came together: none of them is late.
        passed = (self.epoch < request.epoch) & (self.priority >= request.priority)
        self.passed_over[passed] += 1

    def choose(self, choose: Choose, *, above: int | None = None) -> Request | None:
        """Who goes next: of the highest priority (if it is more than `above`), by the policy.

        Except that the retracted and those passed over too often go before the rest of their
        priority, first come first.
        """
        if not self._row:
            return None
        if len(self._row) == 1:
            (only,) = self._row
            return only if above is None or only.priority > above else None
        priority = self.priority
        highest = int(priority.max())
        if above is not None and highest <= above:
            return None
        rows = np.flatnonzero(priority == highest)
        urgent = (self.passed_over >= self._max_passed_over) | (self.at_front > 0)
        due = rows[urgent[rows]]
        row = earliest(self, due) if due.size else choose(self, rows)
        return self._at[row][0]

    def lower(self, request: Request, cached: int) -> bool:
        """Corrects a match that was too high, for all who share the prefix; whether it was."""
        row = self._row[request]
        if cached >= self.match[row]:
            return False
        # Nobody with these cached + 1 tokens can have more of them cached.
        lo, hi = self.order.span(prefix(self._at[row][1], cached + 1))
        self.match[self.order.ids[lo:hi]] = cached
        return True

    def grew(self, request: Request, before: int, now: int) -> None:
        """The first `now` tokens of a request are cached; its first `before` were already."""
        if not self._row:
            return
        key = encode(request.tokens(0, now), request.namespace)
        lo, hi = self.order.span(prefix(key, before + 1))
        if lo < hi:
            rows = self.order.ids[lo:hi]
            self.match[rows] = np.maximum(self.match[rows], self.order.common(key, lo, hi))

    def check_integrity(self) -> None:
        """Raises IntegrityError unless the table, the rows and the order name the same requests."""
        rows = sorted(self._at)
        if rows != sorted(self._row.values()) or rows != sorted(self.order.ids.tolist()):
            raise IntegrityError(f"waiting rows {rows}, in order {sorted(self.order.ids)}")
        if rows != np.flatnonzero(self.priority > _NOBODY).tolist():
            raise IntegrityError(f"waiting rows {rows} are not those of the table")

    def _new_row(self) -> int:
        if not self._free_rows:
            size = self._table.shape[1]
            self._table = np.hstack([self._table, np.full_like(self._table, _NOBODY)])
            self._free_rows = list(range(2 * size - 1, size - 1, -1))
        return self._free_rows.pop()


def earliest(queue: WaitingQueue, rows: Int64Array) -> int:
    """Of some rows, the one that arrived first."""
    return int(rows[queue.arrival[rows].argmin()])
