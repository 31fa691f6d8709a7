"""Which neighbours in a batch are worth attending together."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from agentrt.runtime.batch import PrefixGroup

if TYPE_CHECKING:
    from collections.abc import Sequence


def best_groups(shares: Sequence[int], *, min_length: int) -> tuple[PrefixGroup, ...]:
    """The disjoint groups that save the most KV reads, in order.

    shares[i] is how long a prefix sequences i - 1 and i share (shares[0] is not read), so a run
    shares the least of those within it; n that share `length` save (n - 1) * length reads. Solved
    exactly, for each run of long enough shares on its own.
    """
    groups: list[PrefixGroup] = []
    start = 0
    for stop in range(1, len(shares) + 1):
        if stop == len(shares) or shares[stop] < min_length:
            if stop - start > 1:
                groups += _best_cut([0, *shares[start + 1 : stop], 0], start)
            start = stop
    return tuple(groups)


def _best_cut(shares: list[int], offset: int) -> list[PrefixGroup]:
    """Cuts n sequences, the first being number `offset`, where it saves most.

    shares has n + 1 entries, one for each place a cut may be. Within a stretch of equal shares a
    cut can be moved, to one side or the other, without loss: only the ends of stretches are tried,
    of which there are as many as the tree has branches. O(branches) numpy calls of O(branches).
    """
    last = len(shares) - 1
    cuts = [i for i in range(1, last) if not shares[i - 1] == shares[i] == shares[i + 1]]
    cuts = [0, *cuts, last]
    longest = max(shares)
    places = np.array(cuts)
    lengths = np.zeros(len(cuts), dtype=np.int64)  # of a group from each cut to the one at hand
    saved = np.zeros(len(cuts), dtype=np.int64)  # before each cut, at best
    begins = list(range(-1, last))  # the cut before, at best
    for at in range(1, len(cuts)):
        before, here = cuts[at - 1], cuts[at]
        np.minimum(lengths[: at - 1], min(shares[before:here]), out=lengths[: at - 1])
        lengths[at - 1] = min(shares[before + 1 : here], default=longest)  # one alone: any will do
        together = saved[:at] + (here - 1 - places[:at]) * lengths[:at]
        begins[at] = int(together.argmax())
        saved[at] = together[begins[at]]
    groups: list[PrefixGroup] = []
    at = len(cuts) - 1
    while at:
        start, stop = cuts[begins[at]], cuts[at]
        if stop - start > 1:
            length = min(shares[start + 1 : stop])
            groups.append(PrefixGroup(offset + start, offset + stop, length))
        at = begins[at]
    return groups[::-1]
