from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, decoders, models
from tokenizers import Tokenizer as Backend

from agentrt.errors import InvalidRequest, UnsupportedModel
from agentrt.runtime.tokenizer import Tokenizer
from tests.runtime import made

MAKERS = {
    "byte-level": made.byte_level,
    "sentencepiece": made.sentencepiece,
    "metaspace": made.metaspace,
}
PLAIN = {name: make() for name, make in MAKERS.items()}  # the library alone, to compare with
OURS = {name: Tokenizer(make(), eos_token_ids=[1]) for name, make in MAKERS.items()}
KINDS = sorted(MAKERS)
TEXTS = [
    "Hello world",
    " two  spaces  and\ttabs\n\n",
    "naïve 東京 🙂🙃 e\u0301",
    "\x00\x7f",
    "<0x41> and <think> stay",
    "",
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", TEXTS)
def test_encodes_and_decodes_as_the_library_does(kind: str, text: str) -> None:
    ids = PLAIN[kind].encode(text).ids
    assert OURS[kind].encode(text) == ids
    assert OURS[kind].decode(ids) == PLAIN[kind].decode(ids)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=60, deadline=None)
@given(text=st.text(max_size=40))
def test_round_trip_of_any_text(kind: str, text: str) -> None:
    ours = OURS[kind]
    assert ours.decode(ours.encode(text)) == PLAIN[kind].decode(PLAIN[kind].encode(text).ids)
    # a word mark in a text cannot be told from the space that it stands for
    read = text.replace("▁", " ") if kind != "byte-level" else text
    assert ours.decode(ours.encode(text, continues=True), continues=True) == read


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_stream_gives_the_decoded_text_of_any_ids(kind: str, data: st.DataObject) -> None:
    ours = OURS[kind]
    ids = data.draw(st.lists(st.integers(0, ours.vocab_size - 1), max_size=20))
    stream = ours.stream()
    pieces = [stream.push(i) for i in ids]
    joined = b"".join(ours.token_bytes(i, skip_special=True) for i in ids)
    assert "".join(pieces) + stream.finish() == joined.decode("utf-8", "replace")


@settings(max_examples=60, deadline=None)
@given(ids=st.lists(st.integers(0, PLAIN["byte-level"].get_vocab_size() - 1), max_size=20))
def test_broken_utf8_reads_as_in_the_library(ids: list[int]) -> None:
    assert OURS["byte-level"].decode(ids) == PLAIN["byte-level"].decode(ids)


@pytest.mark.parametrize("kind", KINDS)
def test_an_incomplete_character_is_held_back(kind: str) -> None:
    ours = OURS[kind]
    ids = ours.encode("🙂", continues=True)
    assert len(ids) > 1
    stream = ours.stream()
    assert [stream.push(i) for i in ids] == [""] * (len(ids) - 1) + ["🙂"]


def test_the_end_of_a_stream_shows_what_was_incomplete() -> None:
    ours = OURS["byte-level"]
    stream = ours.stream()
    assert stream.push(ours.encode("🙂")[0]) == ""
    assert stream.finish() == "\ufffd"
    assert stream.finish() == ""


@pytest.mark.parametrize("kind", KINDS)
def test_a_leading_space_survives_where_text_goes_on(kind: str) -> None:
    ours = OURS[kind]
    ids = ours.encode(" fox", continues=True)
    assert ours.decode(ids, continues=True) == " fox"
    assert "".join(map(ours.stream().push, ids)) == " fox"


@pytest.mark.parametrize("kind", KINDS)
def test_a_rolled_back_stream_does_not_repeat_itself(kind: str) -> None:
    ours = OURS[kind]
    short, other, whole = (ours.encode(t, continues=True) for t in ("ab", "c", "abcd"))
    stream = ours.stream()
    text = "".join(stream.push(i) for i in [*short, *other])
    stream.rollback(len(short) + len(other))
    text += "".join(stream.push(i) for i in whole)
    assert text == "abcd"


@pytest.mark.parametrize("kind", KINDS)
def test_vocabulary_spells_every_text(kind: str) -> None:
    ours = OURS[kind]
    vocabulary = ours.vocabulary()
    assert len(vocabulary) == ours.vocab_size == PLAIN[kind].get_vocab_size()
    for text in TEXTS:
        pieces = [vocabulary[i] for i in ours.encode(text, continues=True)]
        assert b"".join(p for p in pieces if p is not None) == text.encode()
    assert all(vocabulary[i] is None for i in ours.special_tokens.values())
    assert {bytes([b]) for b in range(256)} <= set(vocabulary)


