"""An engine without a model, that knows what every KV slot must hold and what every output must be.

The KV of a token stands for everything up to it, so a slot "holds" a hash of the whole prefix, and
the next token is a function of that hash. A step writes all its slots before it reads any, as the
layers of a model do, and checks every slot that any row attends to.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from agentrt.generation import SamplingParams
from agentrt.runtime.layout import layout
from agentrt.runtime.pool import SlotPool
from agentrt.runtime.radix import RadixCache
from agentrt.runtime.request import Request, RequestStatus
from agentrt.runtime.scheduler import Decision, Scheduler, SchedulerConfig

PARAMS = SamplingParams()
MASK = (1 << 62) - 1
VOCABULARY = 50_000


def extended(prefix_hash: int, token: int) -> int:
    return (prefix_hash * 6364136223846793005 + token * 1442695040888963407 + 1) & MASK


def prefix_hashes(token_ids: list[int], namespace: str = "") -> list[int]:
    """What the slot of each token must hold."""
    at = sum((i + 1) * byte for i, byte in enumerate(namespace.encode()))
    hashes = []
    for token in token_ids:
        at = extended(at, token)
        hashes.append(at)
    return hashes


def next_token(prefix_hash: int) -> int:
    return (prefix_hash >> 20) % VOCABULARY


def expected_output(prompt: list[int], n: int, namespace: str = "") -> list[int]:
    """The first n output tokens of a prompt, whatever else runs."""
    at, output = prefix_hashes(prompt, namespace)[-1], []
    for _ in range(n):
        output.append(next_token(at))
        at = extended(at, output[-1])
    return output


def prompt(seed: int, n: int) -> list[int]:
    """n random tokens."""
    return np.random.default_rng(seed).integers(0, VOCABULARY, n).tolist()


def spans(decision: Decision) -> list[tuple[int, int, int]]:
    """Request id, start and end of each piece of work."""
    return [(w.request.id, w.start, w.end) for w in decision.work]


@dataclass
class FakeEngine:
    """Runs a scheduler; every step is checked against the books and the memory."""

    num_slots: int
    config: SchedulerConfig = field(default_factory=SchedulerConfig)

    def __post_init__(self) -> None:
        self.pool = SlotPool(self.num_slots)
        self.cache = RadixCache(self.pool)
        self.scheduler = Scheduler(self.cache, self.pool, self.config)
        self.memory = [-1] * self.num_slots
        self.prompts: dict[Request, list[int]] = {}
        self.hashes: dict[Request, list[int]] = {}
        self.added = 0
        self.steps = 0
        self.computed = 0
        self.peak_running = 0
        self.finished: list[Request] = []
        self.admissions: list[Request] = []
        self.decisions: list[Decision] = []

    def add(self, prompt: list[int], max_tokens: int = 1, **options) -> Request:
        request = Request(
            id=self.added,
            token_ids=list(prompt),
            params=PARAMS,
            max_tokens=max_tokens,
            **options,
        )
        self.scheduler.add(request)
        self.added += 1
        self.prompts[request] = list(prompt)
        return request

    def step(self, now: float = 0.0) -> Decision:
        """Schedules, checks and commits one step."""
        decision = self.decide(now)
        self.commit(decision)
        self.scheduler.check_integrity()
        return decision

    def run(self, limit: int = 100_000) -> None:
        """Steps until nobody is left."""
        while self.scheduler.waiting or self.scheduler.running:
            decision = self.step()
            assert decision.work, "somebody is left and nothing was decided"
            assert self.steps < limit, f"no end after {limit} steps: {self.scheduler!r}"

    def decide(self, now: float = 0.0) -> Decision:
        decision = self.scheduler.schedule(now)
        self.steps += 1
        self.computed += decision.num_tokens
        self.peak_running = max(self.peak_running, self.scheduler.running)
        self.decisions.append(decision)
        seen = set(self.admissions)
        self.admissions += [r for r in self.scheduler._books.running if r not in seen]
        self.execute(decision)
        return decision

    def execute(self, decision: Decision) -> None:
        """Writes the slots of all new tokens, then reads all slots that are attended to."""
        budget = self.config.max_step_tokens
        assert budget is None or decision.num_tokens <= budget
        assert len({w.request for w in decision.work}) == len(decision.work)
        flat = layout(decision)
        assert flat.num_tokens == decision.num_tokens
        assert len(set(flat.out_slots.tolist())) == flat.num_tokens, "two tokens in one slot"
        for b, (request, start, end) in enumerate(decision.work):
            rows = slice(flat.q_indptr[b], flat.q_indptr[b + 1])
            kv = flat.kv_slots[flat.kv_indptr[b] : flat.kv_indptr[b + 1]]
            assert 0 <= start < end <= request.target
            assert flat.token_ids[rows].tolist() == request.token_ids[start:end]
            assert flat.positions[rows].tolist() == list(range(start, end))
            assert flat.out_slots[rows].tolist() == kv[start:].tolist()
            expected = self._hashes_of(request)
            for slot, position in zip(flat.out_slots[rows], range(start, end), strict=True):
                self.memory[slot] = expected[position]
        for b, (request, _, end) in enumerate(decision.work):
            kv = flat.kv_slots[flat.kv_indptr[b] : flat.kv_indptr[b + 1]]
            held = [self.memory[slot] for slot in kv.tolist()]
            assert held == self._hashes_of(request)[:end], f"{request!r} reads another's KV"
        check_groups(flat)

    def commit(self, decision: Decision) -> None:
        """Samples for those who reached their target; whoever is done finishes."""
        for request, _, end in decision.work:
            if request.status is RequestStatus.RUNNING and end == request.target:
                self.sample(request)

    def sample(self, request: Request) -> None:
        if not request.max_tokens:
            self._finish(request)
            return
        request.token_ids.append(next_token(self._hashes_of(request)[-1]))
        if request.output_len >= request.max_tokens:
            prompt = self.prompts[request]
            wanted = expected_output(prompt, request.max_tokens, request.namespace)
            assert request.token_ids == prompt + wanted
            self._finish(request)

    def _finish(self, request: Request) -> None:
        self.scheduler.finish(request)
        self.finished.append(request)

    def _hashes_of(self, request: Request) -> list[int]:
        known = self.hashes.setdefault(request, [])
        if len(known) > len(request.token_ids):
            known.clear()
        if len(known) < len(request.token_ids):
            known[:] = prefix_hashes(request.token_ids, request.namespace)
        return known


def check_groups(flat) -> None:
    """Groups are disjoint, in order, and each shared prefix is visible to all members' queries."""
    written = {}
    for b in range(flat.num_seqs):
        for slot in flat.out_slots[flat.q_indptr[b] : flat.q_indptr[b + 1]].tolist():
            written[slot] = b
    last = 0
    for group in flat.groups:
        assert last <= group.start < group.stop - 1 < flat.num_seqs
        last = group.stop
        prefixes = []
        for b in range(group.start, group.stop):
            assert group.length <= flat.positions[flat.q_indptr[b]]
            prefixes.append(flat.kv_slots[flat.kv_indptr[b] :][: group.length])
        assert all(np.array_equal(prefixes[0], prefix) for prefix in prefixes)
        assert all(written.get(slot, -1) < group.start for slot in prefixes[0].tolist())
