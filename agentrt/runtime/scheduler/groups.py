"""Which neighbours in a batch are worth attending together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from agentrt.runtime.batch import PrefixGroup

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(slots=True)
class _Open:
    """A run of sequences that share at least `length`, from `start` on, still growing."""

    start: int
    length: int
    saved: int = 0  # by the best groups inside it
    groups: tuple[PrefixGroup, ...] = ()


def best_groups(shares: Sequence[int], *, min_length: int) -> tuple[PrefixGroup, ...]:
    """The disjoint groups that save the most KV reads, in order.

    shares[i] is how long a prefix sequences i - 1 and i share (shares[0] is not read). A group of n
    that shares `length` saves (n - 1) * length reads; the candidates are nested, as the tree is, so
    each is either better whole or better as the best of its parts. O(n).
    """
    stack = [_Open(0, 0)]
    for place in range(1, len(shares) + 1):
        share = shares[place] if place < len(shares) else 0
        start, saved, groups = place - 1, 0, ()
        while stack[-1].length > share:
            run = stack.pop()
            inner_saved, inner = run.saved + saved, run.groups + groups
            start, whole = run.start, (place - run.start - 1) * run.length
            saved, groups = inner_saved, inner
            if whole > inner_saved:
                saved, groups = whole, (PrefixGroup(run.start, place, run.length),)
        if stack[-1].length < share and share >= min_length:
            stack.append(_Open(start, share))
        stack[-1].saved += saved
        stack[-1].groups += groups
    return stack[0].groups
