"""Real inputs for benchmarks and tests: public datasets kept beside the checkout, when they are."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

DATA = Path(os.environ.get("AGENTRT_DATA", Path(__file__).parents[2] / "shared" / "data"))


def available() -> bool:
    return (DATA / "gsm8k_test.jsonl.gz").is_file()


def rows(name: str) -> list[Any]:
    """The lines of DATA/name.jsonl.gz, parsed."""
    with gzip.open(DATA / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def mixed_prompts(count: int) -> list[str]:
    """`count` prompts of mixed lengths, some sharing a prefix: questions, few-shot, essays, agents.

    The same ones each time; without the datasets, made-up ones of the same shapes.
    """
    kinds = _real() if available() else _made_up()
    picked = [kind[i] for i in range(max(map(len, kinds))) for kind in kinds if i < len(kind)]
    return picked[:count]


def _real() -> list[list[str]]:
    problems = rows("gsm8k_test")
    shots = "".join(f"Question: {p['question']}\nAnswer: {p['answer']}\n\n" for p in problems[:3])
    questions = [p["question"] for p in problems[3:]]
    essays = [str(essay) for essay in rows("judge_articles")]
    topics = [row["topic"] for row in rows("tip_topics")]
    trivia = [row["question"] for row in rows("hotpotqa_dev")]
    return [
        [f"Question: {q}\nAnswer:" for q in questions[:200]],
        [f"{shots}Question: {q}\nAnswer:" for q in questions[200:400]],
        [f"{q} The answer is" for q in trivia[:200]],
        [f"Write a few tips about {topic}:\n1." for topic in topics],
        [f"Judge this essay.\n\n{essay}\n\nThe essay is" for essay in essays],
        [essay[: 40 * (i + 1)] for i in range(20) for essay in essays[:2]],
    ]


def _made_up() -> list[list[str]]:
    shots = "".join(f"Question: what is {i} plus {i}?\nAnswer: {2 * i}\n\n" for i in range(12))
    return [
        [f"Question: what is {i} times {j}?\nAnswer:" for i in range(10) for j in range(10)],
        [f"{shots}Question: what is {i} minus {j}?\nAnswer:" for i in range(10) for j in range(9)],
        [f"Write {n} tips about growing tomatoes:\n1." for n in range(2, 60)],
    ]
