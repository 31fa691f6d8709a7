"""Jump-forward: the tokens of text that can only be one thing.

They are the tokenizer's own for that text. A model may cut it otherwise, so they are what is likely
to come, for the decoder to check, and never more than that. Where white space may stand it depends
on the prompt: a model that would go on with a new line, were it allowed, takes `{` and not `{"`.
What it was seen to do is guessed the next time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentrt.schema.machine.forced import forced_text

if TYPE_CHECKING:
    from agentrt.schema.machine.frames import Configuration
    from agentrt.schema.machine.machine import Machine
    from agentrt.schema.tokens.vocabulary import Vocabulary

Cuts = frozenset[int]
"""The bytes, of those that white space may follow, after which a text's tokens end."""

CUTS: Cuts = frozenset(b"[{:,")
"""What most models do, that have seen more spaced JSON than compact."""

_MOST_KEPT = 50_000


class Jumps:
    """Finds and keeps the jumps of one machine."""

    def __init__(self, machine: Machine, vocabulary: Vocabulary) -> None:
        self.machine = machine
        self.vocabulary = vocabulary
        self._known: dict[tuple[int, Cuts], tuple[int, ...]] = {}

    def of(self, configuration: Configuration, cuts: Cuts = CUTS) -> tuple[int, ...]:
        """The tokens that are likely to come next; none where the text is free at once."""
        key = configuration.number, cuts
        found = self._known.get(key)
        if found is None:
            if len(self._known) > _MOST_KEPT:
                self._known.clear()
            text, _ = forced_text(self.machine, configuration)
            pieces = [self.vocabulary.tokenise(piece) for piece in _cut(text, cuts)]
            found = self._known[key] = tuple(token for piece in pieces for token in piece)
        return found

    def learnt(self, cuts: Cuts, guess: int, chosen: int) -> Cuts:
        """The cuts to go on with when one token was likely and another was chosen."""
        tokens = self.vocabulary.tokens
        expected, came = tokens[guess] or b"", tokens[chosen] or b""
        if came and len(came) < len(expected) and expected.startswith(came) and came[-1] in CUTS:
            return cuts | {came[-1]}
        if len(expected) < len(came) and came.startswith(expected):
            return cuts - {expected[-1]}
        return cuts


def _cut(text: bytes, cuts: Cuts) -> list[bytes]:
    pieces: list[bytes] = []
    start = 0
    for end in range(1, len(text)):
        if text[end - 1] in cuts:
            pieces.append(text[start:end])
            start = end
    return [*pieces, text[start:]] if text else []
