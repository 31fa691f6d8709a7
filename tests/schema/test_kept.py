"""What is kept in memory: the same grammar for the same question, made once."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from agentrt.schema import CompileCancelled, Vocabulary, compile_regex, compile_schema
from agentrt.schema.kept import Kept
from agentrt.schema.limits import Limits
from agentrt.testing import ByteCodec

NUMBER = {"type": "integer"}


def test_the_same_question_has_the_same_grammar(vocabulary: Vocabulary) -> None:
    grammar = compile_schema(NUMBER, vocabulary)
    assert compile_schema('{"type": "integer"}', vocabulary) is grammar
    assert compile_schema(NUMBER, vocabulary, key_order="any") is not grammar
    assert compile_schema(NUMBER) is not grammar
    assert compile_regex("a", vocabulary) is compile_regex("a", vocabulary)
    alike = Vocabulary(vocabulary.tokens, vocabulary.eos_ids)
    assert compile_schema(NUMBER, alike) is grammar
    other = Vocabulary(vocabulary.tokens[:-1], [3])
    assert compile_schema(NUMBER, other) is not grammar


class Waiting(Limits):
    """Tells when its owner waits for somebody else's work."""

    def __init__(self, cancelled: bool = False) -> None:
        super().__init__(cancelled=lambda: cancelled)
        self.waits = threading.Event()

    def spend(self, units: int = 1) -> None:
        self.waits.set()
        super().spend(units)


def test_what_two_ask_for_at_once_is_made_once() -> None:
    kept: Kept[str] = Kept(4)
    second = Waiting()
    made: list[str] = []

    def make() -> str:
        assert second.waits.wait(30)
        made.append("it")
        return made[-1]

    with ThreadPoolExecutor(2) as threads:
        begun = threading.Event()
        first = threads.submit(kept.get, "k", lambda: begun.set() or make(), Limits())
        assert begun.wait(30)
        later = threads.submit(kept.get, "k", make, second)
        assert first.result(30) is later.result(30)
    assert made == ["it"]
    assert not kept._making


def test_who_waits_may_give_up_and_the_work_goes_on() -> None:
    kept: Kept[str] = Kept(4)
    gone, begun = threading.Event(), threading.Event()

    def make() -> str:
        begun.set()
        assert gone.wait(30)
        return "it"

    with ThreadPoolExecutor(1) as threads:
        first = threads.submit(kept.get, "k", make, Limits())
        assert begun.wait(30)
        with pytest.raises(CompileCancelled):
            kept.get("k", make, Waiting(cancelled=True))
        gone.set()
        assert first.result(30) == "it"
    assert not kept._making


def test_where_the_making_fails_the_next_in_line_tries() -> None:
    kept: Kept[str] = Kept(4)
    second = Waiting()

    def fail() -> str:
        assert second.waits.wait(30)
        raise CompileCancelled

    with ThreadPoolExecutor(2) as threads:
        begun = threading.Event()
        first = threads.submit(kept.get, "k", lambda: begun.set() or fail(), Limits())
        assert begun.wait(30)
        later = threads.submit(kept.get, "k", lambda: "it", second)
        with pytest.raises(CompileCancelled):
            first.result(30)
        assert later.result(30) == "it"


def test_the_least_lately_asked_for_goes_first() -> None:
    kept: Kept[str] = Kept(2)
    made: list[str] = []

    def get(key: str) -> None:
        kept.get(key, lambda: made.append(key) or key, Limits())

    for key in "abaca":
        get(key)
    assert made == ["a", "b", "c"]
    get("b")
    assert made == ["a", "b", "c", "b"]
    assert len(kept) == 2


def test_equal_vocabularies_share_what_is_made_of_one() -> None:
    first = compile_schema(int, ByteCodec().vocabulary).vocabulary
    assert first is not None
    assert compile_schema(bool, ByteCodec().vocabulary).vocabulary is first
    # without its tokenizer it cuts forced text otherwise, so that it is another
    bare = Vocabulary(first.tokens, first.eos_ids)
    assert compile_schema(int, bare).vocabulary is not first
