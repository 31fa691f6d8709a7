"""Where to send a call when there are many replicas: what each way of routing finds cached.

    python -m benchmarks.replicas [--replicas 1,4,16,64,256,1000] [--programs 24] [--slots 60000]
                                  [--authors 1000] [--seed 0] [--json]

A simulation: no model runs. --programs programs for each replica (benchmarks/traffic.py), 12 of
them at a time for each, send their calls by one of three ways:

- random: any replica
- hash: by a consistent hash of the prompt's first segment, so that an author's programs meet
- match: the replica with the longest cached prefix among those whose calls in flight are not over
  1.25 times the mean by more than two; where none has any, the less busy of two drawn at random

A replica keeps a prefix cache of --slots tokens, least recently used out first, and serves its
calls in the order they came: a prompt token that is not cached takes 1, an output token 4 (about
what they take on a CPU, batched). What is left out: the network, the router's own time and the age
of what it knows, failures, and calls that wait for a prefix that another is just computing.

`hit_rate` is the cached share of prompt tokens, `best_hit_rate` that of one cache without end,
`imbalance` the busiest replica's time over the mean, `efficiency` the time that the least work
(every distinct prefix once, every output) would take, evenly shared, over the time it took.
The last line is one JSON object: replicas {count: {way: figures}}. --json leaves out the table and
the progress bar.
"""

from __future__ import annotations

import heapq
import random
from bisect import bisect
from collections import OrderedDict, defaultdict
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import count, islice
from typing import TYPE_CHECKING

from rich.progress import Progress

from benchmarks.report import console, finish, given, options, show
from benchmarks.traffic import Call, Traffic, least_computed

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

WAYS = ("random", "hash", "match")
AT_ONCE = 12
OUTPUT_TOKEN = 4
OVER, SLACK = 1.25, 2
POINTS = 64
Figures = dict[str, float]


class Replica:
    """A prefix cache, and a queue of calls served one after the other."""

    def __init__(
        self, number: int, slots: int, traffic: Traffic, holders: dict[int, set[Replica]]
    ) -> None:
        self.number = number
        self.in_flight = 0
        self.busy = 0.0
        self._free_at = 0.0
        self._room = slots
        self._lengths = traffic.lengths
        self._holders = holders
        self._cached: OrderedDict[int, None] = OrderedDict()

    @property
    def load(self) -> tuple[int, int]:
        """Less is freer; no two are alike, so that a seed settles everything."""
        return self.in_flight, self.number

    def matched(self, call: Call) -> int:
        """Prompt tokens that are cached."""
        found = 0
        for segment in call.prompt:
            if segment not in self._cached:
                break
            found += self._lengths[segment]
        return found

    def serve(self, call: Call, tokens: int, now: float) -> tuple[float, int]:
        """When the call will be done, and how many of its prompt tokens were cached."""
        matched = self.matched(call)
        took = tokens - matched + OUTPUT_TOKEN * self._lengths[call.written]
        self._keep(call)
        self.in_flight += 1
        self.busy += took
        self._free_at = max(self._free_at, now) + took
        return self._free_at, matched

    def _keep(self, call: Call) -> None:
        # From the leaf up: a parent is always the more recent, so leaves go first.
        for segment in reversed(call.whole):
            if segment in self._cached:
                self._cached.move_to_end(segment)
            else:
                self._cached[segment] = None
                self._room -= self._lengths[segment]
                self._holders[segment].add(self)
        while self._room < 0:
            segment, _ = self._cached.popitem(last=False)
            self._room += self._lengths[segment]
            self._holders[segment].discard(self)


@dataclass
class Fleet:
    """Replicas, and the ways to choose one for a call."""

    replicas: list[Replica]
    holders: dict[int, set[Replica]]
    rng: random.Random
    in_flight: int = 0
    ring: list[tuple[int, Replica]] = field(default_factory=list)

    @classmethod
    def of(cls, number: int, slots: int, traffic: Traffic, seed: int) -> Fleet:
        holders: dict[int, set[Replica]] = defaultdict(set)
        replicas = [Replica(place, slots, traffic, holders) for place in range(number)]
        points = [
            (_hash(f"{replica.number}:{point}"), replica)
            for replica in replicas
            for point in range(POINTS)
        ]
        ring = sorted(points, key=lambda point: point[0])
        return cls(replicas, holders, random.Random(seed), ring=ring)

    def random(self, _: Call) -> Replica:
        return self.rng.choice(self.replicas)

    def hash(self, call: Call) -> Replica:
        at = bisect(self.ring, _hash(str(call.prompt[0])), key=lambda point: point[0])
        return self.ring[at % len(self.ring)][1]

    def match(self, call: Call) -> Replica:
        most = OVER * self.in_flight / len(self.replicas) + SLACK
        for segment in reversed(call.prompt):
            # The holders of a segment hold all before it as well.
            free = [replica for replica in self.holders[segment] if replica.in_flight <= most]
            if free:
                return min(free, key=lambda replica: replica.load)
        return min(self.rng.choices(self.replicas, k=2), key=lambda replica: replica.load)


