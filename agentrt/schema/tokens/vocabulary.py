"""A vocabulary as bytes: what text each token stands for."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from agentrt.errors import InvalidRequest
from agentrt.schema.tokens.trie import Trie

_OPENING = re.compile(rb'[\[{"]')
Encode = Callable[[str], Sequence[int]]


class Vocabulary:
    """The bytes of each token (None: a special token, which never stands for text).

    `eos_ids` end a text. `encode` tokenises a text the way the model expects; without it, forced
    text is cut into the longest tokens.
    """

    def __init__(
        self,
        tokens: Sequence[bytes | None],
        eos_ids: Iterable[int],
        *,
        encode: Encode | None = None,
    ) -> None:
        self.tokens: list[bytes | None] = [t or None for t in tokens]
        self.eos_ids = frozenset(eos_ids)
        self.encode = encode
        if any(not 0 <= i < len(self.tokens) for i in self.eos_ids):
            raise InvalidRequest(
                f"end tokens {sorted(self.eos_ids)} are not all within a vocabulary of "
                f"{len(self.tokens)}"
            )
        for i in self.eos_ids:
            self.tokens[i] = None

    @property
    def size(self) -> int:
        return len(self.tokens)

    @property
    def words(self) -> int:
        """The length of a packed mask."""
        return (self.size + 31) // 32

    @cached_property
    def trie(self) -> Trie:
        return Trie(self.tokens)

    def prepare(self) -> None:
        """Makes what the masks of every schema need, once: a moment in which nobody should wait."""
        self.trie.prepare()
        _ = self.openings

    @cached_property
    def openings(self) -> tuple[np.ndarray, np.ndarray]:
        """How many JSON values and keys each token opens at most, int16 [size]: outside of a
        string, and within one, which it has to leave for that."""
        outside, within = np.zeros((2, self.size), dtype=np.int16)
        for i, token in enumerate(self.tokens):
            if token is not None and _OPENING.search(token):
                outside[i] = _openings(token)
                within[i] = _openings(token.partition(b'"')[2])
        return outside, within

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the tokens' bytes and the end tokens."""
        digest = hashlib.sha256()
        for token in self.tokens:
            digest.update(b"\xff" if token is None else len(token).to_bytes(4, "little") + token)
        digest.update(repr(sorted(self.eos_ids)).encode())
        return digest.hexdigest()

    @property
    def identity(self) -> tuple[str, bool]:
        """What is compiled for one vocabulary serves all others of this identity."""
        return self.fingerprint, self.encode is not None

    def __reduce__(self) -> tuple[object, ...]:
        return Vocabulary, (self.tokens, self.eos_ids)

    def spelled(self, token_ids: Iterable[int]) -> bytes:
        """What tokens stand for together; special ones for nothing."""
        return b"".join(self.tokens[i] or b"" for i in token_ids)

    def segment(self, text: bytes) -> list[int]:
        """The fewest tokens that spell a text. Raises ValueError where none do."""
        trie, size = self.trie, len(text)
        best: list[tuple[int, int, int]] = [(0, -1, -1)]
        unreached = (1 << 60, -1, -1)
        best += [unreached] * size
        for start in range(size):
            count = best[start][0]
            if count >= 1 << 60:
                continue
            for end, token in trie.prefixes(text, start):
                if count + 1 < best[end][0]:
                    best[end] = (count + 1, start, token)
        if best[size][0] >= 1 << 60:
            raise ValueError(f"no tokens of the vocabulary spell {text!r}")
        out: list[int] = []
        at = size
        while at:
            _, at, token = best[at]
            out.append(token)
        return out[::-1]

    def tokenise(self, text: bytes) -> list[int]:
        """The tokens the model expects for a text: the tokenizer's own, where they spell it."""
        if self.encode is not None:
            try:
                ids = list(self.encode(text.decode()))
            except UnicodeDecodeError:
                return self.segment(text)
            if self.spelled(ids) == text:
                return ids
        return self.segment(text)


def _openings(text: bytes) -> int:
    return len(_OPENING.findall(text))


def from_tokenizer(tokenizer: Any, eos_ids: Iterable[int] | None = None) -> Vocabulary:
    """The vocabulary of a `tokenizers.Tokenizer`, or of what holds one as `backend_tokenizer`.

    Byte-level BPE, and SentencePiece-style vocabularies with byte fallback. `eos_ids` default to
    the holder's `eos_token_id`.
    """
    backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
    described = json.loads(backend.to_str())
    special = {t["id"] for t in described.get("added_tokens", ()) if t.get("special", True)}
    added = {t["id"]: t["content"] for t in described.get("added_tokens", ())}
    vocabulary: dict[str, int] = backend.get_vocab(with_added_tokens=True)
    size = max(vocabulary.values(), default=-1) + 1
    tokens: list[bytes | None] = [None] * size
    as_bytes = _byte_level if _is_byte_level(described) else _sentence_piece
    for text, number in vocabulary.items():
        if number in special:
            continue
        tokens[number] = added[number].encode() if number in added else as_bytes(text)
    if eos_ids is None:
        own = getattr(tokenizer, "eos_token_id", None)
        eos_ids = [own] if isinstance(own, int) else []
    return Vocabulary(
        tokens, eos_ids, encode=lambda text: backend.encode(text, add_special_tokens=False).ids
    )


def _is_byte_level(described: dict[str, Any]) -> bool:
    parts = json.dumps([described.get("pre_tokenizer"), described.get("decoder")])
    return '"ByteLevel"' in parts


def _sentence_piece(text: str) -> bytes:
    if len(text) == 6 and text.startswith("<0x") and text.endswith(">"):
        return bytes([int(text[3:5], 16)])
    return text.replace("\u2581", " ").encode()


def _byte_alphabet() -> dict[str, int]:
    """The printable stand-ins that byte-level BPE writes bytes as (GPT-2)."""
    shown = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [b for b in range(256) if b not in shown]
    out = {chr(b): b for b in shown}
    out.update({chr(0x100 + i): b for i, b in enumerate(hidden)})
    return out


_BYTES = _byte_alphabet()


def _byte_level(text: str) -> bytes:
    try:
        return bytes(_BYTES[c] for c in text)
    except KeyError:
        return text.encode()
