"""How many more slots the running requests will come to need."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from agentrt.runtime.request import Request


class GrowthEstimate:
    """Expects a share of `max_tokens - output_len`, learnt from what finished requests used.

    Reserving all that requests may use would leave most of the pool idle, reserving nothing would
    make retraction the rule. A retraction means the share was too low, so it is raised at once;
    finished requests pull it back to what is really used.
    """

    FIRST = 0.3
    TRUST = 4  # how many finished requests the first guess counts for
    MEMORY = 32  # and how many finished requests are remembered
    RAISE = 1.25  # per retraction, and a little more for a share near zero

    def __init__(self) -> None:
        self.share = self.FIRST
        self._seen = self.TRUST

    def expected(self, request: Request) -> float:
        """Output tokens still to be expected; 0 for a request that samples nothing."""
        return self.share * request.output_left

    def finished(self, request: Request) -> None:
        if request.max_tokens:
            used = min(1.0, request.output_len / request.max_tokens)
            self._seen = min(self.MEMORY, self._seen + 1)
            self.share += (used - self.share) / self._seen

    def retracted(self) -> None:
        self.share = min(1.0, self.RAISE * self.share + 0.02)


class Demand:
    """The slots a set of requests will need on top of those they hold, at the worst moment.

    Each is taken to compute what is `missing`, to grow by a slot a step for as many steps as are
    expected of it, and then to give back its tail. That prompts are given back too is left out:
    others may stand on them. Looking for the peak is the idea of "Past-Future Scheduler for LLM
    Serving under SLA Guarantees" (Gong et al., ASPLOS 2025).
    """

    def __init__(self, estimate: GrowthEstimate, running: Iterable[Request]) -> None:
        self._estimate = estimate
        self.missing = 0
        self._steps: list[float] = []
        self._tails: list[int] = []
        for request in running:
            self.add(request, request.remaining)

    def add(self, request: Request, missing: int) -> None:
        self.missing += missing
        self._steps.append(self._estimate.expected(request))
        self._tails.append(request.computed - request.tree_len)

    def peak(self) -> int:
        """The most slots that will be needed at once."""
        return self.missing + self._growth(self._steps, self._tails)

    def peak_with(self, request: Request, missing: int) -> int:
        """The peak if one more request, that holds no slots yet, were added."""
        steps = [*self._steps, self._estimate.expected(request)]
        return self.missing + missing + self._growth(steps, [*self._tails, 0])

    @staticmethod
    def _growth(steps: list[float], tails: list[int]) -> int:
        steps_left, held = np.array(steps), np.array(tails)
        longest_first = np.argsort(-steps_left)
        # When the i-th ends, those up to it have grown by its steps and those after it are gone.
        gone = held.sum() - np.cumsum(held[longest_first])
        grown = steps_left[longest_first] * np.arange(1, len(steps) + 1)
        return int(np.ceil((grown - gone).max(initial=0)))
