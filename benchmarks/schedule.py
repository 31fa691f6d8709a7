"""How much of what could be cached each schedule policy finds cached, and what a step costs.

    python -m benchmarks.schedule [--seed 0] [--json]

No model runs: outputs are given. Every workload runs under every policy, in a pool too small to
keep all of it. The optimum is offline: each distinct prefix of the prompts is computed once, and
not even that where it is another call's output (SGLang, arXiv 2312.07104, section 3: depth-first
order reaches it when the cache holds the longest request and the batch is known beforehand).

The second table is the time `Scheduler.schedule` takes with so many waiting: with nobody let in,
and with somebody let in for one that ended. The last line is one JSON object; --json leaves out the
tables.
"""

from __future__ import annotations

import argparse
import random
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from agentrt.generation import SamplingParams
from agentrt.runtime.pool import SlotPool
from agentrt.runtime.radix import RadixCache
from agentrt.runtime.request import Request
from agentrt.runtime.scheduler import SchedulePolicy, Scheduler, SchedulerConfig
from benchmarks.prompt_trees import Call, Workload, made_up, workloads
from benchmarks.report import finish, show

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PARAMS = SamplingParams()
MASK = (1 << 61) - 1


@dataclass(frozen=True, slots=True)
class Result:
    """One workload under one policy. Counts are tokens."""

    workload: str
    batch: bool
    policy: str
    calls: int
    prompt_tokens: int
    pool_slots: int
    evicted: int
    retractions: int
    hit_rate: float
    optimum: float
    of_optimum: float


def prefixes(tokens: Sequence[int]) -> Iterator[int]:
    """A hash of each prefix."""
    at = 1
    for token in tokens:
        at = (at * 6364136223846793005 + token + 1) & MASK
        yield at


def least_computed(calls: Sequence[Call]) -> int:
    """Prompt tokens that have to be computed, if whatever was computed is kept."""
    asked: set[int] = set()
    produced: set[int] = set()  # all but the last output token, whose KV is never computed
    for call in calls:
        asked.update(prefixes(call.prompt))
        produced.update(list(prefixes(call.prompt + call.output[:-1]))[len(call.prompt) :])
    return len(asked - produced)


class Simulation:
    """A scheduler whose requests say what a workload has them say."""

    def __init__(self, workload: Workload, policy: SchedulePolicy, num_slots: int) -> None:
        self.pool = SlotPool(num_slots)
        self.cache = RadixCache(self.pool)
        self.scheduler = Scheduler(self.cache, self.pool, SchedulerConfig(policy=policy))
        self.calls = workload.calls
        self._then: dict[int, list[int]] = {}
        for index, call in enumerate(self.calls):
            if call.after is None or workload.batch:
                self._add(index)
            else:
                self._then.setdefault(call.after, []).append(index)

    def run(self) -> None:
        while self.scheduler.waiting or self.scheduler.running:
            for work in self.scheduler.schedule(0.0).work:
                if work.reaches_target:
                    self._sample(work.request)
        self.scheduler.check_integrity()

    def _add(self, index: int) -> None:
        call = self.calls[index]
        self.scheduler.add(
            Request(
                id=index, token_ids=[*call.prompt], params=PARAMS, max_tokens=len(call.output) * 2
            )
        )

    def _sample(self, request: Request) -> None:
        output = self.calls[request.id].output
        request.token_ids.append(output[request.output_len])
        if request.output_len == len(output):
            self.scheduler.finish(request)
            for index in self._then.pop(request.id, ()):
                self._add(index)


