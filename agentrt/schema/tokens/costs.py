"""How many tokens a text takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentrt.schema.cache import Cache

if TYPE_CHECKING:
    from agentrt.schema.tokens.vocabulary import Vocabulary

TOO_DEAR = 1 << 30
_MOST_KEPT = 50_000
_LONGEST_KEPT = 400
_MOST_PLACES = 20_000


class Costs:
    """The fewest tokens that spell a text.

    A short text is kept with all its ends, since what completes a text from one place to the next
    ends alike; of long ones the last.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._known: dict[bytes, int] = {b"": 0}
        self._long, self._by_length = b"", [0]
        self._sizes: Cache[bytes, tuple[int, ...]] = Cache(_MOST_PLACES)

    def of(self, text: bytes) -> int:
        """How many tokens. Raises ValueError where none spell it."""
        found = self._known.get(text)
        if found is None:
            found = self._found(text) if len(text) <= _LONGEST_KEPT else self._found_long(text)
        if found >= TOO_DEAR:
            raise ValueError(f"no tokens of the vocabulary spell {text!r:.80}")
        return found

    def _found(self, text: bytes) -> int:
        known, trie, start = self._known, self._vocabulary.trie, 0
        if len(known) > _MOST_KEPT:
            known.clear()
            known[b""] = 0
        while text[start:] not in known:
            start += 1
        for at in range(start - 1, -1, -1):
            ends = (known[text[end:]] for end, _ in trie.prefixes(text, at))
            known[text[at:]] = min(min(ends, default=TOO_DEAR) + 1, TOO_DEAR)
        return known[text]

    def _found_long(self, text: bytes) -> int:
        """By those of its ends that are ends of the last long text as well."""
        costs = self._by_length[: _shared_end(self._long, text) + 1]
        trie, size = self._vocabulary.trie, len(text)
        longest = trie.longest
        for at in range(size - len(costs), -1, -1):
            # what may come there is much the same everywhere in what goes on alike
            ahead = text[at : at + longest]
            sizes = self._sizes.get(ahead)
            if sizes is None:
                found = tuple([end for end, _ in trie.prefixes(ahead, 0)])
                sizes = self._sizes.keep(ahead, found)
            left = size - at
            least = min([costs[left - length] for length in sizes], default=TOO_DEAR)
            costs.append(min(least + 1, TOO_DEAR))
        self._long, self._by_length = text, costs
        return costs[size]


def _shared_end(a: bytes, b: bytes) -> int:
    """How many bytes at their ends are the same."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        size = (low + high + 1) // 2
        low, high = (size, high) if a.endswith(b[-size:]) else (low, size - 1)
    return low
