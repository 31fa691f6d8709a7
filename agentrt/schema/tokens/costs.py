"""How many tokens a text takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agentrt.schema.tokens.vocabulary import Vocabulary

TOO_DEAR = 1 << 30
_MOST_KEPT = 50_000
_LONGEST_KEPT = 400


class Costs:
    """The fewest tokens that spell a text.

    A short text is kept with all its ends, since what completes a text from one place to the next
    ends alike.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._known: dict[bytes, int] = {b"": 0}

    def of(self, text: bytes) -> int:
        """How many tokens. Raises ValueError where none spell it."""
        known = self._known
        found = known.get(text)
        if found is not None and found < TOO_DEAR:
            return found
        if len(known) > _MOST_KEPT:
            known.clear()
            known[b""] = 0
        if found is not None or len(text) > _LONGEST_KEPT:
            found = known[text] = len(self._vocabulary.segment(text))
            return found
        trie, start = self._vocabulary.trie, 0
        while text[start:] not in known:
            start += 1
        for at in range(start - 1, -1, -1):
            ends = (known[text[end:]] for end, _ in trie.prefixes(text, at))
            known[text[at:]] = min(min(ends, default=TOO_DEAR) + 1, TOO_DEAR)
        return self.of(text)
