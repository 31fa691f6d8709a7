"""Which programs make up each workload, in how many copies and how large."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal

from benchmarks.workloads import programs, texts

if TYPE_CHECKING:
    from benchmarks.workloads.branch import Branch

Size = Literal["small", "full"]
Program = Callable[["Branch"], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Workload:
    """Programs that are run with so many of them at once; `needs` is what an engine has to do."""

    name: str
    make: Callable[[bool], list[Program]]
    needs: frozenset[str] = frozenset({"text"})
    at_once: int = 64

    def programs(self, size: Size) -> list[Program]:
        return self.make(size == "full")


def on(body: Callable[..., Awaitable[None]], *args: object, **options: object) -> Program:
    """A program with everything but its branch."""

    async def program(s: Branch) -> None:
        await body(s, *args, **options)

    return program


def few_shot_select(full: bool) -> list[Program]:
    rows = texts.trivia()
    shots = "".join(f"Question: {r['question']}\nAnswer: {r['answer']}\n\n" for r in rows[:28])
    rng = random.Random(11)
    asked = rows[28 : 28 + (64 if full else 16)]
    others = [row["answer"] for row in rows[100:]]
    return [
        on(programs.pick, shots, row["question"], _choices(rng, row["answer"], others))
        for row in asked
    ]


def _choices(rng: random.Random, right: str, others: list[str]) -> list[str]:
    wrong = [other for other in dict.fromkeys(others) if other != right]
    mixed = [right, *rng.sample(wrong, 3)]
    rng.shuffle(mixed)
    return mixed


def _shots(count: int) -> str:
    rows = texts.problems()[:count]
    return "".join(f"Question: {r['question']}\nAnswer: {r['answer']}\n\n" for r in rows)


def few_shot_generate(full: bool) -> list[Program]:
    asked = texts.problems()[5 : 5 + (64 if full else 16)]
    return [
        on(programs.complete, f"{_shots(5)}Question: {r['question']}\nAnswer:", 64 if full else 16)
        for r in asked
    ]


def react(full: bool) -> list[Program]:
    recorded = texts.episodes()
    shown = "\n\n".join(_told(question, steps) for question, steps in recorded[:3])
    rules = "Answer the question by turns of thought, action and observation."
    return [
        on(
            programs.react,
            f"{rules}\n\n{shown}\n\n{question}",
            [step["observation"][:600] for step in steps[: 5 if full else 3]],
            32 if full else 12,
        )
        for question, steps in recorded[3 : 3 + (16 if full else 6)]
    ]


def _told(question: str, steps: list[dict[str, str]]) -> str:
    return question + "".join(
        f"\nThought {n}: {step['thought']} {step['action']}\n"
        f"Observation {n}: {step['observation'][:600]}"
        for n, step in enumerate(steps, 1)
    )


def tree_of_thought(full: bool) -> list[Program]:
    examples = _shots(3)
    return [
        on(
            programs.tree,
            f"{examples}Make 24 of the numbers {', '.join(map(str, numbers))}, step by step.",
            width=4,
            depth=3 if full else 2,
            tokens=48 if full else 16,
        )
        for numbers in texts.puzzles()[: 2 if full else 1]
    ]


def judge(full: bool) -> list[Program]:
    essays = texts.essays()[: 6 if full else 2]
    return [on(programs.judge, essay, 64 if full else 16) for essay in essays]


def tip_suggestion(full: bool) -> list[Program]:
    guide = "Spell a tip out for a beginner.\n" + texts.chunks(300, 1)[0]
    return [
        on(programs.tips, guide, topic, count=5 if full else 3, tokens=24 if full else 8)
        for topic in texts.topics()[: 8 if full else 4]
    ]


def multi_chain(full: bool) -> list[Program]:
    shots, count = _shots(2), 12 if full else 4
    return [
        on(programs.chains, shots, row["question"], 64 if full else 16)
        for row in texts.problems()[2 : 2 + count]
    ]


def generative_agents(full: bool) -> list[Program]:
    people = texts.chunks(120, 2)
    events = [row["question"].split(".")[0] for row in texts.problems()]
    count = 20 if full else 5
    return [
        on(programs.day, person, events[count * n : count * (n + 1)])
        for n, person in enumerate(people)
    ]


def chats(full: bool, *, long: bool) -> list[Program]:
    system = "A helpful assistant talks to a user.\n" + texts.chunks(450, 1)[0]
    count, turns = (12, 4) if full else (4, 3)
    said = texts.chunks(200 if full else 80, count * turns + 3)[3:]
    tokens = (128 if long else 8) if full else (32 if long else 4)
    return [
        on(programs.chat, system, said[turns * n : turns * (n + 1)], tokens) for n in range(count)
    ]


def retrieval(full: bool) -> list[Program]:
    passages = texts.chunks(450 if full else 150, 10)
    return [
        on(programs.retrieve, passages, topic, 16 if full else 8)
        for topic in texts.topics()[: 8 if full else 3]
    ]


def extraction(full: bool) -> list[Program]:
    return [on(programs.extract, letter) for letter in texts.documents(24 if full else 8)]


def zero_reuse(full: bool) -> list[Program]:
    count = 32 if full else 8
    return [
        on(programs.complete, f"{passage}\n\nUser: what is this about?\nAssistant:", 64)
        for passage in texts.chunks(190 if full else 90, count)
    ]


WORKLOADS = {
    workload.name: workload
    for workload in (
        Workload("few_shot_select", few_shot_select, frozenset({"select"})),
        Workload("few_shot_generate", few_shot_generate),
        Workload("react", react),
        Workload("tree_of_thought", tree_of_thought),
        Workload("judge", judge, frozenset({"text", "select"})),
        Workload("tip_suggestion", tip_suggestion),
        Workload("multi_chain", multi_chain),
        Workload("generative_agents", generative_agents, at_once=1),
        Workload("chat_short", partial(chats, long=False)),
        Workload("chat_long", partial(chats, long=True)),
        Workload("retrieval", retrieval),
        Workload("json", extraction, frozenset({"json"})),
        Workload("zero_reuse", zero_reuse),
    )
}
