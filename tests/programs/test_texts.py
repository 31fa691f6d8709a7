"""Programs over given texts: answers with citations, long texts, labels, chats, tools."""

from __future__ import annotations

import pytest
from pydantic import BaseModel

from agentrt import AnswerRejected, InvalidRequest, PromptTooLong, SchemaError, tool
from agentrt.programs import Chat, Route, answer_from, classify, extract_long, react, route
from agentrt.programs.long import cut, merge, schema_of_part
from agentrt.programs.passages import sentences_of
from tests.programs.conftest import Scripted
from tests.programs.replies import saying

pytestmark = pytest.mark.anyio

HARBOUR = "The town is old. The harbour was built in 1604. It lies to the north. " + "So. " * 99
MARKET = "There is a market on Mondays. Fish is sold there. " + "It is loud. " * 40


async def test_an_answer_quotes_the_passages_it_rests_on(scripted: Scripted) -> None:
    def reply(before: str) -> str:
        turn = before.rpartition("user: ")[2]
        if "Does it say" in turn:
            return "Yes" if "1604" in before else "No"
        if "Copy the sentence" in turn:
            return "The harbour was built in 1604."
        return "in 1604" if "[2] The harbour was built in 1604." in turn else "I do not know"

    async with scripted(saying(reply)) as bound:
        found = await answer_from("When was the harbour built?", [MARKET, HARBOUR])
        assert found.answer == "in 1604"
        [citation] = found.citations
        assert (citation.passage, citation.quote) == (1, "The harbour was built in 1604.")
        assert citation.support == found.support[1] > 0.9 > 0.1 > found.support[0]
        assert bound.ratio < 1.05
        before = bound.computed
        none = await answer_from("Who is the mayor?", [MARKET])
        assert (none.answer, none.citations) == (None, ())
        assert bound.computed - before < 250  # the passage was known
        with pytest.raises(InvalidRequest, match="texts that are not empty"):
            await answer_from("?", ["a", " "])


def test_sentences_are_cut_where_they_end() -> None:
    assert sentences_of("One, e.g. this. Two?\nThree 3.5! One, e.g. this.") == [
        "One, e.g. this.",
        "Two?",
        "Three 3.5!",
    ]


class Firm(BaseModel):
    name: str
    founded: int
    products: list[str] = []


async def test_a_long_text_is_read_in_chunks_and_merged(scripted: Scripted) -> None:
    def reply(before: str) -> str:
        if "built in" in before:
            return '{"name":"Acme","founded":1604,"products":["rope","sail"]}'
        return '{"name":null,"founded":null,"products":["Sail","nets"]}'

    async with scripted(saying(reply)) as bound:
        found = await extract_long(Firm, f"{HARBOUR}\n\n{MARKET}", chunk_tokens=520)
        assert found == Firm(name="Acme", founded=1604, products=["rope", "sail", "nets"])
        assert bound.ratio < 1.05
        with pytest.raises(AnswerRejected, match="at /name: Field required"):
            await extract_long(Firm, MARKET, chunk_tokens=520)
        with pytest.raises(SchemaError, match="object with fields, or a list"):
            await extract_long(int, MARKET)
        with pytest.raises(InvalidRequest, match="longer than its overlap"):
            await extract_long(Firm, MARKET, chunk_tokens=10, overlap_tokens=10)


def test_merging_keeps_what_one_chunk_has_twice_and_takes_what_most_say() -> None:
    assert merge([["a", "a"], ["A", "b"], None]) == ["a", "a", "b"]
    assert merge([{"x": 1, "y": {"z": 1}}, {"x": 2, "y": {"w": [1]}}, {"x": 2}]) == {
        "x": 2,
        "y": {"z": 1, "w": [1]},
    }
    assert merge([True, 1, False]) is True
    assert merge([None]) is None


def test_a_part_may_leave_out_any_field_and_have_any_number_of_items() -> None:
    part = schema_of_part({"type": "array", "items": {"type": "string"}, "minItems": 3})
    assert part == {"type": "array", "items": {"type": "string"}}
    part = schema_of_part({"type": "object", "properties": {"a": {"type": "integer"}}})
    assert part["properties"] == {"a": {"anyOf": [{"type": "integer"}, {"type": "null"}]}}
    assert part["required"] == ["a"]


