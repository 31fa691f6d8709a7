"""How many more tokens the running requests may come to hold."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agentrt.runtime.request import Request


class GrowthEstimate:
    """Expects a share of `max_tokens - output_len`, learnt from what finished requests used.

    Reserving all that requests may use would leave most of the pool idle, reserving nothing would
    make retraction the rule. A retraction means the share was too low, so it is raised at once;
    finished requests pull it back to what is really used.
    """

    FIRST = 0.3
    WEIGHT = 1 / 32  # of one finished request
    RAISE = 1.25  # per retraction, and a little more for a share near zero

    def __init__(self) -> None:
        self.share = self.FIRST

    def expected(self, request: Request) -> int:
        """Output tokens still to be expected; 0 for a request that samples nothing."""
        return math.ceil(self.share * at_most(request))

    def finished(self, request: Request) -> None:
        if request.max_tokens and request.score_from is None:
            used = min(1.0, request.output_len / request.max_tokens)
            self.share += self.WEIGHT * (used - self.share)

    def retracted(self) -> None:
        self.share = min(1.0, self.RAISE * self.share + 0.02)


def at_most(request: Request) -> int:
    """The most output tokens that may still come."""
    if request.score_from is not None:
        return 0
    return max(0, request.max_tokens - request.output_len)
