"""Which of the waiting requests goes next, priorities and starvation apart.

Both prefix policies are of "SGLang: Efficient Execution of Structured Language Model Programs"
(Zheng et al., arXiv 2312.07104, section 3): visiting the tree of a batch's prompts depth-first
computes each distinct prefix once if the cache holds the longest request (theorem 3.1), and taking
the longest cached prefix first is such a visit.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np

from agentrt.runtime.scheduler.waiting import WaitingQueue, earliest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agentrt.runtime.batch import Int64Array
    from agentrt.runtime.scheduler.waiting import Choose


class SchedulePolicy(StrEnum):
    """How to choose among requests of one priority."""

    LPM = "lpm"
    """Longest cached prefix first; first come first among equals."""
    DFS_WEIGHT = "dfs-weight"
    """Depth-first over the prompts' prefix tree: stay below the deepest prefix shared with the last
    request admitted; from there down, cached branches first, then those that most wait below."""
    FCFS = "fcfs"
    """First come, first served."""


def longest_prefix(queue: WaitingQueue, rows: Int64Array) -> int:
    match = queue.match[rows]
    return earliest(queue, rows[match == match.max()])


def depth_first(queue: WaitingQueue, rows: Int64Array) -> int:
    rows, shares, common = _in_prefix_order(queue, rows)
    near = np.flatnonzero(common == common.max())  # one run: they share a prefix
    lo, hi = int(near[0]), int(near[-1]) + 1
    while hi - lo > 1:
        lo, hi = _heaviest_branch(queue, rows, shares, lo, hi)
    return int(rows[lo])


def _in_prefix_order(
    queue: WaitingQueue, rows: Int64Array
) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Rows in prefix order, what each shares with the one before and with the last admitted."""
    order = queue.order
    wanted = np.zeros(len(queue.arrival), dtype=np.bool_)
    wanted[rows] = True
    places = np.flatnonzero(wanted[order.ids])
    shares = np.zeros(len(places), dtype=np.int64)
    if len(places) > 1:
        # The smallest share over each gap (places[i - 1], places[i]].
        gaps = order.shares[: places[-1] + 1]
        shares[1:] = np.minimum.reduceat(gaps, places[:-1] + 1)
    common = order.common(queue.last_key, 0, len(order))
    return order.ids[places], shares, common[places]


def _heaviest_branch(
    queue: WaitingQueue, rows: Int64Array, shares: Int64Array, lo: int, hi: int
) -> tuple[int, int]:
    """Of the branches that rows [lo, hi) part into, the [lo, hi) of the one to visit first."""
    inner = shares[lo + 1 : hi]
    depth = inner.min()
    starts = np.concatenate([[0], 1 + np.flatnonzero(inner == depth)])
    weights = np.diff(starts, append=hi - lo)
    cached = np.maximum.reduceat(queue.match[rows[lo:hi]], starts) > depth
    arrivals = np.minimum.reduceat(queue.arrival[rows[lo:hi]], starts)
    first = np.lexsort((arrivals, -weights, ~cached))[0]
    start = lo + int(starts[first])
    return start, start + int(weights[first])


CHOOSE: Mapping[SchedulePolicy, Choose] = {
    SchedulePolicy.LPM: longest_prefix,
    SchedulePolicy.DFS_WEIGHT: depth_first,
    SchedulePolicy.FCFS: earliest,
}
