"""Texts tokenised by pieces, held to the library's own answer for the whole."""

from __future__ import annotations

import random
import re

import pytest
import tokenizers
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, trainers

from agentrt.runtime import segments
from agentrt.runtime.models import resolve
from agentrt.runtime.segments import falls_apart
from agentrt.runtime.tokenizer import Tokenizer
from tests.runtime import made

LLAMA, QWEN = sorted(segments._WORDS, key=len, reverse=True)
WORDS = (
    "the a I and river's we'll don'T x1 12 3456 3.14 e.g. U.S. naïve Straße 東京 を 🙂 é "
    "e\u0301 \u0308 l' 're can't-do a_b __init__ http://a.b/c?d=e ( ) {} [] -- ... <think> </s> "
    "<|im_start|> user\u00a0name"
)
PIECES = WORDS.split(" ")
GAPS = [" ", " ", " ", "  ", "   ", "\n", "\n\n", " \n", "\t", "\r\n", "", "\u2003", " \n  \n"]


def text_of(rng: random.Random, length: int) -> str:
    return "".join(rng.choice(PIECES) + rng.choice(GAPS) for _ in range(length))


def trained(pre_tokenizer: pre_tokenizers.PreTokenizer, *added: AddedToken) -> tokenizers.Tokenizer:
    """A small byte-level BPE, learnt from texts of the kind that it is to cut."""
    backend = tokenizers.Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizer
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=500, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    backend.train_from_iterator([text_of(random.Random(i), 200) for i in range(20)], trainer)
    backend.add_tokens(list(added))
    return backend


def by_bytes(*, prefix: bool = False) -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.ByteLevel(add_prefix_space=prefix, use_regex=True)


def by_pattern(pattern: str) -> pre_tokenizers.PreTokenizer:
    split = pre_tokenizers.Split(tokenizers.Regex(pattern), "isolated")
    plain = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    return pre_tokenizers.Sequence([split, plain])


def by_digits() -> pre_tokenizers.PreTokenizer:
    digits = pre_tokenizers.Digits(individual_digits=True)
    return pre_tokenizers.Sequence([digits, by_bytes()])


APART = {
    "gpt2": lambda: trained(by_bytes()),
    "digits": lambda: trained(by_digits()),
    "llama": lambda: trained(by_pattern(LLAMA)),
    "qwen": lambda: trained(by_pattern(QWEN), AddedToken("<think>", special=False)),
    "stripping": lambda: trained(by_bytes(), AddedToken("<think>", rstrip=True, lstrip=True)),
}


@pytest.fixture(params=sorted(APART))
def backend(request: pytest.FixtureRequest) -> tokenizers.Tokenizer:
    return APART[request.param]()


@pytest.mark.parametrize("least", [1, 20, 256])
def test_pieces_have_the_tokens_of_the_whole(
    backend: tokenizers.Tokenizer, least: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert falls_apart(backend)
    other = re.sub(r"\{\d+\}", f"{{{least}}}", segments._SEGMENT.pattern)
    assert f"{{{least}}}" in other
    monkeypatch.setattr(segments, "_SEGMENT", re.compile(other))
    ours = Tokenizer(tokenizers.Tokenizer.from_str(backend.to_str()))
    rng = random.Random(least)
    cut = 0
    for _ in range(100):
        text = text_of(rng, 150)
        cut += len(segments._SEGMENT.findall(text)) > 1
        whole = backend.encode(text, add_special_tokens=False).ids
        assert ours.encode(text) == ours.encode(text, continues=True) == whole
    assert cut > 90


@pytest.mark.model
def test_the_provided_tokenizer_falls_apart() -> None:
    files = resolve(None)
    plain = tokenizers.Tokenizer.from_file(str(files.tokenizer))
    plain.encode_special_tokens = True
    ours = Tokenizer.from_files(files)
    assert ours._segments is not None
    rng = random.Random(5)
    for _ in range(100):
        text = text_of(rng, 400)
        assert ours.encode(text, add_special=True) == plain.encode(text).ids


def test_what_was_tokenised_before_is_not_again(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    tokenised = segments.Segments._tokenised

    def noted(self: segments.Segments, text: str) -> list[int]:
        asked.append(text)
        return tokenised(self, text)

    monkeypatch.setattr(segments.Segments, "_tokenised", noted)
    ours = Tokenizer(trained(by_bytes()))
    begun = "A river runs by the town. " * 200
    ours.encode(begun)
    assert len("".join(asked)) < 1000  # its pieces are alike: each is asked for once
    asked.clear()
    ours.encode(begun + "It is wide.")
    assert len("".join(asked)) < 400


def test_a_text_without_a_place_to_cut_is_one_piece_and_not_kept() -> None:
    text = "0123456789" * 1000
    assert segments._SEGMENT.findall(text) == [text]
    ours = segments.Segments(trained(by_bytes()))
    assert ours.encode(text) == ours.encode(text)
    assert ours._kept.cache_info().currsize == 0


@pytest.mark.parametrize("kind", ["padding", "fixed padding", "truncation"])
def test_what_a_file_says_of_padding_and_truncation_is_of_the_training(kind: str) -> None:
    plain, told = trained(by_bytes()), trained(by_bytes())
    if kind == "truncation":
        told.enable_truncation(16)
    else:
        told.enable_padding(length=32 if kind == "fixed padding" else None, pad_to_multiple_of=8)
    text = "A river runs by the town and is wide. " * 9
    assert Tokenizer(told).encode(text) == plain.encode(text).ids


def by_bytes_first() -> pre_tokenizers.PreTokenizer:
    plain = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    return pre_tokenizers.Sequence(
        [plain, pre_tokenizers.Split(tokenizers.Regex(QWEN), "isolated")]
    )


OTHERS = {
    "spaces spelt as letters before words are cut": lambda: trained(by_bytes_first()),
    "a token that is a word": lambda: trained(by_bytes(), AddedToken(" river", single_word=True)),
    "a space before": lambda: trained(by_bytes(prefix=True)),
    "an unknown pattern": lambda: trained(by_pattern(r"\p{L}+ \p{L}+|.")),
    "no words at all": lambda: trained(pre_tokenizers.ByteLevel(False, use_regex=False)),
    "a token with a space": lambda: trained(by_bytes(), AddedToken("the river", special=False)),
    "a token that takes spaces": lambda: trained(by_bytes(), AddedToken("river", rstrip=True)),
    "sentencepiece": made.sentencepiece,
    "metaspace": made.metaspace,
}


@pytest.mark.parametrize("kind", sorted(OTHERS))
def test_of_others_it_is_not_certain(kind: str) -> None:
    assert not falls_apart(OTHERS[kind]())


def test_lower_cased_texts_are_left_whole() -> None:
    backend = trained(by_bytes())
    backend.normalizer = normalizers.Lowercase()
    assert not falls_apart(backend)
    backend.normalizer = normalizers.NFC()
    assert falls_apart(backend)
    backend.add_tokens([AddedToken("\u212a river", normalized=True)])  # K, once it is normalized
    assert not falls_apart(backend)
