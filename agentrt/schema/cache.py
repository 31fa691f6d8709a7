"""A dictionary of what can be worked out again, that does not grow without bound."""

from __future__ import annotations

from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Cache(dict[K, V]):
    """Forgets all it holds rather than hold more than `most`.

    What is asked for again and again is soon back, and nothing has to be noted when it is.
    """

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most

    def keep(self, key: K, value: V) -> V:
        """Keeps a value, and gives it back."""
        if len(self) >= self.most:
            self.clear()
        self[key] = value
        return value