def _hash(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")


class Run:
    """All programs of some traffic on a fleet, a new one for each that ends."""

    def __init__(self, traffic: Traffic, fleet: Fleet, route: Callable[[Call], Replica]) -> None:
        self.calls: list[Call] = []
        self.prompt_tokens = self.cached = 0
        self.now = 0.0
        self._traffic, self._fleet, self._route = traffic, fleet, route
        self._events: list[tuple[float, int, Replica, _Wave]] = []
        self._order = count()

    def finish(self, programs: Iterator[Iterator[list[Call]]], at_once: int) -> None:
        for program in islice(programs, at_once):
            self._next_wave(program)
        while self._events:
            self.now, _, replica, wave = heapq.heappop(self._events)
            replica.in_flight -= 1
            self._fleet.in_flight -= 1
            wave.left -= 1
            if not wave.left and not self._next_wave(wave.program):
                for program in islice(programs, 1):
                    self._next_wave(program)

    def _next_wave(self, program: Iterator[list[Call]]) -> bool:
        """Sends a program's next calls; False when it has no more."""
        calls = next(program, None)
        if calls is None:
            return False
        wave = _Wave(program, len(calls))
        for call in calls:
            tokens = self._traffic.tokens(call.prompt)
            replica = self._route(call)
            done, cached = replica.serve(call, tokens, self.now)
            self._fleet.in_flight += 1
            self.prompt_tokens += tokens
            self.cached += cached
            self.calls.append(call)
            heapq.heappush(self._events, (done, next(self._order), replica, wave))
        return True


@dataclass(slots=True)
class _Wave:
    program: Iterator[list[Call]]
    left: int


def simulate(args: argparse.Namespace, number: int, way: str) -> Figures:
    """The figures of one way of routing over so many replicas."""
    traffic = Traffic(random.Random(args.seed), args.authors)
    fleet = Fleet.of(number, args.slots, traffic, args.seed)
    run = Run(traffic, fleet, getattr(fleet, way))
    run.finish(traffic.programs(args.programs * number), AT_ONCE * number)
    busy = [replica.busy for replica in fleet.replicas]
    least = least_computed(traffic, run.calls)
    written = traffic.tokens(tuple(call.written for call in run.calls))
    return {
        "calls": len(run.calls),
        "hit_rate": run.cached / run.prompt_tokens,
        "best_hit_rate": 1 - least / run.prompt_tokens,
        "imbalance": max(busy) * number / sum(busy),
        "efficiency": (least + OUTPUT_TOKEN * written) / (number * run.now),
    }


def compare(args: argparse.Namespace, progress: Progress) -> dict[int, dict[str, Figures]]:
    """Every way over every number of replicas."""
    cases = [(number, way) for number in args.replicas for way in WAYS]
    measured: dict[int, dict[str, Figures]] = {number: {} for number in args.replicas}
    for number, way in progress.track(cases, description="replicas"):
        measured[number][way] = simulate(args, number, way)
    return measured


def main() -> None:
    parser = options(__doc__, repeat=1)
    parser.add_argument("--replicas", default="1,4,16,64,256,1000")
    parser.add_argument("--programs", type=int, default=24, help="for each replica")
    parser.add_argument("--slots", type=int, default=60_000, help="cached tokens of a replica")
    parser.add_argument("--authors", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=0)
    args = given(parser)
    args.replicas = [int(number) for number in args.replicas.split(",")]
    with Progress(console=console, disable=args.json) as progress:
        measured = compare(args, progress)
    if not args.json:
        rows = [
            (number, way, *figures.values())
            for number, by_way in measured.items()
            for way, figures in by_way.items()
        ]
        columns = ["replicas", "way", "calls", "hit rate", "best", "imbalance", "efficiency"]
        show("Routing over replicas", columns, rows)
    finish({"replicas": measured})


if __name__ == "__main__":
    main()
