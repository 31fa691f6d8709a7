"""Names that are not taken, for the members that an object must still have."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from agentrt.schema.values.strings import Strings


class NewNames:
    """The names of a class that begin so, which leads to this state of the automaton: the next that
    is not taken, again and again while more are, without going through those before it anew."""

    def __init__(self, names: Strings, begun: str = "", state: int = 0) -> None:
        self._some = some_names(names, begun, state)
        self._read = 0
        self._last: str | None = None

    def free(self, taken: Collection[str]) -> str | None:
        """One not taken, None where none is found; what was taken before has to be still."""
        # a name may come twice, as one of its kind and as one of all
        most = 2 * len(taken) + 64
        while self._last is None or self._last in taken:
            if self._read == most:
                return None
            self._last = next(self._some, None)
            if self._last is None:
                return None
            self._read += 1
        return self._last


def some_names(names: Strings, begun: str, state: int) -> Iterator[str]:
    """Names of a class that begin so, short ones first, as many as are asked for."""
    if names.dfa is None:
        for number in count():
            name = (begun + _lettered(number)).ljust(names.lo, "a")
            if names.contains(name):
                yield name
            elif names.hi is not None and len(name) > names.hi:
                return
        return
    frontier: list[tuple[int, str]] = [(state, begun)]
    samples = names.dfa.alphabet.samples()
    while frontier:
        following: list[tuple[int, str]] = []
        for place, text in frontier:
            if names.contains(text):
                yield text
            for cls, target in enumerate(names.dfa.rows[place]):
                if target in names.dfa.live and len(following) < 4096:
                    following.append((target, text + _printable(names, cls, samples[cls])))
        frontier = following
    # of finitely many, one of each kind may not be enough
    words = filter(names.contains, names.dfa.words())
    yield from (name for name in words if name.startswith(begun))


def _printable(names: Strings, cls: int, sample: int) -> str:
    assert names.dfa is not None
    symbols = names.dfa.alphabet
    for c in "a1A_-. ":
        if symbols.class_of(ord(c)) == cls:
            return c
    return chr(sample)


def _lettered(number: int) -> str:
    out = ""
    while number:
        number, digit = divmod(number - 1, 26)
        out = chr(0x61 + digit) + out
    return out
