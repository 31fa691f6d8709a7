"""Texts tokenised piece by piece, so that what several begin with is tokenised once.

Byte-level BPE cuts a text into words before it joins anything, and no word of the patterns known
here has a letter and a space behind it. So the tokens of a text are those of its part up to such a
place, and then those of the rest. Most prompts of a program go on from another one.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

from tokenizers.models import BPE

if TYPE_CHECKING:
    import tokenizers

_SEGMENT = re.compile(r"(?s:.{64}.*?[A-Za-z](?= )|.+)")
_LONGEST_KEPT = 512  # characters: a text without a place to cut would be a piece of any length
_MOST_KEPT = 16_384

_TAIL = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_WORDS = frozenset(
    rf"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|{digits}|{_TAIL}"
    for digits in (r"\p{N}{1,3}", r"\p{N}")  # of cl100k and Llama 3, and of Qwen 2
)


class Segments:
    """The token ids of texts, by pieces of some words. Safe to share."""

    def __init__(self, backend: tokenizers.Tokenizer) -> None:
        self._backend = backend
        self._kept = lru_cache(maxsize=_MOST_KEPT)(self._tokenised)

    def encode(self, text: str) -> list[int]:
        """What the tokenizer makes of the whole text, special tokens not added."""
        ids: list[int] = []
        for segment in _SEGMENT.findall(text):
            is_kept = len(segment) <= _LONGEST_KEPT
            ids += self._kept(segment) if is_kept else self._tokenised(segment)
        return ids

    def _tokenised(self, text: str) -> list[int]:
        return self._backend.encode(text, add_special_tokens=False).ids


def falls_apart(backend: tokenizers.Tokenizer) -> bool:
    """Whether it is certain that a text's tokens end wherever a letter has a space behind it."""
    if not isinstance(backend.model, BPE) or backend.model.dropout:
        return False
    if {step["type"] for step in steps_of(backend.normalizer, "normalizers")} - {"NFC"}:
        return False
    steps = steps_of(backend.pre_tokenizer, "pretokenizers")
    cuts = [_cuts_words(step) for step in steps]
    if None in cuts or True not in cuts:
        return False
    if any(step["type"] == "ByteLevel" for step in steps[: cuts.index(True)]):
        return False  # it writes spaces as letters
    added = backend.get_added_tokens_decoder().values()
    return not any(_may_reach_over(token, backend.normalizer) for token in added)


def _may_reach_over(token: tokenizers.AddedToken, normalizer: Any) -> bool:
    """Whether an added token may be found where a letter and a space are, or hang on what is."""
    texts = {token.content}
    if token.normalized and normalizer is not None:
        texts.add(normalizer.normalize_str(token.content))
    return token.single_word or any(
        re.search("[A-Za-z] ", text) or (token.rstrip and text[-1:].isalpha()) for text in texts
    )


def _cuts_words(step: dict[str, Any]) -> bool | None:
    """Whether a pre-tokenizer cuts a text into words; None if it may do anything else."""
    if step["type"] == "Digits":
        return False
    if step["type"] == "ByteLevel" and not step["add_prefix_space"]:
        return step["use_regex"]
    if step["type"] == "Split" and step["behavior"] == "Isolated" and not step["invert"]:
        return step["pattern"].get("Regex") in _WORDS or None
    return None


def state_of(component: Any) -> dict[str, Any]:
    """A tokenizer component as the JSON object that tokenizer.json would hold for it."""
    return {} if component is None else cast("dict[str, Any]", json.loads(component.__getstate__()))


def steps_of(component: Any, inner: str) -> list[dict[str, Any]]:
    """A component's state, or those that it is a sequence of, under the name `inner`."""
    return _flat(state_of(component), inner)


def _flat(component: dict[str, Any] | None, inner: str) -> list[dict[str, Any]]:
    if not component:
        return []
    if component["type"] != "Sequence":
        return [component]
    return [step for part in component[inner] for step in _flat(part, inner)]
