"""When a generation ends, and how much of its text is certain."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentrt.generation import FinishReason

if TYPE_CHECKING:
    from agentrt.generation import SamplingParams


class StopChecker:
    """Watches one generation for its stop strings, stop tokens, end tokens and token limit.

    After each token, in this order: a stop string that its text completes, the token itself, the
    limit. Before min_tokens tokens only the limit counts. The text is read one character at a time:
    of several stop strings the one completed first ends it, of those completed by the same
    character the longest. So the result depends neither on how the text falls into tokens nor on
    how many arrive at once.

    `text` is what is certain: without the stop string or the stop token's own text, and while the
    generation runs without an end that a stop string might still begin with.
    """

    def __init__(
        self, params: SamplingParams, *, max_tokens: int, eos_token_ids: frozenset[int]
    ) -> None:
        self.finish_reason: FinishReason | None = None
        self.stopped_by: str | int | None = None
        self.text = ""
        self._held = ""
        self._tokens = 0
        self._min_tokens = params.min_tokens
        self._max_tokens = max_tokens
        self._stop_ids = frozenset(params.stop_token_ids)
        if not params.ignore_eos:
            self._stop_ids |= eos_token_ids
        self._stops = [_StopString(stop) for stop in params.stop]

    def __repr__(self) -> str:
        end = f"{self.finish_reason} by {self.stopped_by!r}" if self.finish_reason else "running"
        return (
            f"<StopChecker {self._tokens}/{self._max_tokens} tokens, "
            f"{len(self.text)}+{len(self._held)} characters, {end}>"
        )

    def push(self, token_id: int, text: str) -> None:
        """Takes in one token and the text it completes; afterwards `finish_reason` may be set."""
        self._tokens += 1
        if not self._stops:
            self._held += text
        elif self._read(text):
            return
        if token_id in self._stop_ids and self._tokens >= self._min_tokens:
            self._held = self._held[: len(self._held) - len(text)]
            self.finish_reason, self.stopped_by = FinishReason.STOP, token_id
        elif self._tokens >= self._max_tokens:
            self.finish_reason = FinishReason.LENGTH
        else:
            self._release()

    def close(self, text: str, reason: FinishReason | None = None) -> None:
        """Makes all of the text certain, now that the generation has ended.

        `text` is what the last tokens' bytes come to, where they are no whole character; `reason`
        is why it ended where that was decided elsewhere.
        """
        if isinstance(self.stopped_by, str) or self._read(text):
            return
        self.finish_reason = self.finish_reason or reason
        self.text += self._held
        self._held = ""

    def _read(self, text: str) -> bool:
        """Adds text; whether a stop string was completed, which ends everything."""
        if not self._stops:
            self._held += text
            return False
        for char in text:
            self._held += char
            completed = [stop for stop in self._stops if stop.advance(char)]
            if completed and self._tokens >= self._min_tokens:
                self._end_by(max(completed, key=lambda stop: len(stop.text)).text)
                return True
        return False

    def _end_by(self, stop: str) -> None:
        self.text += self._held[: len(self._held) - len(stop)]
        self._held = ""
        self.finish_reason, self.stopped_by = FinishReason.STOP, stop

    def _release(self) -> None:
        """Makes certain all but the longest end with which a stop string begins."""
        if not self._stops:
            self.text += self._held
            self._held = ""
            return
        certain = len(self._held) - max(stop.matched for stop in self._stops)
        self.text += self._held[:certain]
        self._held = self._held[certain:]


class _StopString:
    """How much of a stop string the text ends with: Knuth, Morris and Pratt (1977), step by step.

    `matched` is the length of the longest proper prefix of the string that the text ends with:
    exactly what must be held back for its sake. A character costs constant time on average,
    however long the text is.
    """

    __slots__ = ("_borders", "matched", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.matched = 0
        self._borders = _borders(text)

    def advance(self, char: str) -> bool:
        """Reads one more character; whether it completes the string."""
        matched = _extend(self.text, self._borders, self.matched, char)
        complete = matched == len(self.text)
        self.matched = self._borders[-1] if complete else matched
        return complete


def _extend(text: str, borders: list[int], matched: int, char: str) -> int:
    """The longest prefix of `text` that ends what ended with `matched` characters of it, and now
    with `char` after them."""
    while matched and text[matched] != char:
        matched = borders[matched - 1]
    return matched + 1 if text[matched] == char else 0


def _borders(text: str) -> list[int]:
    """For each prefix of `text` its longest proper prefix that is also its suffix, by length."""
    borders = [0]
    for char in text[1:]:
        borders.append(_extend(text, borders, borders[-1], char))
    return borders
