"""Places in the structure of a program: what seeds are derived from.

A place is the way there (which fork, which branch of which `gather`) and how many seeds were drawn
at it. Branches run in any order, and each finds the same place every time.
"""

from __future__ import annotations

import hashlib
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator

_here: ContextVar[Place | None] = ContextVar("agentrt_place", default=None)  # whose code runs


class Place:
    """`seed` is the one that the seeds drawn here come from; None draws none."""

    def __init__(self, seed: int | None = None, path: tuple[int, ...] = ()) -> None:
        self.seed = seed
        self.path = path
        self._drawn = 0
        self._branchings = 0

    def next_seed(self) -> int | None:
        """A seed of its own for what is asked next."""
        if self.seed is None:
            return None
        place = repr((self.seed, self.path, self._drawn)).encode()
        self._drawn += 1
        return int.from_bytes(hashlib.blake2b(place, digest_size=8).digest(), "little") >> 1

    def branches(self, count: int) -> list[Place]:
        """The places of that many branches."""
        self._branchings += 1
        return [Place(self.seed, (*self.path, self._branchings, index)) for index in range(count)]

    @contextmanager
    def entered(self) -> Generator[None]:
        """What runs inside is here."""
        token = _here.set(self)
        try:
            yield
        finally:
            _here.reset(token)


def here() -> Place:
    """Where the code of this task is; a place without a seed outside any program."""
    return _here.get() or Place()
