"""Frames and configurations: immutable, interned values.

A frame is a state and the configuration to go on with once its value is complete. A configuration
is a set of frames: the ways in which the text so far can be read. Frames of equal state share one
set of ways to go on (a graph-structured stack), so that alternatives do not multiply with depth.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import EllipsisType


class Frame:
    """One way to read the text. `following` caches what each byte leads to."""

    __slots__ = ("following", "number", "parents", "state")

    def __init__(self, number: int, state: object, parents: Configuration | None) -> None:
        self.number = number
        self.state = state
        self.parents = parents
        self.following: dict[int, tuple[Frame, ...]] = {}

    def __repr__(self) -> str:
        return f"<Frame {self.number} {self.state!r}>"


class Configuration:
    """A set of frames. `following` caches what each byte leads to (None: not allowed).

    `tape` is the text since the outermost array was opened whose items must differ, if one is open.
    `closing` is kept by `Closing`: what completes the text, None for nothing short, ... not known.
    """

    __slots__ = ("closing", "following", "frames", "number", "tape")

    def __init__(self, number: int, frames: tuple[Frame, ...], tape: bytes | None) -> None:
        self.number = number
        self.frames = frames
        self.tape = tape
        self.following: dict[int, Configuration | None] = {}
        self.closing: bytes | EllipsisType | None = ...

    def __repr__(self) -> str:
        return f"<Configuration {self.number} of {len(self.frames)} frames>"


class Store:
    """Makes frames and configurations, equal ones once."""

    def __init__(self) -> None:
        self._frames: dict[tuple[object, int], Frame] = {}
        self._sets: dict[tuple[object, ...], Configuration] = {}
        self._numbers = count()

    def frame(self, state: object, parents: Configuration | None) -> Frame:
        key = (state, -1 if parents is None else parents.number)
        found = self._frames.get(key)
        if found is None:
            found = self._frames[key] = Frame(next(self._numbers), state, parents)
        return found

    def configuration(self, frames: Iterable[Frame], tape: bytes | None = None) -> Configuration:
        """The set of these frames, those of equal state joined into one."""
        listed = sorted(set(frames), key=_number)
        if len(listed) > 1:
            listed = self._joined(listed)
        key = (tape, *[f.number for f in listed])
        found = self._sets.get(key)
        if found is None:
            found = self._sets[key] = Configuration(next(self._numbers), tuple(listed), tape)
        return found

    def _joined(self, frames: list[Frame]) -> list[Frame]:
        by_state: dict[object, list[Frame]] = {}
        for frame in frames:
            by_state.setdefault(frame.state, []).append(frame)
        if len(by_state) == len(frames):
            return frames
        out: list[Frame] = []
        for state, group in by_state.items():
            if len(group) == 1:
                out.append(group[0])
                continue
            ways = [f for member in group if member.parents for f in member.parents.frames]
            out.append(self.frame(state, self.configuration(ways)))
        return sorted(out, key=_number)

    @property
    def size(self) -> int:
        return len(self._frames) + len(self._sets)

    @property
    def places(self) -> int:
        """How many configurations there are."""
        return len(self._sets)

    def forget(self) -> None:
        """Drops what is interned. Frames in use stay good: equal ones may then exist twice, which
        costs time, not correctness."""
        self._frames.clear()
        self._sets.clear()


def _number(frame: Frame) -> int:
    return frame.number
