"""What was made lately, kept; and what several ask for at once, made once."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from agentrt.schema.limits import Limits

T = TypeVar("T")
# How long one waits for another's work before looking at one's own limits again, in seconds.
_PATIENCE = 0.05


class _Making:
    """A thing that is being made: held by who makes it, counted by who wants it."""

    __slots__ = ("lock", "wanted")

    def __init__(self) -> None:
        self.lock = Lock()
        self.wanted = 0


class Kept(Generic[T]):
    """The last `most` things made, by key. Safe to share between threads.

    `dropped` is called, in the thread that made another, with each that is no longer kept.
    """

    def __init__(self, most: int, dropped: Callable[[T], None]) -> None:
        self.most = most
        self._dropped = dropped
        self._things: OrderedDict[Hashable, T] = OrderedDict()
        self._making: dict[Hashable, _Making] = {}
        self._lock = Lock()

    def get(self, key: Hashable, make: Callable[[], T], limits: Limits) -> T:
        """The thing of that key: kept, or made by `make` in one thread while the others wait.

        Who waits does so within its own `limits`. Where the making fails, the next in line tries.
        """
        with self._lock:
            found = self._find(key)
            if found is not None:
                return found
            making = self._making.setdefault(key, _Making())
            making.wanted += 1
        try:
            while not making.lock.acquire(timeout=_PATIENCE):
                limits.spend(0)
            try:
                return self._find_or_make(key, make)
            finally:
                making.lock.release()
        finally:
            with self._lock:
                making.wanted -= 1
                if not making.wanted:
                    del self._making[key]

    def all(self) -> list[T]:
        with self._lock:
            return list(self._things.values())

    def clear(self) -> None:
        with self._lock:
            self._things.clear()

    def _find(self, key: Hashable) -> T | None:
        found = self._things.get(key)
        if found is not None:
            self._things.move_to_end(key)
        return found

    def _find_or_make(self, key: Hashable, make: Callable[[], T]) -> T:
        with self._lock:
            found = self._find(key)
        if found is not None:
            return found
        made = make()
        with self._lock:
            self._things[key] = made
            dropped = [
                self._things.popitem(last=False)[1] for _ in range(len(self._things) - self.most)
            ]
        for thing in dropped:
            self._dropped(thing)
        return made
