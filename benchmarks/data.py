"""Real inputs for benchmarks and tests: public datasets kept beside the checkout, when they are.

docs/benchmarks.md says which files there are and where they come from.
"""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

VARIABLE = "AGENTRT_DATA"
BESIDE = Path(__file__).parents[2] / "shared" / "data"
NAMES = ("gsm8k_test", "hotpotqa_dev", "judge_articles", "tip_topics", "game24", "react_hotpotqa")


def folder() -> Path:
    """Where the datasets are looked for: what `use` said, else a folder beside the checkout."""
    return Path(os.environ.get(VARIABLE, BESIDE))


DATA = folder()
"""The same, as it is at import."""


def use(given: str | None) -> None:
    """Has datasets looked for in a folder, by the processes started from here too."""
    if given is not None:
        os.environ[VARIABLE] = given


def available() -> bool:
    return not missing()


def missing() -> list[str]:
    """The files that are not there; without any of them all texts are made up."""
    return [name for name in NAMES if not (folder() / f"{name}.jsonl.gz").is_file()]


def described() -> str:
    """What the texts of a run are, for its output."""
    if not (absent := missing()):
        return "public datasets"
    return f"seeded made-up texts ({', '.join(absent)}: not in {folder()}; --data names a folder)"


def rows(name: str) -> list[Any]:
    """The lines of a dataset, parsed."""
    with gzip.open(folder() / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
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
