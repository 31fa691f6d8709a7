"""No request is overtaken for ever."""

from __future__ import annotations

import random

import pytest

from agentrt.runtime.scheduler import SchedulePolicy, SchedulerConfig
from tests.runtime.fake_engine import FakeEngine


def overtakers(engine: FakeEngine, request) -> int:
    """Who came in a later step, with no higher priority, and was admitted first."""
    before = engine.admissions[: engine.admissions.index(request)]
    return sum(r.epoch > request.epoch and r.priority <= request.priority for r in before)


@pytest.mark.parametrize("policy", [SchedulePolicy.LPM, SchedulePolicy.DFS_WEIGHT])
@pytest.mark.parametrize("bound", [1, 7, 64])
def test_a_stream_made_to_starve(policy, bound):
    """One stranger, and then in each step another that shares all with what is cached."""
    engine = FakeEngine(1000, SchedulerConfig(policy=policy, max_passed_over=bound, max_running=1))
    stem = list(range(100))
    engine.add(stem)
    engine.step()
    stranger = engine.add([7] * 30)
    engine.add([*stem, 0])
    for i in range(3 * bound):
        engine.step()
        engine.add([*stem, i])
    engine.run()
    # Exactly: it is overtaken as long as it may be, since the policy would rather.
    assert overtakers(engine, stranger) == stranger.passed_over == bound


@pytest.mark.parametrize("policy", SchedulePolicy)
def test_the_bound_holds_for_everybody_in_a_random_stream(policy):
    rng = random.Random(0)
    config = SchedulerConfig(policy=policy, max_passed_over=5, max_running=4, max_step_tokens=32)
    engine = FakeEngine(400, config)
    stems = [[s] * 20 for s in range(6)]
    requests = []
    for _ in range(200):
        for _ in range(rng.randint(0, 3)):
            prompt = rng.choice(stems) + [rng.randrange(9) for _ in range(rng.randint(1, 6))]
            priority = rng.choice([0, 0, 0, 1])
            requests.append(engine.add(prompt, rng.randint(1, 4), priority=priority))
        engine.step()
    engine.run()
    for request in requests:
        assert overtakers(engine, request) == request.passed_over <= 5


def test_those_that_arrive_together_are_ordered_freely():
    """A batch is one arrival: sorting it by prefix passes nobody over."""
    engine = FakeEngine(2000, SchedulerConfig(max_passed_over=1, max_running=1))
    stems = [[s] * 50 for s in range(10)]
    for i in range(100):
        engine.add([*stems[i % 10], i])
    engine.run()
    assert [r.id % 10 for r in engine.admissions] == sorted(r.id % 10 for r in engine.admissions)
    assert engine.computed == 10 * 50 + 100
    assert all(r.passed_over == 0 for r in engine.finished)


def test_fcfs_is_first_come_first_served():
    rng = random.Random(1)
    engine = FakeEngine(300, SchedulerConfig(policy=SchedulePolicy.FCFS, max_running=3))
    for _ in range(60):
        engine.add([rng.randrange(3) for _ in range(rng.randint(1, 20))], rng.randint(1, 6))
        if rng.random() < 0.3:
            engine.step()
    engine.run()
    assert [r.id for r in engine.admissions] == list(range(60))
