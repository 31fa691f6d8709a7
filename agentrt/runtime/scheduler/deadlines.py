"""Who has run out of time."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

from agentrt.runtime.request import RequestStatus

if TYPE_CHECKING:
    from agentrt.runtime.request import Request


class Deadlines:
    """A heap of requests by deadline; finished ones are swept once they are the larger part."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Request]] = []
        self._sweep_at = 64

    def add(self, request: Request) -> None:
        if request.deadline is None:
            return
        heapq.heappush(self._heap, (request.deadline, request.arrival, request))
        if len(self._heap) > self._sweep_at:
            self._heap = [entry for entry in self._heap if _is_live(entry[2])]
            heapq.heapify(self._heap)
            self._sweep_at = 2 * len(self._heap) + 64

    def pop_due(self, now: float) -> list[Request]:
        """Takes out the unfinished requests whose deadline is `now` or earlier."""
        due: list[Request] = []
        while self._heap and self._heap[0][0] <= now:
            request = heapq.heappop(self._heap)[2]
            if _is_live(request):
                due.append(request)
        return due


def _is_live(request: Request) -> bool:
    return request.status is not RequestStatus.FINISHED