def test_an_end_token_is_no_text_even_if_it_is_not_special() -> None:
    ours = Tokenizer(made.byte_level(), eos_token_ids=[300])
    assert ours.vocabulary()[300] is None


def test_a_word_that_is_an_added_token_is_still_text() -> None:
    ours = OURS["byte-level"]
    (think,) = ours.encode("<think>")
    assert ours.vocabulary()[think] == b"<think>"
    assert ours.decode([think]) == "<think>"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", ["<|end|>", "a<|end|>b", "<|start|><|end|>", " <|end|> "])
def test_special_tokens_stay_text_unless_asked(kind: str, text: str) -> None:
    ours = OURS[kind]
    special = set(ours.special_tokens.values())
    assert not special & set(ours.encode(text))
    assert ours.decode(ours.encode(text, continues=True), continues=True) == text
    assert ours.encode(text, parse_special=True) == PLAIN[kind].encode(text).ids
    assert special & set(ours.encode(text, parse_special=True))


@pytest.mark.parametrize("rules", [{"lstrip": True}, {"rstrip": True}, {"single_word": True}])
def test_special_tokens_keep_their_matching_rules(rules: dict[str, bool]) -> None:
    def make() -> Backend:
        backend = made.sentencepiece()
        token = AddedToken("<mask>", special=True, **{"normalized": False, **rules})
        backend.add_special_tokens([token])
        return backend

    ours, plain = Tokenizer(make()), make()
    for text in ["a <mask> b", "a<mask>b", "<mask>", "x <mask>"]:
        assert ours.encode(text, parse_special=True) == plain.encode(text).ids, text


def test_a_special_token_that_is_normalised_is_found_wherever_it_is_written() -> None:
    backend = made.sentencepiece()
    backend.add_special_tokens([AddedToken("<mask>", special=True, normalized=True)])
    ours = Tokenizer(backend)
    for text in ["a <mask> b", "a<mask>b", "<mask>"]:
        assert ours.encode(text, parse_special=True).count(ours.special_tokens["<mask>"]) == 1
        assert ours.special_tokens["<mask>"] not in ours.encode(text)


def test_special_tokens_are_left_out_of_text_or_shown() -> None:
    ours = OURS["byte-level"]
    ids = ours.encode("<|start|>hi<|end|>", parse_special=True)
    assert ours.decode(ids) == "hi"
    assert ours.decode(ids, skip_special=False) == "<|start|>hi<|end|>"


def test_what_the_model_expects_around_a_text_is_added_when_asked() -> None:
    from tokenizers.processors import TemplateProcessing

    backend = made.byte_level()
    backend.post_processor = TemplateProcessing(
        single="<|start|> $A", special_tokens=[("<|start|>", 0)]
    )
    ours = Tokenizer(backend)
    assert ours.encode("hi", add_special=True) == [0, *ours.encode("hi")]


def test_ids_that_are_no_tokens_have_no_text() -> None:
    ours = OURS["byte-level"]
    assert ours.token_bytes(ours.vocab_size + 5) == b""
    assert ours.decode([ours.vocab_size + 5]) == ""


def test_a_lone_surrogate_is_refused_with_its_place() -> None:
    with pytest.raises(InvalidRequest, match="character 2 is the lone surrogate"):
        OURS["byte-level"].encode("ab\ud800c")


def test_a_decoder_of_another_kind_is_refused_by_name() -> None:
    backend = Backend(models.WordLevel({"a": 0}, unk_token="a"))
    backend.decoder = decoders.WordPiece()
    with pytest.raises(UnsupportedModel, match="WordPiece"):
        Tokenizer(backend)


def test_threads_may_share_a_tokenizer() -> None:
    ours = OURS["sentencepiece"]
    texts = [f"{text} <|end|> {n}" for n in range(50) for text in TEXTS]
    alone = [(ours.encode(t), ours.encode(t, parse_special=True)) for t in texts]
    with ThreadPoolExecutor(4) as pool:
        shared = list(
            pool.map(lambda t: (ours.encode(t), ours.encode(t, parse_special=True)), texts)
        )
    assert shared == alone
