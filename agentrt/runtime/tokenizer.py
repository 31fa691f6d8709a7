"""Text to token ids and back, and what each token is in bytes. No transformers, no torch."""

from __future__ import annotations

import codecs
import json
import re
from functools import cached_property
from typing import TYPE_CHECKING, Any

import tokenizers

from agentrt.errors import InvalidRequest, UnsupportedModel
from agentrt.runtime.models.files import reading
from agentrt.runtime.segments import Segments, falls_apart, state_of, steps_of
from agentrt.runtime.special import SpecialTokens

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from agentrt.runtime.models import ModelFiles

BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")


class Tokenizer:
    """A model's tokenizer, from its tokenizer.json.

    Byte-level BPE and SentencePiece-style vocabularies (word marks, byte fallback) are understood;
    any other kind raises UnsupportedModel. Safe to share between threads.
    """

    def __init__(self, backend: tokenizers.Tokenizer, *, eos_token_ids: Iterable[int] = ()) -> None:
        """Takes `backend` over: it must not be used for anything else. Its padding and truncation,
        which a file may keep from the training, are left off."""
        backend.no_padding()
        backend.no_truncation()
        self._spelling = _Spelling(backend)
        self._size = backend.get_vocab_size(with_added_tokens=True)
        self._special = SpecialTokens(backend)
        self._backend = backend
        self._segments = Segments(backend) if falls_apart(backend) else None
        self._adds_special = backend.num_special_tokens_to_add(False) > 0
        self._special_ids = frozenset(self._special.ids.values())
        self._bytes: dict[int, bytes] = {}
        self.eos_token_ids = frozenset(eos_token_ids)

    @classmethod
    def from_file(cls, path: Path, *, eos_token_ids: Iterable[int] = ()) -> Tokenizer:
        """The tokenizer of a tokenizer.json file."""
        return cls(tokenizers.Tokenizer.from_file(str(path)), eos_token_ids=eos_token_ids)

    @classmethod
    def from_files(cls, files: ModelFiles) -> Tokenizer:
        """The tokenizer of a resolved model, with the model's end tokens. Raises ModelCorrupt."""
        with reading(files.tokenizer):
            return cls.from_file(files.tokenizer, eos_token_ids=files.eos_token_ids)

    @property
    def vocab_size(self) -> int:
        """Number of token ids, special ones included; the model's own may be padded beyond it."""
        return self._size

    @property
    def special(self) -> SpecialTokens:
        """The control tokens and their handling in rendered text."""
        return self._special

    @property
    def special_tokens(self) -> dict[str, int]:
        """Ids of the control tokens by their text."""
        return dict(self._special.ids)

    def encode(
        self,
        text: str,
        *,
        add_special: bool = False,
        parse_special: bool = False,
        continues: bool = False,
    ) -> list[int]:
        """Token ids of a text.

        Special tokens in it stay text unless `parse_special`. `add_special` adds what the model
        expects around a bare text (a begin token). `continues` is for text that follows other text:
        no space is put before it by tokenizers that do so at the start. Raises InvalidRequest for
        text that is not valid Unicode.
        """
        if parse_special:
            text = self._special.marked(text)
        try:
            ids = self._ids(text, add_special=add_special, continues=continues)
        except (UnicodeError, TypeError) as error:
            raise _bad_text(text) from error
        if not parse_special:
            return ids
        real = self._special.alias_ids
        return [real.get(i, i) for i in ids]

    def _ids(self, text: str, *, add_special: bool, continues: bool) -> list[int]:
        if self._segments is not None and not (add_special and self._adds_special):
            return self._segments.encode(text)
        backend = self._continuing if continues else self._backend
        return backend.encode(text, add_special_tokens=add_special).ids

    def decode(
        self, ids: Sequence[int], *, skip_special: bool = True, continues: bool = False
    ) -> str:
        """The text of token ids; bytes that are no UTF-8 become U+FFFD.

        With `continues` the ids follow others, and a leading space that the start of a text would
        lose is kept.
        """
        stream = self.stream(skip_special=skip_special, continues=continues)
        return "".join([stream.push(i) for i in ids]) + stream.finish()

    def stream(self, *, skip_special: bool = True, continues: bool = True) -> TokenStream:
        """A detokeniser for ids that come one by one; see `decode` for the options."""
        strip = self._spelling.strips_leading_space and not continues
        return TokenStream(self, skip_special=skip_special, strip_leading_space=strip)

    def token_bytes(self, token_id: int, *, skip_special: bool = False) -> bytes:
        """What a token adds to a text, as UTF-8 bytes or a part of them; b"" for no token."""
        if token_id in self._special_ids:
            return b"" if skip_special else (self._backend.id_to_token(token_id) or "").encode()
        known = self._bytes.get(token_id)
        if known is None:
            token = self._backend.id_to_token(token_id) if 0 <= token_id < self._size else None
            known = self._bytes[token_id] = self._spelling.to_bytes(token) if token else b""
        return known

    def vocabulary(self) -> list[bytes | None]:
        """Bytes of every token, by id; None for special and end tokens and ids without a token."""
        out: list[bytes | None] = [None] * self._size
        silent = self._special_ids | self.eos_token_ids
        for token, i in self._backend.get_vocab(with_added_tokens=True).items():
            if i < self._size and i not in silent:
                out[i] = self._spelling.to_bytes(token)
        return out

    @cached_property
    def _continuing(self) -> tokenizers.Tokenizer:
        """The same tokenizer without the space that it puts before the start of a text."""
        parts = (self._backend.normalizer, self._backend.pre_tokenizer)
        if all(_without_prefix(state := state_of(part)) == state for part in parts):
            return self._backend
        whole = json.loads(self._backend.to_str())
        for part in ("normalizer", "pre_tokenizer"):
            whole[part] = _without_prefix(whole[part])
        backend = tokenizers.Tokenizer.from_str(json.dumps(whole))
        backend.encode_special_tokens = True
        return backend


