"""How many more slots the running requests will come to need."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentrt.runtime.batch import Int64Array
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

    def __init__(self, estimate: GrowthEstimate, running: Sequence[Request]) -> None:
        self._estimate = estimate
        self.missing = sum([r.remaining for r in running])
        self._left = np.array([r.output_left for r in running], dtype=np.int64)
        self._tails = np.array([r.computed - r.tree_len for r in running], dtype=np.int64)

    def add(self, request: Request) -> None:
        """Counts in a request that has just been let in."""
        self.missing += request.remaining
        self._left = np.append(self._left, request.output_left)
        self._tails = np.append(self._tails, 0)

    def peak(self) -> int:
        """The most slots that will be needed at once."""
        return self.missing + self._growth(self._left, self._tails)

    def peak_with(self, request: Request, missing: int) -> int:
        """The peak if one more request, that holds no slots yet, were added."""
        left = np.append(self._left, request.output_left)
        return self.missing + missing + self._growth(left, np.append(self._tails, 0))

    def _growth(self, left: Int64Array, tails: Int64Array) -> int:
        longest_first = np.argsort(-left)
        steps = self._estimate.share * left[longest_first]
        # When the i-th ends, those up to it have grown by its steps and those after it are gone.
        gone = tails.sum() - np.cumsum(tails[longest_first])
        grown = steps * np.arange(1, len(steps) + 1)
        return int(np.ceil((grown - gone).max(initial=0)))
