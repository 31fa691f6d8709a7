"""Random mixes of everything; each step checked against memory, books and the one right output."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt.errors import QueueFull
from agentrt.runtime.radix import Pin
from agentrt.runtime.request import Request, RequestStatus
from agentrt.runtime.scheduler import SchedulePolicy, SchedulerConfig
from tests.runtime.fake_engine import FakeEngine, expected_output

SLOTS = 60

configs = st.builds(
    SchedulerConfig,
    policy=st.sampled_from(SchedulePolicy),
    max_step_tokens=st.sampled_from([None, 1, 5, 16, 512]),
    max_running=st.sampled_from([1, 3, 256]),
    max_waiting=st.sampled_from([8, 1000]),
    max_passed_over=st.sampled_from([1, 64]),
    min_group_tokens=st.sampled_from([1, 4]),
)

prompts = st.builds(
    lambda stem, rest: [7] * stem + rest,
    st.integers(0, 20),
    st.lists(st.integers(0, 1), min_size=1, max_size=12),
)


@st.composite
def requests(draw):
    prompt = draw(prompts)
    options = {
        "priority": draw(st.sampled_from([0, 0, 0, 1])),
        "namespace": draw(st.sampled_from(["", "", "a"])),
        "deadline": draw(st.sampled_from([None, None, None, 5.0, 20.0])),
    }
    max_tokens = draw(st.integers(1, 25))
    if draw(st.integers(0, 3)) == 0:
        options["score_from"] = draw(st.integers(1, len(prompt)))
        max_tokens *= draw(st.integers(0, 1))
    return prompt, max_tokens, options


# What happens between two steps; the numbers pick whom it happens to.
events = st.one_of(
    st.tuples(st.just("add"), requests()),
    st.tuples(st.just("add"), requests()),
    st.tuples(st.just("abort"), st.integers(0, 99)),
    st.tuples(st.just("truncate"), st.integers(0, 99)),
    st.tuples(st.just("jump"), st.integers(0, 99)),
    st.tuples(st.just("finish"), st.integers(0, 99)),
    st.tuples(st.just("forget"), st.integers(0, 99)),
    st.tuples(st.just("pin"), st.integers(0, 99)),
    st.tuples(st.just("unpin"), st.integers(0, 99)),
    st.tuples(st.just("reset"), st.integers(0, 20)),
)


class Mix:
    """Plays events against an engine; outputs stay those that each prompt must have."""

    def __init__(self, config: SchedulerConfig) -> None:
        self.engine = FakeEngine(SLOTS, config)
        self.open: list[Request] = []
        self.ended: set[Request] = set()
        self.pins: list[Pin] = []
        self.now = 0.0

    def play(self, kind: str, what) -> None:
        getattr(self, kind)(what)
        self.engine.scheduler.check_integrity()

    def step(self) -> None:
        decision = self.engine.step(self.now)
        self.now += 1.0
        for request in decision.expired:
            assert request.deadline is not None
            assert request.deadline <= self.now
        assert self.pins or not decision.starved
        assert not any(request.deadline for request in decision.starved)
        self.ended |= {*decision.expired, *decision.starved, *self.engine.finished}

    def add(self, what) -> None:
        prompt, max_tokens, options = what
        if options["deadline"] is not None:
            options = options | {"deadline": self.now + options["deadline"]}
        try:
            self.open.append(self.engine.add(prompt, max_tokens, **options))
        except QueueFull:
            assert self.engine.scheduler.waiting == self.engine.config.max_waiting

    def abort(self, pick: int) -> None:
        if request := self.pick(pick, *RequestStatus):
            self.engine.scheduler.abort(request)
            self.ended.add(request)

    def finish(self, pick: int) -> None:
        if request := self.pick(pick, RequestStatus.RUNNING):
            self.engine.scheduler.finish(request)
            self.ended.add(request)

    def truncate(self, pick: int) -> None:
        if request := self.pick(pick, RequestStatus.RUNNING):
            self.engine.scheduler.truncate(
                request, request.prompt_len + pick % (request.output_len + 1)
            )

    def jump(self, pick: int) -> None:
        """Appends tokens without sampling them, one short of all there are."""
        request = self.pick(pick, RequestStatus.RUNNING)
        if request is None:
            return
        n = min(1 + pick % 7, request.max_tokens - request.output_len - 1)
        if n > 0 and request.output_len:
            prompt, done = self.engine.prompts[request], request.output_len
            output = expected_output(prompt, done + n, request.namespace)
            request.token_ids += output[done:]

    def forget(self, pick: int) -> None:
        self.engine.cache.evict(pick)

    def pin(self, pick: int) -> None:
        if request := self.pick(pick, RequestStatus.FINISHED):
            prompt = np.array(self.engine.prompts[request], np.int32)
            self.pins.append(self.engine.cache.pin(prompt, namespace=request.namespace))

    def unpin(self, pick: int) -> None:
        if self.pins:
            self.engine.cache.unpin(self.pins.pop(pick % len(self.pins)))
            self.engine.scheduler.unpinned()

    def reset(self, pick: int) -> None:
        if pick:
            return
        while self.pins:
            self.unpin(0)
        self.engine.scheduler.schedule(self.now)
        everybody = self.engine.scheduler.reset()
        assert (self.engine.scheduler.waiting, self.engine.scheduler.running) == (0, 0)
        assert self.engine.pool.num_free == SLOTS
        self.ended |= {*everybody, *(r for r in self.open if r.status is RequestStatus.FINISHED)}

    def pick(self, number: int, *statuses: RequestStatus) -> Request | None:
        among = [r for r in self.open if r.status in statuses]
        return among[number % len(among)] if among else None


@settings(max_examples=100, deadline=None)
@given(configs, st.lists(st.lists(events, max_size=4), max_size=25))
def test_any_mix(config, script):
    mix = Mix(config)
    for between_steps in script:
        for kind, what in between_steps:
            mix.play(kind, what)
        mix.step()
    while mix.pins:
        mix.unpin(0)
    while mix.engine.scheduler.waiting or mix.engine.scheduler.running:
        mix.step()
        assert mix.engine.steps < 20_000
    assert set(mix.open) == mix.ended
    assert mix.engine.cache.locks == 0
    mix.engine.cache.flush()
    assert mix.engine.pool.num_free == SLOTS
