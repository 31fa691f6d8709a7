"""The texts that workloads are made of: real ones where the datasets are, else seeded sentences."""

from __future__ import annotations

import random
from functools import cache
from typing import Any

from benchmarks.data import available, rows

_WORDS = (
    "the a of to in and river market engine garden letter winter copper village teacher music "
    "harbour paper bridge summer lantern story kitchen forest window silver doctor island "
    "morning carries finds follows builds leaves opens remembers crosses answers holds quiet "
    "early distant narrow heavy bright careful second northern old under beside after before"
)
WORDS = _WORDS.split()


def prose(rng: random.Random, words: int) -> str:
    """Made-up sentences, about 1.2 tokens a word."""
    picked = [rng.choice(WORDS) for _ in range(words)]
    sentences = [picked[at : at + 12] for at in range(0, words, 12)]
    return " ".join(" ".join(sentence).capitalize() + "." for sentence in sentences)


def problems() -> list[dict[str, str]]:
    """Sums in words, with a worked answer."""
    if available():
        return rows("gsm8k_test")
    rng = random.Random(1)
    return [
        {"question": f"{prose(rng, 30)} How many?", "answer": f"{prose(rng, 40)} #### {n}"}
        for n in range(120)
    ]


def trivia() -> list[dict[str, str]]:
    """Questions with a short answer."""
    if available():
        return rows("hotpotqa_dev")
    rng = random.Random(2)
    return [{"question": prose(rng, 16), "answer": prose(rng, 2)} for _ in range(200)]


@cache
def essays() -> list[str]:
    """Texts of about a thousand tokens."""
    if available():
        return [str(essay) for essay in rows("judge_articles")]
    rng = random.Random(3)
    return [prose(rng, 800) for _ in range(15)]


def topics() -> list[str]:
    if available():
        return [row["topic"] for row in rows("tip_topics")]
    rng = random.Random(4)
    return [prose(rng, 4) for _ in range(50)]


def puzzles() -> list[list[int]]:
    """Four numbers each, to be made into 24."""
    if available():
        return [row["numbers"] for row in rows("game24")]
    rng = random.Random(5)
    return [[rng.randint(1, 13) for _ in range(4)] for _ in range(50)]


def episodes() -> list[tuple[str, list[dict[str, str]]]]:
    """Questions with the recorded steps (thought, action, observation) of an agent."""
    if available():
        return [next(iter(row.items())) for row in rows("react_hotpotqa")]
    rng = random.Random(6)

    def step() -> dict[str, str]:
        thought, found = prose(rng, 24), prose(rng, 90)
        return {"thought": thought, "action": "Search[it]", "observation": found}

    return [(f"Question: {prose(rng, 16)}", [step() for _ in range(4)]) for _ in range(50)]


def chunks(words: int, count: int) -> list[str]:
    """Passages of so many words, none the same as another: cut from the essays, then made up."""
    texts = [essay.split() for essay in essays()]
    cut = [
        " ".join(text[at : at + words])
        for text in texts
        for at in range(0, len(text) - words + 1, words)
    ]
    rng = random.Random(words)
    made_up = [prose(rng, words) for _ in range(count - len(cut))]
    return (cut + made_up)[:count]


def documents(count: int) -> list[str]:
    """Letters of about 200 tokens that tell of an order."""
    rng = random.Random(7)
    return [_letter(rng, number) for number in range(count)]


def _letter(rng: random.Random, number: int) -> str:
    pick: Any = rng.choice
    name = f"{pick(('Ada', 'Jonas', 'Mei', 'Omar', 'Ruth'))} {pick(('Lind', 'Okoro', 'Vega'))}"
    town, street = pick(("Bergen", "Porto", "Leeds")), pick(("Mill Lane", "Harbour Road"))
    return (
        f"Dear team, this is {name} again, about order A-{1000 + number}. On "
        f"2024-0{rng.randint(1, 9)}-1{rng.randint(0, 9)} I ordered {rng.randint(2, 9)} "
        f"{pick(('lamps', 'chairs', 'kettles'))} at {rng.randint(10, 90)}.50 euros each, to be "
        f"sent to {rng.randint(1, 99)} {street} in {town}. {prose(rng, 60)} My phone is "
        f"555-0{rng.randint(100, 999)} and you can write to {name.split()[0].lower()}@example.org. "
        f"It is {pick(('urgent', 'not urgent'))}; I am {pick(('pleased', 'annoyed', 'patient'))}. "
        f"{prose(rng, 25)} Thank you."
    )
