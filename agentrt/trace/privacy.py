"""What of a span may be stored: everything, everything after redaction, or no text at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, cast

from agentrt.trace.attributes import CONTENT, STRUCTURE
from agentrt.trace.plain import are_numbers, is_plain, plain

if TYPE_CHECKING:
    from collections.abc import Callable

    from agentrt.trace.spans import Value

REDACTION_FAILED = "[redaction failed]"
"""Stands for a text that the hook raised on: what was not looked at is not stored."""


class Privacy:
    """Lets through of every attribute what may be stored of it."""

    def __init__(self, *, content: bool = True, redact: Callable[[str], str] | None = None) -> None:
        self.content = content
        self._redact = redact

    @property
    def redacts(self) -> bool:
        return self._redact is not None

    def text(self, text: str) -> str:
        """A text after redaction."""
        if self._redact is None:
            return text
        try:
            redacted = self._redact(text)
        except Exception:  # the hook is the user's; a run is not to fail of it
            return REDACTION_FAILED
        return redacted if type(redacted) is str else REDACTION_FAILED

    def passes(self, text: str) -> bool:
        """Whether a text may be stored as it is."""
        return self.content and (self._redact is None or self.text(text) == text)

    def value(self, key: str, value: Value) -> Value:
        """What may be shown of one attribute; None where that is nothing."""
        return self.attributes({key: value}).get(key)

    def attributes(self, given: Mapping[str, Value]) -> dict[str, Value]:
        """A fresh dict of what may be stored."""
        if not self.content:
            return {k: v for k, v in given.items() if _is_structure(k, v)}
        if self._redact is None:
            return dict(given)
        # Plain first: what an object says of itself is a text like any other.
        return {self.text(str(key)): self._redacted(plain(value)) for key, value in given.items()}

    def _redacted(self, value: Value) -> Value:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.text(key): self._redacted(inner) for key, inner in value.items()}
        if isinstance(value, Sequence):
            if are_numbers(value):
                return value
            return [self._redacted(inner) for inner in cast("Sequence[Value]", value)]
        return value


def _is_structure(key: str, value: Value) -> bool:
    """Whether an attribute says nothing of what was written: the known ones that do not, and of
    those that somebody else set, the numbers."""
    if key in STRUCTURE:
        return is_plain(value)
    return key not in CONTENT and are_numbers((value,))
