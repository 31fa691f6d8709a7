"""Jump-forward: the tokens of text that can only be one thing, as far as they are certain.

Forced text is followed by text that the model chooses. Where a vocabulary token could bridge from
the one into the other, how the end of the forced text is cut into tokens is the model's choice as
well, so the jump stops before the first byte that such a token could take along. It also stops
before a token that goes on beyond a place where white space often stands, such as `{"`: a model
that would go on with a new line, were it allowed, takes the shorter `{`, and what it writes later
depends on that. Tokens already chosen are left as they are: the model chose them with the same
mask, jump or no jump.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentrt.schema.machine.forced import forced_text, gaps

if TYPE_CHECKING:
    from agentrt.schema.machine.frames import Configuration
    from agentrt.schema.machine.machine import Machine
    from agentrt.schema.tokens.vocabulary import Vocabulary


class Jumps:
    """Finds and keeps the jumps of one machine."""

    def __init__(self, machine: Machine, vocabulary: Vocabulary) -> None:
        self.machine = machine
        self.vocabulary = vocabulary
        self._known: dict[int, tuple[int, ...]] = {}

    def of(self, configuration: Configuration) -> tuple[int, ...]:
        """The tokens that are certain to come next; none where the model chooses at once."""
        found = self._known.get(configuration.number)
        if found is None:
            if len(self._known) > 50_000:
                self._known.clear()
            found = self._known[configuration.number] = self._tokens(configuration)
        return found

    def _tokens(self, configuration: Configuration) -> tuple[int, ...]:
        text, end = forced_text(self.machine, configuration)
        if not text:
            return ()
        certain = self._certain(text, end)
        breaks = gaps(self.machine, configuration, text)
        out: list[int] = []
        start = 0
        for token in self.vocabulary.tokenise(text):
            end_at = start + len(self.vocabulary.tokens[token] or b"")
            if end_at > certain or not breaks.isdisjoint(range(start + 1, end_at)):
                break
            out.append(token)
            start = end_at
        return tuple(out)

    def _certain(self, text: bytes, end: Configuration) -> int:
        """How much of the text no token can take along beyond its end."""
        trie = self.vocabulary.trie
        for start in range(max(0, len(text) - trie.longest), len(text)):
            node = trie.find(text[start:])
            if node is not None and any(
                self.machine.step(end, byte) is not None for byte in node.children
            ):
                return start
        return len(text)