def compare(workload: Workload) -> list[Result]:
    calls = workload.calls
    total, least = sum(len(c.prompt) for c in calls), least_computed(calls)
    longest = max(len(c.prompt) + 2 * len(c.output) for c in calls)
    slots = max(3 * longest, least // 6)
    results: list[Result] = []
    for policy in SchedulePolicy:
        simulation = Simulation(workload, policy, slots)
        simulation.run()
        stats = simulation.scheduler.stats
        optimum = 1 - least / total
        results.append(
            Result(
                workload=workload.name,
                batch=workload.batch,
                policy=str(policy),
                calls=len(calls),
                prompt_tokens=total,
                pool_slots=slots,
                evicted=simulation.cache.stats.evicted,
                retractions=stats.retractions,
                hit_rate=stats.hit_rate,
                optimum=optimum,
                of_optimum=stats.hit_rate / optimum if optimum else 1.0,
            )
        )
    return results


class Crowd:
    """So many waiting, about 64 running in a pool that holds no more, one in for each that ends."""

    def __init__(self, policy: SchedulePolicy, waiting: int, rng: random.Random) -> None:
        # Of 560 prompt tokens each, 60 are its own.
        self._stems = [made_up(rng, 500, 500) for _ in range(1 + waiting // 50)]
        self._rng = rng
        pool = SlotPool(64 * (60 + 50) + 5 * 500)
        config = SchedulerConfig(policy=policy, max_waiting=2 * waiting)
        self.scheduler = Scheduler(RadixCache(pool), pool, config)
        self._added = 0
        for _ in range(waiting):
            self.add()

    def add(self) -> float:
        """Adds a request; seconds it took."""
        rng = self._rng
        prompt = [*rng.choice(self._stems), *made_up(rng, 60, 60)]
        request = Request(id=self._added, token_ids=prompt, params=PARAMS, max_tokens=100)
        self._added += 1
        start = time.perf_counter()
        self.scheduler.add(request)
        return time.perf_counter() - start

    def step(self) -> tuple[str, float, list[float]]:
        """Whether somebody was let in, the seconds it took, and those of each new request."""
        start = time.perf_counter()
        work = self.scheduler.schedule(0.0).work
        took = time.perf_counter() - start
        adding: list[float] = []
        for request, _, end in work:
            if end == request.target:
                request.token_ids.append(7)
                if request.output_len > request.id * 37 % 80 + 10:
                    self.scheduler.finish(request)
                    adding.append(self.add())
        let_in = any(begin < request.prompt_len for request, begin, _ in work)
        return "turning" if let_in else "full", took, adding


def step_cost(policy: SchedulePolicy, waiting: int, rng: random.Random) -> dict[str, object]:
    """Milliseconds of one `schedule` call with nobody or somebody let in, and of one `add`."""
    crowd = Crowd(policy, waiting, rng)
    for _ in range(100):
        crowd.step()
    times: dict[str, list[float]] = {"full": [], "turning": [], "add": []}
    while min(map(len, times.values())) < 30:
        kind, took, adding = crowd.step()
        times[kind].append(took)
        times["add"] += adding
    running = crowd.scheduler.running
    costs = {f"{kind}_ms": 1e3 * best_third(taken) for kind, taken in times.items()}
    return {"policy": str(policy), "waiting": waiting, "running": running} | costs


def best_third(times: list[float]) -> float:
    """The mean of the fastest third: other processes only ever add."""
    kept = sorted(times)[: max(1, len(times) // 3)]
    return sum(kept) / len(kept)


def report_on(seed: int, *, quiet: bool) -> dict[str, Any]:
    results = [r for w in workloads(random.Random(seed)) for r in compare(w)]
    costs = [
        step_cost(policy, waiting, random.Random(seed))
        for policy in SchedulePolicy
        for waiting in (100, 1_000, 10_000)
    ]
    if not quiet:
        columns = list(Result.__dataclass_fields__)
        show("Cached share of the prompts", columns, [list(asdict(r).values()) for r in results])
        show("Milliseconds of one schedule() call", list(costs[0]), [c.values() for c in costs])
    batches = [r.of_optimum for r in results if r.batch and r.policy == SchedulePolicy.LPM]
    return {
        "seed": seed,
        "results": [asdict(r) for r in results],
        "step_cost": costs,
        "lpm_batch_of_optimum": {
            "least": min(batches),
            "mean": sum(batches) / len(batches),
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="no tables")
    args = parser.parse_args()
    finish(report_on(args.seed, quiet=args.json))


if __name__ == "__main__":
    main()
