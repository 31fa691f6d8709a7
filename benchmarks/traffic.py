"""Made-up traffic of many programs at once, as prefix trees: for simulations without tokens.

A prompt is a path of segments, each with a number and a length in tokens; two prompts share what
their paths share. What a call wrote is a segment too, and the calls after it go on from there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator

Path = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Call:
    """A prompt, and the segment that will be written after it."""

    prompt: Path
    written: int

    @property
    def whole(self) -> Path:
        return (*self.prompt, self.written)


class Traffic:
    """Programs of five shapes, written by so many authors: a program begins as all of its author's
    do, and some authors are asked far more often than others (Zipf, exponent 1)."""

    def __init__(self, rng: random.Random, authors: int) -> None:
        self.lengths: list[int] = []
        self._rng = rng
        self._stems: dict[tuple[str, int], int] = {}
        self._weights = [1 / rank for rank in range(1, authors + 1)]

    def programs(self, count: int) -> Iterator[Iterator[list[Call]]]:
        """So many programs, of shapes and authors drawn at random.

        Each is waves of calls: the next begins when all of the last are done.
        """
        shapes = (self._few_shot, self._chat, self._tree, self._judge, self._agent)
        authors = self._rng.choices(range(len(self._weights)), self._weights, k=count)
        for author in authors:
            yield self._rng.choice(shapes)(author)

    def tokens(self, path: Path) -> int:
        return sum(self.lengths[segment] for segment in path)

    def _segment(self, tokens: int) -> int:
        self.lengths.append(tokens)
        return len(self.lengths) - 1

    def _stem(self, shape: str, author: int, tokens: int) -> int:
        """What all programs of a shape and an author begin with."""
        key = shape, author
        if key not in self._stems:
            self._stems[key] = self._segment(tokens)
        return self._stems[key]

    def _call(self, prompt: Path, new: int) -> Call:
        return Call(prompt, self._segment(new))

    def _few_shot(self, author: int) -> Iterator[list[Call]]:
        """16 questions after worked examples."""
        stem = self._stem("few-shot", author, 1_000)
        yield [self._call((stem, self._segment(60)), 32) for _ in range(16)]

    def _chat(self, author: int) -> Iterator[list[Call]]:
        """Four turns after a system prompt."""
        said: Path = (self._stem("chat", author, 600),)
        for _ in range(4):
            call = self._call((*said, self._segment(80)), 64)
            yield [call]
            said = call.whole

    def _tree(self, author: int) -> Iterator[list[Call]]:
        """Four thoughts after each, three levels deep."""
        level: list[Path] = [(self._stem("tree", author, 300), self._segment(60))]
        for _ in range(3):
            wave = [self._call((*path, self._segment(10)), 48) for path in level for _ in range(4)]
            yield wave
            level = [call.whole for call in wave]

    def _judge(self, author: int) -> Iterator[list[Call]]:
        """Six views of an essay, and a verdict that has read them."""
        essay = (self._stem("judge", author, 30), self._segment(1_000))
        yield [self._call((*essay, self._segment(10)), 48) for _ in range(6)]
        yield [self._call((*essay, self._segment(6 * 50)), 24)]

    def _agent(self, author: int) -> Iterator[list[Call]]:
        """Five turns of thought and observation after worked examples."""
        said: Path = (self._stem("agent", author, 1_500), self._segment(40))
        for _ in range(5):
            call = self._call(said, 32)
            yield [call]
            said = (*call.whole, self._segment(150))


def least_computed(traffic: Traffic, calls: list[Call]) -> int:
    """Prompt tokens of every distinct segment of the calls, but for those that were written."""
    asked = {segment for call in calls for segment in call.prompt}
    written = {call.written for call in calls}
    return traffic.tokens(tuple(asked - written))
