"""Small tokenizers of the kinds that models come with, made on the spot."""

from __future__ import annotations

import json
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

TEXTS = [
    "The quick brown fox jumps over the lazy dog. Pack my box with five dozen liquor jugs!",
    "A radix tree shares what its strings have in common; the cache shares what prompts have.",
    '{"name": "Ada", "born": 1815, "tags": ["first", "programmer"]}',
    "Grüße aus Köln, naïve café, 東京は晴れです。 emoji: 🙂🙃",
] * 4
CONTROL = ["<|start|>", "<|end|>"]
TEMPLATE = (
    "{% for message in messages %}{{ '<|start|>' + message['role'] + '\n' + message['content']"
    " + '<|end|>' + '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|start|>assistant\n' }}{% endif %}"
)


def byte_level() -> Tokenizer:
    """Byte-level BPE, as GPT-2, Llama 3, Qwen and SmolLM use it; two control tokens, one word."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=500, special_tokens=CONTROL, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(TEXTS, trainer)
    tokenizer.add_tokens([AddedToken("<think>", special=False, normalized=False)])
    return tokenizer


def sentencepiece() -> Tokenizer:
    """SentencePiece BPE with byte fallback as Llama 2 has it: a normalizer puts the first space."""
    whole = _trained_with_bytes()
    whole["normalizer"] = {
        "type": "Sequence",
        "normalizers": [
            {"type": "Prepend", "prepend": "▁"},
            {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
        ],
    }
    whole["pre_tokenizer"] = None
    return Tokenizer.from_str(json.dumps(whole))


def metaspace() -> Tokenizer:
    """The same vocabulary as newer files have it: a pre-tokenizer puts the first space."""
    whole = _trained_with_bytes()
    space = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": False}
    whole["pre_tokenizer"] = space
    return Tokenizer.from_str(json.dumps(whole))


def _trained_with_bytes() -> dict[str, Any]:
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    byte_tokens = [f"<0x{byte:02X}>" for byte in range(256)]
    special = ["<unk>", *CONTROL]
    trainer = trainers.BpeTrainer(
        vocab_size=600, special_tokens=special + byte_tokens, show_progress=False
    )
    ascii_only = [text for text in TEXTS if text.isascii()]
    tokenizer.train_from_iterator(ascii_only, trainer)
    whole: dict[str, Any] = json.loads(tokenizer.to_str())
    whole["added_tokens"] = [
        token for token in whole["added_tokens"] if token["content"] in special
    ]
    whole["decoder"] = {
        "type": "Sequence",
        "decoders": [
            {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
            {"type": "ByteFallback"},
            {"type": "Fuse"},
            {"type": "Strip", "content": " ", "start": 1, "stop": 0},
        ],
    }
    return whole
