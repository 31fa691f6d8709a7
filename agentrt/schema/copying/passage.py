"""A text that values are copied from."""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

from agentrt.schema.copying.mentions import dates_in, numbers_in
from agentrt.schema.copying.spans import as_one_line, span_automaton
from agentrt.schema.values import numbers, strings
from agentrt.schema.values.strings import Strings

if TYPE_CHECKING:
    from agentrt.schema.regex.dfa import Dfa
    from agentrt.schema.values.numbers import Numbers

LONGEST_SPAN = 80
"""The characters of a span where the schema has no `maxLength`: greedy copying comes to an end."""


class Passage:
    """What a text has to be copied; worked out when it is first asked for, and kept."""

    def __init__(self, text: str) -> None:
        self.line = as_one_line(text)
        self._automata: dict[tuple[int, int], Dfa] = {}

    def spans(self, least: int = 0, most: int | None = None) -> Strings:
        """Its spans, from word boundary to word boundary, of `least` to `most` characters."""
        least = max(least, 1)
        hi = max(LONGEST_SPAN, 2 * least) if most is None else most
        key = least, max(hi, LONGEST_SPAN)  # shorter bounds share one automaton
        if key not in self._automata:
            self._automata[key] = span_automaton(self.line, least=least, most=key[1])
        return Strings(self._automata[key], 0, hi)

    @cached_property
    def numbers(self) -> Numbers:
        """The numbers that it mentions."""
        return numbers.of(numbers_in(self.line))

    @cached_property
    def dates(self) -> Strings:
        """The days that it names in full, as ISO 8601."""
        return strings.words(dates_in(self.line))


@lru_cache(maxsize=8)
def passage_of(text: str) -> Passage:
    """The passage of a text; those lately asked for are kept, for the fields of one schema."""
    return Passage(text)
