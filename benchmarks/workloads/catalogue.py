"""Which programs make up each workload, in how many copies and how large."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal, TypeVar

from benchmarks.workloads import game24, programs, texts

if TYPE_CHECKING:
    from benchmarks.workloads.branch import Branch

Size = Literal["small", "medium", "full"]
"""`full` is what the source of a shape ran; `medium` keeps the shape (prefix lengths, forks,
depth) with fewer programs and shorter answers; `small` only shows that everything runs."""
Program = Callable[["Branch"], Awaitable[None]]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Workload:
    """Programs that are run with so many of them at once; `needs` is what an engine has to do.

    `shape` says in a few words what a program is.
    """

    name: str
    programs: Callable[[Size], list[Program]]
    shape: str
    needs: frozenset[str] = frozenset({"text"})
    at_once: int = 64


def on(body: Callable[..., Awaitable[None]], *args: object, **options: object) -> Program:
    """A program with everything but its branch."""

    async def program(s: Branch) -> None:
        await body(s, *args, **options)

    return program


def of(size: Size, small: T, medium: T, full: T) -> T:
    return {"small": small, "medium": medium, "full": full}[size]


def few_shot_select(size: Size) -> list[Program]:
    rows = texts.trivia()
    shots = "".join(f"Question: {r['question']}\nAnswer: {r['answer']}\n\n" for r in rows[:28])
    rng = random.Random(11)
    asked = rows[28 : 28 + of(size, 4, 64, 64)]
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


def few_shot_generate(size: Size) -> list[Program]:
    asked = texts.problems()[5 : 5 + of(size, 4, 32, 64)]
    tokens = of(size, 8, 32, 128)
    return [
        on(programs.complete, f"{_shots(5)}Question: {r['question']}\nAnswer:", tokens)
        for r in asked
    ]


def self_consistency(size: Size) -> list[Program]:
    asked = texts.problems()[3 : 3 + of(size, 1, 8, 32)]
    return [
        on(
            programs.consistent,
            f"{_shots(3)}Question: {r['question']}\nAnswer:",
            ways=of(size, 3, 8, 8),
            tokens=of(size, 8, 32, 128),
        )
        for r in asked
    ]


def react(size: Size) -> list[Program]:
    recorded = texts.episodes()
    shown = "\n\n".join(_told(question, steps) for question, steps in recorded[:3])
    rules = "Answer the question by turns of thought, action and observation."
    return [
        on(
            programs.react,
            f"{rules}\n\n{shown}\n\n{question}",
            [step["observation"][:600] for step in steps[: of(size, 2, 5, 5)]],
            of(size, 8, 32, 64),
        )
        for question, steps in recorded[3 : 3 + of(size, 2, 12, 47)]
    ]


def _told(question: str, steps: list[dict[str, str]]) -> str:
    return question + "".join(
        f"\nThought {n}: {step['thought']} {step['action']}\n"
        f"Observation {n}: {step['observation'][:600]}"
        for n, step in enumerate(steps, 1)
    )


def tree_of_thought(size: Size) -> list[Program]:
    examples = _shots(3)
    return [
        on(
            programs.tree,
            f"{examples}Make 24 of the numbers {', '.join(map(str, numbers))}, step by step.",
            width=of(size, 2, 4, 4),
            depth=of(size, 2, 3, 3),
            tokens=of(size, 8, 24, 48),
        )
        for numbers in texts.puzzles()[: of(size, 1, 1, 4)]
    ]


def game_of_24(size: Size) -> list[Program]:
    return [
        on(game24.search, numbers, seed=number, keep=of(size, 2, 5, 5), most=of(size, 3, 8, 12))
        for number, numbers in enumerate(texts.puzzles()[: of(size, 1, 6, 50)])
    ]


def judge(size: Size) -> list[Program]:
    essays = texts.essays()[: of(size, 1, 4, 15)]
    return [on(programs.judge, essay, of(size, 8, 48, 128)) for essay in essays]


def tip_suggestion(size: Size) -> list[Program]:
    guide = "Spell a tip out for a beginner.\n" + texts.chunks(300, 1)[0]
    return [
        on(programs.tips, guide, topic, count=of(size, 2, 5, 5), tokens=of(size, 8, 24, 24))
        for topic in texts.topics()[: of(size, 2, 8, 50)]
    ]


def multi_chain(size: Size) -> list[Program]:
    asked = texts.problems()[2 : 2 + of(size, 1, 8, 32)]
    tokens = of(size, 8, 48, 128)
    return [on(programs.chains, _shots(2), row["question"], tokens) for row in asked]


def generative_agents(size: Size) -> list[Program]:
    people = texts.chunks(120, 2)
    events = [row["question"].split(".")[0] for row in texts.problems()]
    count = of(size, 5, 20, 50)
    return [
        on(programs.day, person, events[count * n : count * (n + 1)])
        for n, person in enumerate(people)
    ]


def chats(size: Size, *, long: bool) -> list[Program]:
    system = "A helpful assistant talks to a user.\n" + texts.chunks(450, 1)[0]
    count, turns = of(size, (2, 2), (8, 4), (20, 4))
    said = texts.chunks(of(size, 40, 80, 200), count * turns + 3)[3:]
    tokens = of(size, 16, 64, 256) if long else of(size, 4, 8, 8)
    return [
        on(programs.chat, system, said[turns * n : turns * (n + 1)], tokens) for n in range(count)
    ]


def retrieval(size: Size) -> list[Program]:
    passages = texts.chunks(of(size, 60, 300, 450), 10)
    return [
        on(programs.retrieve, passages, topic, of(size, 4, 16, 16))
        for topic in texts.topics()[: of(size, 1, 4, 16)]
    ]


def extraction(size: Size) -> list[Program]:
    return [on(programs.extract, letter) for letter in texts.documents(of(size, 2, 24, 24))]


def zero_reuse(size: Size) -> list[Program]:
    return [
        on(programs.complete, f"{passage}\n\nUser: what is this about?\nAssistant:", tokens)
        for tokens in (of(size, 8, 64, 64),)
        for passage in texts.chunks(of(size, 60, 190, 190), of(size, 4, 16, 32))
    ]


TEXT, SELECT, JSON = frozenset({"text"}), frozenset({"select"}), frozenset({"json"})
WORKLOADS = {
    workload.name: workload
    for workload in (
        Workload(
            "few_shot_select",
            few_shot_select,
            "a 1,000-token prefix, one of 4 answers by likelihood",
            SELECT,
        ),
        Workload("few_shot_generate", few_shot_generate, "5 worked problems, then one to solve"),
        Workload(
            "self_consistency", self_consistency, "3 worked problems, 8 ways to solve the next"
        ),
        Workload("react", react, "5 turns of thought, recorded observations between"),
        Workload("tree_of_thought", tree_of_thought, "4 next thoughts of each, 3 levels deep"),
        Workload("game24", game_of_24, "legal moves valued by select, 5 kept, 3 levels", SELECT),
        Workload(
            "judge", judge, "6 views of a 1,000-token essay, merged and graded", TEXT | SELECT
        ),
        Workload("tip_suggestion", tip_suggestion, "5 tips, each spelled out by a nested program"),
        Workload("multi_chain", multi_chain, "5 chains of reasoning, merged"),
        Workload(
            "generative_agents",
            generative_agents,
            "calls of 2 to 20 tokens, one after the other",
            at_once=1,
        ),
        Workload("chat_short", partial(chats, long=False), "4 turns with short answers"),
        Workload("chat_long", partial(chats, long=True), "4 turns with long answers"),
        Workload("retrieval", retrieval, "10 passages asked apart, then merged"),
        Workload("json", extraction, "10 fields of a 200-token letter", JSON),
        Workload("zero_reuse", zero_reuse, "250-token prompts that share nothing"),
    )
}