class TokenStream:
    """Gives out the text of a growing token sequence as soon as it is certain.

    The pieces joined, `finish()` included, are the decoded text. A UTF-8 sequence is held back
    until it is complete.
    """

    def __init__(
        self, tokenizer: Tokenizer, *, skip_special: bool, strip_leading_space: bool
    ) -> None:
        self._tokenizer = tokenizer
        self._skip_special = skip_special
        self._strip = strip_leading_space
        self._bytes = bytearray()
        self._ends: list[int] = []
        self._given = 0  # bytes whose text has been given out

    def push(self, token_id: int) -> str:
        """Adds a token; returns the text that became certain, often ""."""
        self._bytes += self._tokenizer.token_bytes(token_id, skip_special=self._skip_special)
        self._ends.append(len(self._bytes))
        return self._give(final=False)

    def rollback(self, tokens: int) -> None:
        """Drops the last tokens. What comes next must repeat their text as far as it was given out,
        and is not given out again."""
        del self._ends[len(self._ends) - tokens :]
        del self._bytes[self._ends[-1] if self._ends else 0 :]

    def finish(self) -> str:
        """The text still held back, an incomplete sequence as U+FFFD."""
        return self._give(final=True)

    def _give(self, *, final: bool) -> str:
        if self._strip and self._given == 0 and self._bytes.startswith(b" "):
            self._given = 1
        text, used = _utf8(self._bytes[self._given :], final=final)
        self._given += used
        return text


class _Spelling:
    """How a tokenizer writes bytes as token strings, read from its decoder."""

    def __init__(self, backend: tokenizers.Tokenizer) -> None:
        steps = {step["type"]: step for step in steps_of(backend.decoder, "decoders")}
        self._byte_level = "ByteLevel" in steps
        unknown = set(steps) - {"Replace", "ByteFallback", "Fuse", "Strip", "Metaspace"}
        if not self._byte_level and (unknown or not steps):
            raise UnsupportedModel(
                "the tokenizer's decoder is neither byte-level nor SentencePiece-style: "
                f"{', '.join(steps) or 'it has none'}"
            )
        self._byte_tokens = "ByteFallback" in steps
        mark = steps.get("Metaspace", {}).get("replacement")
        replace = steps.get("Replace")
        self._mark = mark or (replace["pattern"].get("String") if replace else None)
        self._space = replace["content"] if replace and not mark else " "
        scheme = steps.get("Metaspace", {"prepend_scheme": "never"}).get("prepend_scheme", "always")
        self.strips_leading_space = not self._byte_level and (
            steps.get("Strip", {}).get("start", 0) > 0 or scheme != "never"
        )

    def to_bytes(self, token: str) -> bytes:
        """The UTF-8 bytes, or part of a sequence of them, that a token string stands for."""
        if self._byte_level:
            try:
                return token.translate(BYTE_LEVEL).encode("latin-1")
            except UnicodeEncodeError:
                return token.encode()  # an added token, written as it is
        if self._byte_tokens and (byte := BYTE_TOKEN.fullmatch(token)):
            return bytes([int(byte[1], 16)])
        return (token.replace(self._mark, self._space) if self._mark else token).encode()


def _byte_level_table() -> dict[int, int]:
    """Byte-level BPE's alphabet (GPT-2): printable bytes as themselves, the rest from U+0100 on.

    Maps code points of token strings to bytes. The others that Latin-1 could still encode are sent
    beyond it, so that a token which is not written in the alphabet is noticed.
    """
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    rest = [byte for byte in range(256) if byte not in printable]
    moved = {0x100 + i: byte for i, byte in enumerate(rest)}
    return {byte: byte for byte in printable} | moved | dict.fromkeys(rest, 0xFFFD)


BYTE_LEVEL = _byte_level_table()


def _utf8(data: bytes | bytearray, *, final: bool) -> tuple[str, int]:
    return codecs.utf_8_decode(data, "replace", final)


def _without_prefix(component: dict[str, Any] | None) -> dict[str, Any] | None:
    """A normalizer or pre-tokenizer that puts no space before the start of a text."""
    if not component:
        return component
    if component["type"] == "Sequence":
        inner = "normalizers" if "normalizers" in component else "pretokenizers"
        parts = [_without_prefix(part) for part in component[inner]]
        return {**component, inner: [part for part in parts if part]}
    if component["type"] == "Prepend":
        return None
    if component["type"] == "Metaspace":
        return {**component, "prepend_scheme": "never"}
    if component["type"] == "ByteLevel":
        return {**component, "add_prefix_space": False}
    return component


def _bad_text(text: str) -> InvalidRequest:
    at = next((i for i, c in enumerate(text) if 0xD800 <= ord(c) < 0xE000), None)
    if at is None:
        return InvalidRequest(f"a text is wanted, {type(text).__name__} was given")
    return InvalidRequest(
        f"the text is not valid Unicode: character {at} is the lone surrogate {text[at]!r}; "
        "decode bytes with errors='replace' before they become a prompt"
    )
