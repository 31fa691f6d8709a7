"""What the scheduler decides for one step."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from agentrt.runtime.batch import PrefixGroup
    from agentrt.runtime.request import Request


class Work(NamedTuple):
    """Compute tokens [start, end) of a request, whose slots are assigned."""

    request: Request
    start: int
    end: int

    @property
    def reaches_target(self) -> bool:
        """After this a token is sampled, or all scores are in. Ask before appending tokens."""
        return self.end == self.request.target


class Decision(NamedTuple):
    """One step: what to compute, in batch order, and who left.

    Work on tokens that others read in this same step comes first; the rest is in depth-first order
    of the tree, so that requests which share a prefix are neighbours. `groups` are the disjoint
    runs of those whose shared prefix saves the most when it is attended once.

    Nobody in `expired` or `starved` holds anything any more; the retracted wait again.
    """

    work: tuple[Work, ...] = ()
    groups: tuple[PrefixGroup, ...] = ()
    retracted: tuple[Request, ...] = ()
    expired: tuple[Request, ...] = ()
    """Their deadline passed, while waiting or running."""
    starved: tuple[Request, ...] = ()
    """They had the pool to themselves, no deadline to wait until, and what is pinned leaves too
    little of it."""

    @property
    def num_tokens(self) -> int:
        return sum([end - start for _, start, end in self.work])
