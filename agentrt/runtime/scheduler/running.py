"""The running requests, in the order they were admitted and in the order of the tree."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentrt.runtime.scheduler.groups import best_groups
from agentrt.runtime.scheduler.prefixes import PrefixOrder, encode

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from agentrt.runtime.batch import PrefixGroup
    from agentrt.runtime.request import Request
    from agentrt.runtime.scheduler.decision import Work

    Arranged = tuple[tuple[Work, ...], tuple[PrefixGroup, ...]]


class RunningSet:
    """Requests that hold slots, and the batch order of their work.

    Requests of one namespace whose tokens agree up to n, and whose part in the tree reaches n, read
    the same slots up to n: so prefix order stands in for the order of the tree.
    """

    def __init__(self, *, min_group_tokens: int) -> None:
        self._min_group_tokens = min_group_tokens
        self._requests: dict[int, tuple[Request, bytes]] = {}  # by arrival, as admitted
        self._order = PrefixOrder()
        # The last arrangement, while it holds: until somebody comes, goes or computes a prompt.
        self._arrivals: list[int] = []
        self._groups: tuple[PrefixGroup, ...] | None = None

    def __len__(self) -> int:
        return len(self._requests)

    def __iter__(self) -> Iterator[Request]:
        """As admitted."""
        return (request for request, _ in self._requests.values())

    def add(self, request: Request) -> None:
        key = encode(request.tokens(0, len(request.token_ids)), request.namespace)
        self._requests[request.arrival] = request, key
        self._order.add(key, request.arrival)
        self._groups = None

    def remove(self, request: Request) -> None:
        _, key = self._requests.pop(request.arrival)
        self._order.remove(key, request.arrival)
        self._groups = None

    def forget_arrangement(self) -> None:
        """To be called when what a request has in the tree changes outside of its work."""
        self._groups = None

    def arrange(self, work: Iterable[Work]) -> Arranged:
        """The work in batch order, and the groups worth attending together: see `Decision`."""
        todo = {w.request.arrival: w for w in work}
        only_output = all(start >= request.prompt_len for request, start, _ in todo.values())
        if self._groups is not None and only_output and len(todo) == len(self._arrivals):
            return tuple([todo[arrival] for arrival in self._arrivals]), self._groups
        ordered, groups = _arranged(
            self._order.ids.tolist(), self._order.shares.tolist(), todo, self._min_group_tokens
        )
        self._arrivals = [w.request.arrival for w in ordered]
        self._groups = groups if only_output else None
        return ordered, groups


def _arranged(
    arrivals: Sequence[int], shares: Sequence[int], todo: Mapping[int, Work], min_length: int
) -> Arranged:
    """`arrivals` in prefix order; shares[i]: tokens that arrivals i - 1 and i have in common."""
    in_order = [todo.get(arrival) for arrival in arrivals]
    supply = {a for place, a in enumerate(arrivals) if _supplies(place, in_order, shares)}
    suppliers = [work for arrival, work in todo.items() if arrival in supply]  # as scheduled
    rest: list[Work] = []
    visible = [0] * len(suppliers)  # how long a prefix each can see together with the one before
    gap = 0
    for work, share in zip(in_order, shares, strict=True):
        gap = min(gap, share)
        if work is None or work.request.arrival in supply:
            continue
        own = min(work.start, work.request.tree_len)
        visible.append(min(gap, own))
        rest.append(work)
        gap = own
    return (*suppliers, *rest), best_groups(visible, min_length=min_length)


def _supplies(place: int, in_order: Sequence[Work | None], shares: Sequence[int]) -> bool:
    """Whether others read, in this step, tokens that the work at `place` puts in the tree."""
    work = in_order[place]
    if work is None or work.start >= work.request.tree_len:
        return False
    after = ((i, shares[i]) for i in range(place + 1, len(in_order)))
    before = ((i, shares[i + 1]) for i in range(place - 1, -1, -1))
    for side in (after, before):
        for other, share in side:
            if share <= work.start:
                break
            reader = in_order[other]
            if reader is not None and reader.request.tree_len > work.start:
                return True
    return False
