"""How exact and how fast schemas are, on MaskBench data, with a real tokenizer, beside peers.

    python -m benchmarks.schema [--data maskbench.jsonl.gz] [--tokenizer tokenizer.json]
        [--limit 30] [--peers xgrammar,llguidance,outlines-core] [--walks 100]

Takes `--limit` schemas of each of the ten largest splits. Each is compiled, each of its instances
is written as compact JSON, tokenised, and checked token by token against the masks, the end
included. What is worked out is kept in a folder that is empty when a run begins, so that
compiling is measured cold. "Right" schemas compiled, and every instance was judged as labelled.
Every engine has a process of its own, in which a schema that takes too long in all counts as not
compiled. A peer that is not installed is skipped. The last line of the output is one JSON object:
for each engine schemas, compiled, right, valid_refused and invalid_accepted [n, of], ttfm_ms and
compile_ms {p50, p95, max}, mask_us {p50, p95, p99}, forced_share. With `--walks N` agentrt also
writes N outputs of each schema with a random choice among the tokens allowed, and `walks` says how
many schemas and outputs there were, how many were wrong (cut, no JSON, or refused by jsonschema
with formats checked), and how many schemas were refused or took too long to walk.
"""

from __future__ import annotations

import argparse
import gc
import gzip
import json
import multiprocessing
import os
import random
import sys
import tempfile
import time
from collections import defaultdict
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from tokenizers import Tokenizer

from agentrt.runtime.models import resolve
from agentrt.schema import Vocabulary, from_tokenizer
from benchmarks.data import DATA
from benchmarks.report import finish, show
from benchmarks.schema_engines import ENGINES, Engine, Refused, Session
from benchmarks.schema_walks import wrong_walks

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection

Row = dict[str, Any]


def sample(path: Path, limit: int, seed: int) -> list[Row]:
    """The schemas to measure: so many of each of the ten largest splits."""
    by_split: dict[str, list[Row]] = defaultdict(list)
    with gzip.open(path, "rt") as lines:
        for line in lines:
            row = json.loads(line)
            by_split[row["split"]].append(row)
    chosen = random.Random(seed)
    largest = sorted(by_split, key=lambda s: -len(by_split[s]))[:10]
    return [r for s in largest for r in chosen.sample(by_split[s], min(limit, len(by_split[s])))]


class Judge:
    """Puts the instances of a schema through an engine."""

    def __init__(self, engine: Engine, vocabulary: Vocabulary, clock: Callable[[], float]) -> None:
        self.engine = engine
        self.vocabulary = vocabulary
        self.clock = clock

    def row(self, row: Row) -> Row:
        """What became of a schema: seconds, and for each instance whether it was let through."""
        start = self.clock()
        try:
            grammar = self.engine.compile(row["schema"])
        except Refused as refused:
            return {"refused": str(refused)}
        compiled = self.clock() - start
        self.engine.begin(grammar).mask()
        out: Row = {"compile": compiled, "first": self.clock() - start, "masks": [], "passed": []}
        out |= {"forced": 0, "tokens": 0, "strayed": []}
        for test in row["tests"]:
            text = json.dumps(test["data"], separators=(",", ":"), ensure_ascii=False).encode()
            passed = self._passes(self.engine.begin(grammar), text, out["masks"])
            out["passed"].append(passed)
            if passed and test["valid"]:
                self._count_forced(self.engine.begin(grammar), text, out)
        return out

    def _passes(self, session: Session, text: bytes, masks: list[float]) -> bool:
        """Whether the masks let the text through, token by token, and then its end."""
        end = min(self.vocabulary.eos_ids)
        for token in [*self.vocabulary.tokenise(text), end]:
            start = self.clock()
            mask = session.mask()
            masks.append(self.clock() - start)
            if not mask[token >> 5] >> (token & 31) & 1:
                return False
            if token != end:
                session.accept(token)
        return True

    def _count_forced(self, session: Session, text: bytes, out: Row) -> None:
        """Of the tokens of a valid text, those that need no model."""
        at, rest = 0, self.vocabulary.tokenise(text)
        while at < len(text):
            ids = session.forced()
            out["forced"] += len(ids)
            if ids:
                rest = []
            else:
                # cut anew after a jump, which need not end where a token does
                rest = rest or self.vocabulary.tokenise(text[at:])
                ids = [rest.pop(0)]
            out["tokens"] += len(ids)
            piece = b"".join(self.vocabulary.tokens[i] or b"" for i in ids)
            if not text.startswith(piece, at):
                out["strayed"].append(f"{piece!r} is forced before {text[at : at + 40]!r}")
                return
            at += len(piece)
            for token in ids:
                session.accept(token)


