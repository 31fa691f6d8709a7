"""Does jump-forward change the answer? Greedy decode of the same prompts with jumps on and off.

    python -m benchmarks.jumps [--pairs 200] [--tokens 64] [--seed 0] [--json]

A pair is a MaskBench schema and a short document of it: the model is asked to write the document
as compact JSON, under the schema. Every difference between the two texts is a defect. The last
line is one JSON object: pairs, same, disagreements [{id, on, off}], same_tokens, forced_share
(of the tokens that the runs with jumps wrote).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tokenizers import Tokenizer

from agentrt import Message, Runtime
from agentrt.errors import SchemaError
from agentrt.runtime.codec import ModelCodec
from agentrt.runtime.models import resolve
from agentrt.schema import Grammar, Vocabulary, compile_schema, from_tokenizer
from benchmarks.data import rows
from benchmarks.report import finish, show

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentrt import Completion

_LONGEST_PROMPT = 700  # characters of schema and document together


@dataclass(frozen=True)
class Pair:
    name: str
    grammar: Grammar
    prompt: list[Message]


def provided_vocabulary() -> Vocabulary:
    """The vocabulary of the provided model, with all its end tokens."""
    files = resolve()
    ends = ModelCodec(files).eos_token_ids
    return from_tokenizer(Tokenizer.from_file(str(files.tokenizer)), ends)


def pairs(count: int, tokens: int, seed: int) -> list[Pair]:
    """Schemas of all splits with a document that fits the budget, the same ones each time."""
    vocabulary = provided_vocabulary()
    listed = rows("maskbench")
    random.Random(seed).shuffle(listed)
    out: list[Pair] = []
    for row in listed:
        out.extend(_pairs_of(row, vocabulary, tokens))
        if len(out) >= count:
            break
    return out[:count]


def _pairs_of(row: dict[str, Any], vocabulary: Vocabulary, tokens: int) -> Iterator[Pair]:
    schema = json.dumps(row["schema"])
    documents = [json.dumps(t["data"], indent=1) for t in row["tests"] if t["valid"]]
    short = [d for d in documents if len(schema) + len(d) <= _LONGEST_PROMPT]
    if not short:
        return
    try:
        grammar = compile_schema(row["schema"], vocabulary)
        if grammar.min_tokens > tokens:
            return
    except SchemaError:
        return
    text = f"Schema:\n{schema}\n\nData:\n{short[0]}\n\nWrite the data as compact JSON."
    yield Pair(row["id"], grammar, [Message(role="user", content=text)])


async def decoded(asked: list[Pair], tokens: int, *, jumps: bool) -> list[Completion]:
    """All pairs, decoded greedily over an empty cache."""

    async def one(runtime: Runtime, pair: Pair) -> Completion:
        constraint = pair.grammar if jumps else pair.grammar.without_jumps()
        return await runtime.generate(pair.prompt, constraint=constraint, max_tokens=tokens)

    async with Runtime(max_running=16) as runtime:
        return await asyncio.gather(*(one(runtime, pair) for pair in asked))


async def measure(args: argparse.Namespace) -> dict[str, Any]:
    asked = pairs(args.pairs, args.tokens, args.seed)
    on = await decoded(asked, args.tokens, jumps=True)
    off = await decoded(asked, args.tokens, jumps=False)
    differ = [
        {"id": pair.name, "on": a.text, "off": b.text}
        for pair, a, b in zip(asked, on, off, strict=True)
        if a.text != b.text
    ]
    written = sum(a.usage.output_tokens for a in on)
    return {
        "pairs": len(asked),
        "same": len(asked) - len(differ),
        "disagreements": differ,
        "same_tokens": sum(a.token_ids == b.token_ids for a, b in zip(on, off, strict=True)),
        "forced_share": round(sum(a.usage.forced_tokens for a in on) / max(1, written), 4),
        "sampled": [sum(c.usage.sampled_tokens for c in way) for way in (on, off)],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--tokens", type=int, default=64, help="most output tokens")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="only the last line")
    args = parser.parse_args()
    report = asyncio.run(measure(args))
    if not args.json:
        counts = [(k, report[k]) for k in ("pairs", "same", "same_tokens", "forced_share")]
        show("jumps on and off, greedy", ["", ""], counts)
        shown = [(d["id"], d["on"], d["off"]) for d in report["disagreements"]]
        show("disagreements", ["id", "on", "off"], shown)
    finish(report)


if __name__ == "__main__":
    main()