@pytest.mark.parametrize("most", [1, 7, 40, 1000])
@pytest.mark.parametrize("text", [HARBOUR, "a\n\nb\n\n" * 30, "x" * 100, ""])
def test_chunks_are_short_enough_and_make_up_the_text(text: str, most: int) -> None:
    chunks = cut(text, len, most)
    assert "".join(chunks) == text
    assert all(0 < len(chunk) <= most for chunk in chunks)
    overlapping = cut(text, len, most, most // 3)
    assert all(0 < len(chunk) <= most for chunk in overlapping)
    assert all(chunk in text for chunk in overlapping)


def test_chunks_are_cut_between_paragraphs_and_begin_with_what_came_before() -> None:
    text = "one two.\n\nthree four.\n\nfive six.\n\n"
    assert cut(text, len, 25) == ["one two.\n\nthree four.\n\n", "five six.\n\n"]
    assert cut(text, len, 28, 13)[1] == "three four.\n\nfive six.\n\n"


LABELS = {"billing": "money and invoices", "technical": "what does not work"}


async def test_texts_are_labelled_and_sent_where_they_belong(scripted: Scripted) -> None:
    def reply(before: str) -> str:
        return "technical" if "crash" in before.rpartition("user: ")[2] else "billing"

    async def repair(text: str) -> str:
        return f"repaired: {text}"

    routes = {
        "billing": Route("money", lambda text: f"billed: {text}"),
        "technical": Route("what does not work", repair),
    }
    async with scripted(saying(reply)) as bound:
        found = await classify("It crashes.", LABELS, examples=[("Refund me", "billing")])
        assert (found.label, found.confidence > 0.9) == ("technical", True)
        assert sum(found.shares.values()) == pytest.approx(1)
        assert bound.waste == 0
        assert await route("It crashes.", routes) == "repaired: It crashes."
        assert await route("My invoice", routes) == "billed: My invoice"
        unsure = await route("My invoice", routes, at_least=1.1, otherwise="technical")
        assert unsure == "repaired: My invoice"
        with pytest.raises(InvalidRequest, match="'post' is none of the routes"):
            await route("?", routes, otherwise="post")
        with pytest.raises(InvalidRequest, match="the label 'post'"):
            await classify("?", LABELS, examples=[("?", "post")])


async def test_the_label_is_the_one_with_the_greatest_share(scripted: Scripted) -> None:
    """Also where another has likelier tokens, and more of them."""
    async with scripted("xy"):
        found = await classify("?", ["xyz", "q"])
        assert (found.label, found.confidence > 0.5) == ("q", True)
        assert (await classify("?", ["xyz", "q"], by="token_length")).label == "xyz"


async def test_a_chat_remembers_and_computes_only_what_is_new(scripted: Scripted) -> None:
    answers = {"Name": "Ada", "Age": "42", "Story": "Once."}
    async with scripted(saying(answers), context_length=1000) as bound:
        chat = Chat("You are brief. " * 20)
        assert await chat.say("Name?") == "Ada"
        assert await chat.say("Age?", int) == 42
        async with chat.stream("Story?") as stream:
            assert "".join([piece async for piece in stream]) == "Once."
        async with chat.stream("Story?") as stream:
            await anext(stream)
        assert [m.content for m in chat.messages[1:]] == [
            "Name?",
            "Ada",
            "Age?",
            "42",
            "Story?",
            "Once.",
        ]
        assert bound.ratio < 1.05
        with pytest.raises(PromptTooLong) as failure:
            await chat.say("x" * 1000)
        assert failure.value.messages[-1] == ("user", 1000)
        assert len(chat.messages) == 7
        chat.forget(2)
        assert [m.content for m in chat.messages[1:]] == ["Story?", "Once."]
        with pytest.raises(InvalidRequest, match="1 turns to forget, not 2"):
            chat.forget(2)


@tool
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


async def test_react_thinks_acts_and_finishes(scripted: Scripted) -> None:
    def reply(prompt: str) -> str:
        before, _, begun = prompt.rpartition("assistant: ")
        if before.endswith("user: Call a tool.\n"):
            return '{"name":"add","arguments":{"a":2,"b":3}}'
        if "Now the answer" in before.rpartition("user: ")[2]:
            return "5"
        _, decided, chosen = begun.partition("\nNext: ")
        return "finish".removeprefix(chosen) if decided else "I add."

    question = "How many are two and three sheep? " * 10
    async with scripted(reply) as bound:
        found = await react(question, [add], kind=int)
        assert (found.answer, found.finished) == (5, True)
        assert [(turn.thought, turn.results[0].value) for turn in found.turns] == [("I add.", 5)]
        assert bound.ratio < 1.05
        cut_short = await react(question, [add], turns=1, kind=int)
        assert (cut_short.finished, len(cut_short.turns)) == (False, 1)
        with pytest.raises(InvalidRequest, match="turns=0"):
            await react(question, [add], turns=0)
        held = await react(question, [add], turns=1, kind=int, thoughts=r"I (count|add) [23]\.")
        assert held.turns[0].thought in ("I add 2.", "I add 3.")
