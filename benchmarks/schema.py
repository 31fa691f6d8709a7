"""How exact and how fast schemas are, on MaskBench data, with a real tokenizer.

    python benchmarks/schema.py --data ../shared/data/maskbench.jsonl.gz --tokenizer tokenizer.json

Takes `--limit` schemas of each of the ten largest splits. Each is compiled, each of its instances
is written as compact JSON, tokenised, and checked token by token against the masks, the end
included. "Right" schemas compiled, and every instance was judged as labelled. The last line of the
output is one JSON object.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from agentrt.errors import SchemaError
from agentrt.schema import Grammar, Vocabulary, compile_schema, from_tokenizer

LIMIT_S = 20.0


def sample(path: Path, limit: int, seed: int) -> list[dict[str, Any]]:
    """The schemas to measure: so many of each of the ten largest splits."""
    by_split: dict[str, list[dict[str, Any]]] = defaultdict(list)
    with gzip.open(path, "rt") as lines:
        for line in lines:
            row = json.loads(line)
            by_split[row["split"]].append(row)
    chosen = random.Random(seed)
    largest = sorted(by_split, key=lambda s: -len(by_split[s]))[:10]
    return [r for s in largest for r in chosen.sample(by_split[s], min(limit, len(by_split[s])))]


class Tally:
    """What one engine did."""

    def __init__(self) -> None:
        self.schemas = self.compiled = self.right = 0
        self.refused, self.accepted = [0, 0], [0, 0]
        self.first_mask: list[float] = []
        self.compile: list[float] = []
        self.masks: list[float] = []
        self.forced = self.tokens = 0
        self.problems: list[str] = []

    def summary(self) -> dict[str, Any]:
        return {
            "schemas": self.schemas,
            "compiled": self.compiled,
            "right": self.right,
            "valid_refused": self.refused,
            "invalid_accepted": self.accepted,
            "ttfm_ms": _quantiles(self.first_mask, 1e3, (50, 95, 100)),
            "compile_ms": _quantiles(self.compile, 1e3, (50, 95, 100)),
            "mask_us": _quantiles(self.masks, 1e6, (50, 95, 99)),
            "forced_share": round(self.forced / max(1, self.tokens), 4),
        }


def _quantiles(values: list[float], scale: float, at: tuple[int, ...]) -> dict[str, float]:
    found = np.percentile(np.array(values or [0.0]) * scale, at)
    names = ["max" if q == 100 else f"p{q}" for q in at]
    return dict(zip(names, (round(float(v), 2) for v in found), strict=True))


def judge(grammar: Grammar, text: bytes, tally: Tally) -> bool:
    """Whether the masks let the text through, token by token."""
    engine, matcher = grammar.engine, grammar.matcher(jump=False)
    end = min(engine.vocabulary.eos_ids)
    for token in [*engine.vocabulary.tokenise(text), end]:
        start = time.perf_counter()
        mask = matcher.next().mask  # type: ignore[union-attr]
        tally.masks.append(time.perf_counter() - start)
        if not mask[token >> 5] >> (token & 31) & 1:
            return False
        matcher.accept(token)
    return True


def count_forced(grammar: Grammar, text: bytes, tally: Tally) -> None:
    """Of the tokens of a valid text, those that jump-forward would write."""
    engine = grammar.engine
    current, at = engine.machine.start, 0
    while at < len(text):
        ids = engine.jumps.of(current)
        tally.forced += len(ids)
        if not ids:
            ids = tuple(engine.vocabulary.tokenise(text[at:])[:1])
        tally.tokens += len(ids)
        piece = b"".join(engine.vocabulary.tokens[i] or b"" for i in ids)
        following = engine.machine.run(current, piece)
        if following is None or not text.startswith(piece, at):
            tally.problems.append(f"the jump {piece!r} leaves the text {text[at : at + 40]!r}")
            return
        current, at = following, at + len(piece)


def measure(rows: list[dict[str, Any]], vocabulary: Vocabulary) -> Tally:
    tally = Tally()
    for row in rows:
        tally.schemas += 1
        start = time.perf_counter()
        try:
            grammar = compile_schema(row["schema"], vocabulary, key_order="any", deadline=LIMIT_S)
        except SchemaError as error:
            tally.problems.append(f"{row['id']}: {error}")
            for test in row["tests"]:
                (tally.refused if test["valid"] else tally.accepted)[1] += 1
            continue
        tally.compile.append(time.perf_counter() - start)
        grammar.matcher(jump=False).next()
        tally.first_mask.append(time.perf_counter() - start)
        tally.compiled += 1
        tally.right += _all_right(grammar, row, tally)
    return tally


def _all_right(grammar: Grammar, row: dict[str, Any], tally: Tally) -> bool:
    right = True
    for test in row["tests"]:
        text = json.dumps(test["data"], separators=(",", ":"), ensure_ascii=False).encode()
        let_through = judge(grammar, text, tally)
        counts = tally.refused if test["valid"] else tally.accepted
        counts[1] += 1
        if let_through != test["valid"]:
            counts[0] += 1
            right = False
            tally.problems.append(f"{row['id']}: judged {text[:100]!r} wrong")
        elif let_through:
            count_forced(grammar, text, tally)
    return right


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--tokenizer", type=Path, required=True, help="a tokenizer.json")
    parser.add_argument("--eos", type=int, default=2)
    parser.add_argument("--limit", type=int, default=30, help="schemas of each split")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    vocabulary = from_tokenizer(Tokenizer.from_file(str(options.tokenizer)), [options.eos])
    _ = vocabulary.trie.plain, vocabulary.trie.special
    compile_schema({"type": "string"}, vocabulary).matcher().next()
    tally = measure(sample(options.data, options.limit, options.seed), vocabulary)
    for problem in tally.problems:
        print(problem)
    print(json.dumps({"agentrt": tally.summary()}))


if __name__ == "__main__":
    main()