class Walker:
    """Writes outputs of a schema at random."""

    def __init__(self, engine: Engine, count: int) -> None:
        self.engine = engine
        self.count = count

    def row(self, row: Row) -> Row:
        try:
            grammar = self.engine.compile(row["schema"])
        except Refused as refused:
            return {"refused": str(refused)}
        return {"wrong": wrong_walks(row["schema"], grammar, count=self.count)}


def serve(name: str, options: argparse.Namespace, walks: int, rows: Connection) -> None:
    """Judges the schemas that come in, or writes outputs of them, in a process of its own."""
    vocabulary = from_tokenizer(Tokenizer.from_file(str(options.tokenizer)), [options.eos])
    engine = ENGINES[name][1](vocabulary, str(options.tokenizer), options.seconds)
    clock = time.process_time if options.clock == "cpu" else time.perf_counter
    judge = Walker(engine, walks) if walks else Judge(engine, vocabulary, clock)
    gc.collect()
    gc.freeze()
    rows.send("ready")
    while True:
        rows.send(judge.row(rows.recv()))


class Worker:
    """A process that serves an engine, begun anew where a schema ends it or keeps it too long."""

    def __init__(
        self, name: str, options: argparse.Namespace, seconds: float, *, walks: int = 0
    ) -> None:
        self.name = name
        self.options = options
        self.seconds = seconds
        self.walks = walks
        self._begin()

    def _begin(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.rows, theirs = context.Pipe()
        self.process = context.Process(
            target=serve, args=(self.name, self.options, self.walks, theirs)
        )
        self.process.start()
        theirs.close()
        self.rows.recv()

    def judge(self, row: Row) -> Row:
        self.rows.send(row)
        try:
            if self.rows.poll(self.seconds):
                return self.rows.recv()
            found = f"took more than {self.seconds:g} s"
        except EOFError:
            found = "ended the process"
        self.end()
        self._begin()
        return {"refused": found}

    def end(self) -> None:
        self.process.kill()
        self.process.join()


class Tally:
    """What one engine did."""

    def __init__(self) -> None:
        self.schemas = self.compiled = self.right = self.forced = self.tokens = 0
        self.refused, self.accepted = [0, 0], [0, 0]
        self.seconds: dict[str, list[float]] = {"first": [], "compile": [], "masks": []}
        self.problems: list[str] = []

    def add(self, row: Row, judged: Row) -> None:
        self.schemas += 1
        passed: list[bool | None] = judged.get("passed", [None] * len(row["tests"]))
        right = "refused" not in judged
        self.compiled += right
        if not right:
            self.problems.append(f"{row['id']}: {judged['refused']:.300}")
        for test, let_through in zip(row["tests"], passed, strict=True):
            counts = self.refused if test["valid"] else self.accepted
            counts[1] += 1
            if let_through is not None and let_through != test["valid"]:
                counts[0] += 1
                right = False
                self.problems.append(f"{row['id']}: judged {test['data']!s:.100} wrong")
        self.right += right
        self.problems += [f"{row['id']}: {text}" for text in judged.get("strayed", ())]
        for name, values in self.seconds.items():
            found = judged.get(name, [])
            values += found if isinstance(found, list) else [found]
        self.forced += judged.get("forced", 0)
        self.tokens += judged.get("tokens", 0)

    def summary(self) -> Row:
        return {
            "schemas": self.schemas,
            "compiled": self.compiled,
            "right": self.right,
            "valid_refused": self.refused,
            "invalid_accepted": self.accepted,
            "ttfm_ms": _quantiles(self.seconds["first"], 1e3, (50, 95, 100)),
            "compile_ms": _quantiles(self.seconds["compile"], 1e3, (50, 95, 100)),
            "mask_us": _quantiles(self.seconds["masks"], 1e6, (50, 95, 99)),
            "forced_share": round(self.forced / max(1, self.tokens), 4),
        }


def _quantiles(values: list[float], scale: float, at: tuple[int, ...]) -> dict[str, float]:
    found = np.percentile(np.array(values or [0.0]) * scale, at)
    names = ["max" if q == 100 else f"p{q}" for q in at]
    return dict(zip(names, (round(float(v), 2) for v in found), strict=True))


def measure(name: str, rows: list[Row], options: argparse.Namespace) -> Row:
    tally, worker = Tally(), Worker(name, options, options.seconds)
    for row in rows:
        tally.add(row, worker.judge(row))
    worker.end()
    if name == "agentrt" or options.problems:
        for problem in tally.problems:
            print(f"{name}: {problem}", file=sys.stderr)
    return tally.summary()


def walked(rows: list[Row], options: argparse.Namespace) -> Row:
    """What became of random outputs."""
    worker = Worker("agentrt", options, options.seconds * 10, walks=options.walks)
    judged = {row["id"]: worker.judge(row) for row in rows}
    worker.end()
    wrong = {key: found["wrong"] for key, found in judged.items() if found.get("wrong")}
    unwalked = {key: found["refused"] for key, found in judged.items() if "refused" in found}
    for key, problem in [*wrong.items(), *unwalked.items()]:
        print(f"walks of {key}: {problem}", file=sys.stderr)
    schemas = len(judged) - len(unwalked)
    return {
        "schemas": schemas,
        "outputs": schemas * options.walks,
        "wrong": sum(map(len, wrong.values())),
        "not_walked": len(unwalked),
    }


def _chosen(peers: str) -> list[str]:
    asked = {peer.strip().replace("-", "_") for peer in peers.split(",") if peer.strip()}
    missing = {peer for peer in asked if find_spec(peer) is None}
    for peer in sorted(missing):
        print(f"{peer} is not installed: skipped", file=sys.stderr)
    return [n for n, (m, _) in ENGINES.items() if m == "agentrt" or m in asked - missing]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA / "maskbench.jsonl.gz")
    parser.add_argument(
        "--tokenizer", type=Path, help="a tokenizer.json; that of the provided model by default"
    )
    parser.add_argument("--eos", type=int, default=2)
    parser.add_argument("--limit", type=int, default=30, help="schemas of each split")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--peers", default="", help="xgrammar,llguidance,outlines-core")
    parser.add_argument(
        "--clock", choices=["wall", "cpu"], default="wall", help="cpu: on a machine that is shared"
    )
    parser.add_argument("--seconds", type=float, default=20.0, help="the most for one schema")
    parser.add_argument("--walks", type=int, default=0, help="random outputs of each schema")
    parser.add_argument("--problems", action="store_true", help="print those of peers too")
    options = parser.parse_args()
    if options.tokenizer is None:
        options.tokenizer = resolve(None).folder / "tokenizer.json"
    rows = sample(options.data, options.limit, options.seed)
    with tempfile.TemporaryDirectory(prefix="agentrt-cold-") as folder:
        os.environ["AGENTRT_CACHE_DIR"] = folder  # the workers', empty
        measured = {name: measure(name, rows, options) for name in _chosen(options.peers)}
        walks = {"walks": walked(rows, options)} if options.walks else {}
    show(
        f"{len(rows)} schemas",
        ["engine", "compiled", "right", "valid refused", "invalid accepted", "first mask ms p50/95",
         "mask us p50/95/99", "forced"],
        [
            (
                name, m["compiled"], m["right"], "{} of {}".format(*m["valid_refused"]),
                "{} of {}".format(*m["invalid_accepted"]),
                "{p50} / {p95}".format(**m["ttfm_ms"]),
                "{p50} / {p95} / {p99}".format(**m["mask_us"]), m["forced_share"],
            )
            for name, m in measured.items()
        ],
    )  # fmt: skip
    finish(measured | walks)


if __name__ == "__main__":
    main()
