"""Sets of calls whose prompts share prefixes: made-up trees and real ones, as token ids."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from zlib import crc32

from benchmarks.data import available, rows

if TYPE_CHECKING:
    import random
    from collections.abc import Iterable

VOCABULARY = 50_000


@dataclass(frozen=True, slots=True)
class Call:
    """One generation: its prompt, its output, and the call (by index) that has to finish first."""

    prompt: tuple[int, ...]
    output: tuple[int, ...]
    after: int | None = None


@dataclass(frozen=True, slots=True)
class Workload:
    """`batch`: all calls are there from the start, in random order; otherwise each comes when the
    one it waits for has finished."""

    name: str
    calls: list[Call]
    batch: bool


def words(text: str) -> tuple[int, ...]:
    """A token for each word: enough to share prefixes as the text does."""
    return tuple(crc32(word.encode()) % VOCABULARY for word in text.split())


def workloads(rng: random.Random) -> list[Workload]:
    made_up = [
        batch("tree, shallow and wide", tree(rng, fan_out=(12, 40), edge=(300, 60)), rng),
        batch("tree, deep", tree(rng, fan_out=(3, 3, 4, 3, 4), edge=(60, 90, 120, 60, 40)), rng),
        batch("tree, uneven", uneven_tree(rng, 800), rng),
        batch("10 prefixes x 32", tree(rng, fan_out=(10, 32), edge=(1024, 128)), rng),
        Workload("20 chats x 4 turns", chats(rng), batch=False),
    ]
    return made_up + (real(rng) if available() else [])


def real(rng: random.Random) -> list[Workload]:
    return [
        batch("gsm8k, 12 few-shot sets", gsm8k(), rng),
        batch("judge, all known", [c.prompt for c in judge(rng)], rng),
        batch("react, all known", [c.prompt for c in react()], rng),
        Workload("judge, as programs", judge(rng), batch=False),
        Workload("react, as programs", react(), batch=False),
    ]


def batch(name: str, prompts: Iterable[tuple[int, ...]], rng: random.Random) -> Workload:
    shuffled = list(prompts)
    rng.shuffle(shuffled)
    return Workload(name, [Call(p, made_up(rng, 8, 64)) for p in shuffled], batch=True)


def made_up(rng: random.Random, least: int, most: int) -> tuple[int, ...]:
    return tuple(rng.randrange(VOCABULARY) for _ in range(rng.randint(least, most)))


def tree(
    rng: random.Random, *, fan_out: tuple[int, ...], edge: tuple[int, ...]
) -> list[tuple[int, ...]]:
    """The leaves of a tree of so many children and about so many tokens at each depth."""
    prompts: list[tuple[int, ...]] = [()]
    for children, length in zip(fan_out, edge, strict=True):
        prompts = [
            prompt + made_up(rng, length // 2, 2 * length - length // 2)
            for prompt in prompts
            for _ in range(children)
        ]
    return prompts


def uneven_tree(rng: random.Random, size: int) -> list[tuple[int, ...]]:
    """Each prompt goes on from a random part of an earlier one: some far more often than others."""
    prompts = [made_up(rng, 50, 400)]
    while len(prompts) < size:
        stem = prompts[int(len(prompts) * rng.random() ** 2)]
        cut = rng.randint(len(stem) // 2, len(stem))
        prompts.append(stem[: min(cut, 1200)] + made_up(rng, 10, 200))
    return prompts


def chats(rng: random.Random) -> list[Call]:
    """20 chats of 4 turns: each turn's prompt is all that was said before and a new message."""
    calls: list[Call] = []
    for _ in range(20):
        said: tuple[int, ...] = ()
        for turn in range(4):
            said += made_up(rng, 256, 512)
            output = made_up(rng, 4, 8)
            calls.append(Call(said, output, len(calls) - 1 if turn else None))
            said += output
    return calls


def gsm8k() -> list[tuple[int, ...]]:
    """50 questions after each of 12 sets of five worked examples."""
    problems = rows("gsm8k_test")
    prompts: list[tuple[int, ...]] = []
    for at in range(0, 12 * 55, 55):
        shots, asked = problems[at : at + 5], problems[at + 5 : at + 55]
        stem = "".join(f"Question: {p['question']} Answer: {p['answer']} " for p in shots)
        prompts += [words(f"{stem} Question: {p['question']} Answer:") for p in asked]
    return prompts


def judge(rng: random.Random) -> list[Call]:
    """Six views of each essay, and a verdict on what the last of them to be asked for said."""
    views = ("Clarity", "Originality", "Evidence", "Organisation", "Grammar", "Impact")
    calls: list[Call] = []
    for essay in rows("judge_articles"):
        stem = f"Please judge the essay below, one dimension at a time. {essay} "
        said: list[tuple[int, ...]] = []
        for view in views:
            said.append(made_up(rng, 60, 256))
            calls.append(Call(words(f"{stem} Judge it on this dimension: {view}."), said[-1]))
        verdict = words(f"{stem} Its judges said:") + sum(said, ())
        calls.append(Call(verdict, made_up(rng, 8, 32), len(calls) - 1))
    return calls


def react() -> list[Call]:
    """Agents that think, act and read: each step's prompt is all before it and what came back."""
    recorded = [next(iter(row.items())) for row in rows("react_hotpotqa")]

    def told(steps: list[dict[str, str]]) -> str:
        return " ".join(f"{s['thought']} {s['action']} {s['observation']}" for s in steps)

    examples = " ".join(f"{question} {told(steps)}" for question, steps in recorded[:4])
    calls: list[Call] = []
    for question, steps in recorded[4:]:
        said = words(f"Answer by turns of thought, action and observation. {examples} {question}")
        for turn, step in enumerate(steps):
            output = words(f"{step['thought']} {step['action']}")
            calls.append(Call(said, output, len(calls) - 1 if turn else None))
            said += output + words(step["observation"])
    return calls
