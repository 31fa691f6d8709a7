"""Keeping the control tokens of a template apart from their look-alikes in a user's text."""

from __future__ import annotations

import re
import secrets
from typing import TYPE_CHECKING

from tokenizers import AddedToken

from agentrt.errors import UnsupportedModel

if TYPE_CHECKING:
    from collections.abc import Iterable

    import tokenizers


class SpecialTokens:
    """Makes a tokenizer read special tokens as text, unless they are written under an alias.

    The tokenizer stops recognising special tokens, and every one gets an alias that no text can
    contain by chance or intent, with the original's matching rules. A text whose real control
    tokens are replaced by their aliases is then tokenised as one whole, so the result is what the
    original tokenizer gives, while every special token left in it is ordinary text.
    """

    def __init__(self, backend: tokenizers.Tokenizer) -> None:
        added = backend.get_added_tokens_decoder()
        tokens = {i: token for i, token in added.items() if token.special and token.content}
        self.ids = {token.content: i for i, token in tokens.items()}
        nonce = secrets.token_hex(8)
        self._alias = {text: f"[[{nonce}.{i}]]" for text, i in self.ids.items()}
        self._guard = {text: f"[[{nonce}-{i}]]" for text, i in self.ids.items()}
        self._text = {guard: text for text, guard in self._guard.items()}
        self._pattern = re.compile(_alternatives(tokens.values()))
        self._guards = re.compile(rf"\[\[{nonce}-\d+\]\]")
        self.alias_ids = self._teach(backend, tokens)

    def find(self, text: str) -> int | None:
        """The id of the first special token written in `text`, if any."""
        match = self._pattern.search(text)
        return self.ids[match[0]] if match else None

    def guard(self, text: str) -> str:
        """The text with special tokens under stand-ins that `marked` turns back into plain text."""
        return self._pattern.sub(lambda match: self._guard[match[0]], text)

    def marked(self, text: str) -> str:
        """The text to tokenise: special tokens as aliases, guarded ones as the text they were."""
        aliased = self._pattern.sub(lambda match: self._alias[match[0]], text)
        return self.unguarded(aliased)

    def unguarded(self, text: str) -> str:
        """The text as a person reads it, stand-ins undone."""
        return self._guards.sub(lambda match: self._text.get(match[0], match[0]), text)

    def _teach(
        self, backend: tokenizers.Tokenizer, tokens: dict[int, AddedToken]
    ) -> dict[int, int]:
        backend.encode_special_tokens = True
        before = backend.get_vocab_size(with_added_tokens=True)
        if tokens and backend.id_to_token(before) is not None:
            raise UnsupportedModel(
                f"the tokenizer's {before} token ids are not contiguous: id {before} is taken"
            )
        for token in tokens.values():
            # Found before the text is normalised, whatever the original: a normalizer that puts a
            # space before the token's text would have it found there only.
            rules = {name: getattr(token, name) for name in ("single_word", "lstrip", "rstrip")}
            alias = AddedToken(self._alias[token.content], special=False, normalized=False, **rules)
            backend.add_tokens([alias])
        return {_id(backend, self._alias[text]): i for text, i in self.ids.items()}


def _id(backend: tokenizers.Tokenizer, token: str) -> int:
    found = backend.token_to_id(token)
    assert found is not None
    return found


def _alternatives(tokens: Iterable[AddedToken]) -> str:
    """A pattern for any of the tokens, the longest first, as the tokenizer's matcher prefers."""
    longest_first = sorted(tokens, key=lambda token: -len(token.content))
    words = [
        rf"(?<!\w){re.escape(token.content)}(?!\w)"
        if token.single_word
        else re.escape(token.content)
        for token in longest_first
    ]
    return "|".join(words) or r"(?!)"
