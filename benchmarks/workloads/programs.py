"""The programs themselves: what each does with the branch it is given."""

from __future__ import annotations

import asyncio
from enum import StrEnum
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.workloads.branch import Branch

EXPERTS = ("first", "second", "third", "fourth", "fifth", "sixth")
VIEWS = ("clarity", "originality", "evidence", "organisation", "grammar", "impact")


class Mood(StrEnum):
    PLEASED = "pleased"
    ANNOYED = "annoyed"
    PATIENT = "patient"


class Closed(BaseModel):
    """Without it some engines write members that nobody asked for, until their tokens end."""

    model_config = ConfigDict(extra="forbid")


class Address(Closed):
    number: int = Field(ge=1, le=999)
    street: str = Field(max_length=40)
    town: str = Field(max_length=30)


class Order(Closed):
    """Ten fields, three of them in an object of their own."""

    reference: str = Field(pattern=r"^[A-Z]-[0-9]{4}$")
    customer: str = Field(max_length=40)
    item: str = Field(max_length=30)
    count: int = Field(ge=1, le=9)
    price: float = Field(ge=0, le=1000)
    address: Address
    urgent: bool
    mood: Mood


async def pick(s: Branch, prefix: str, question: str, choices: Sequence[str]) -> None:
    """One of several answers, by likelihood."""
    s.say(f"{prefix}Question: {question}\nAnswer:")
    await s.select([f" {choice}" for choice in choices])


async def complete(s: Branch, prompt: str, tokens: int) -> None:
    """One prompt, one generation."""
    s.say(prompt)
    await s.gen(tokens)


async def consistent(s: Branch, prompt: str, *, ways: int, tokens: int) -> None:
    """Self-consistency: several ways of reasoning, told apart by their number, and an answer each.

    Where a user would sample them, they are named here: greedy ways would all be the same.
    """

    async def way(branch: Branch, number: int) -> None:
        branch.say(f" (way {number})")
        await branch.gen(tokens)
        branch.say("\nThe answer is")
        await branch.gen(4)

    s.say(prompt)
    await asyncio.gather(*map(way, s.fork(ways), range(1, ways + 1)))


async def react(s: Branch, prefix: str, observations: Sequence[str], tokens: int) -> None:
    """Thinks and acts; what was observed is read from a recording."""
    s.say(prefix)
    for turn, observation in enumerate(observations, 1):
        s.say(f"\nThought {turn}:")
        await s.gen(tokens)
        s.say(f"\nObservation {turn}: {observation}")
    s.say("\nThe answer is")
    await s.gen(tokens // 4)


async def tree(s: Branch, root: str, *, width: int, depth: int, tokens: int) -> None:
    """Tree of thought: every thought is gone on with in `width` ways, `depth` levels deep."""
    s.say(root)
    await _grow(s, width=width, depth=depth, tokens=tokens)


async def _grow(s: Branch, *, width: int, depth: int, tokens: int) -> None:
    async def thought(branch: Branch, expert: str) -> None:
        branch.say(f"\nThe {expert} expert's next step:")
        await branch.gen(tokens)
        if depth > 1:
            await _grow(branch, width=width, depth=depth - 1, tokens=tokens)

    await asyncio.gather(*map(thought, s.fork(width), EXPERTS))


async def judge(s: Branch, essay: str, tokens: int) -> None:
    """Branch, solve, merge: six views of an essay, then a verdict on all of them."""

    async def view(branch: Branch, dimension: str) -> str:
        branch.say(f"Judge only its {dimension}:")
        return await branch.gen(tokens)

    s.say(f"Please judge the essay below, one dimension at a time.\n\n{essay}\n\n")
    judgements = await asyncio.gather(*map(view, s.fork(len(VIEWS)), VIEWS))
    s.say("The judgements:\n" + "\n".join(map("{}: {}".format, VIEWS, judgements)))
    s.say("\nIn sum, the essay is")
    await s.gen(tokens // 2)
    s.say("\nGrade:")
    await s.select([" A", " B", " C", " D"])


async def tips(s: Branch, guide: str, topic: str, *, count: int, tokens: int) -> None:
    """A skeleton of tips, each of them spelled out by a program of its own."""
    nested = s.fork(count)

    async def spell_out(branch: Branch, tip: str) -> str:
        branch.say(f"{guide}\nTip: {tip.strip()}\nIn one paragraph:")
        return await branch.gen(2 * tokens)

    s.say(f"Give {count} short tips about {topic}.\n")
    found: list[str] = []
    for number in range(1, count + 1):
        s.say(f"\n{number}.")
        found.append(await s.gen(tokens))
    paragraphs = await asyncio.gather(*map(spell_out, nested, found))
    s.say("\nIn detail:\n" + "\n".join(paragraphs) + "\nIn sum:")
    await s.gen(tokens)


async def chains(s: Branch, shots: str, question: str, tokens: int) -> None:
    """Several chains of reasoning about one question, and an answer that has read all of them."""

    async def chain(branch: Branch, expert: str) -> str:
        branch.say(f"\nThe {expert} expert reasons:")
        return await branch.gen(tokens)

    s.say(f"{shots}Question: {question}")
    reasons = await asyncio.gather(*map(chain, s.fork(5), EXPERTS))
    s.say("\nThe experts said:\n" + "\n".join(reasons) + "\nSo the answer is")
    await s.gen(tokens // 4)


async def day(s: Branch, person: str, events: Sequence[str]) -> None:
    """A generative agent: short questions one after the other, each from one of five templates."""
    templates = (
        "{who}\nOn a scale of 1 to 10, how moving is this: {event}?\nRating:",
        "{who}\n{event}. What does this person do next, in a few words?\nNext:",
        "{who}\n{event}. Where does this person go now?\nPlace:",
        "{who}\nDescribe in a word the mood of: {event}\nMood:",
        "{who}\nSummarise what happened: {event}\nSummary:",
    )
    lengths = (2, 12, 6, 3, 20)
    for number, event in enumerate(events):
        branch = s.fork(1)[0]
        branch.say(templates[number % 5].format(who=person, event=event))
        await branch.gen(lengths[number % 5])


async def chat(s: Branch, system: str, turns: Sequence[str], tokens: int) -> None:
    """A conversation, turn after turn."""
    s.say(system)
    for turn in turns:
        s.say(f"\n\nUser: {turn}\nAssistant:")
        await s.gen(tokens)


async def retrieve(s: Branch, passages: Sequence[str], question: str, tokens: int) -> None:
    """Asks every passage by itself, then answers from what they said."""

    async def ask(branch: Branch, passage: str) -> str:
        branch.say(f"{passage}\n\nWhat does this text say about: {question}\nIt says")
        return await branch.gen(tokens)

    notes = await asyncio.gather(*map(ask, s.fork(len(passages)), passages))
    s.say("Notes:\n" + "\n".join(notes) + f"\nQuestion: {question}\nAnswer:")
    await s.gen(2 * tokens)


async def extract(s: Branch, letter: str) -> None:
    """An object out of a letter."""
    s.say(
        "Read the letter and write down the order as JSON with the fields reference (like A-1234), "
        "customer, item, count, price, address (number, street, town), urgent (true or false) and "
        f"mood (pleased, annoyed or patient).\n\nLetter: {letter}\n\nJSON: "
    )
    await s.fill(Order, 200)
