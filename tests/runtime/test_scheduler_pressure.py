"""Too little memory: retraction loses nothing, somebody always gets on, and it stays rare."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt.runtime.request import Request, RequestStatus
from agentrt.runtime.scheduler import SchedulePolicy, SchedulerConfig
from agentrt.runtime.scheduler.growth import Demand, GrowthEstimate
from tests.runtime.fake_engine import PARAMS, FakeEngine


def tokens(rng: random.Random, n: int) -> list[int]:
    return [rng.randrange(40_000) for _ in range(n)]


@pytest.mark.parametrize(
    ("policy", "count"),
    [(SchedulePolicy.LPM, 1000), (SchedulePolicy.DFS_WEIGHT, 200), (SchedulePolicy.FCFS, 200)],
)
def test_many_requests_in_a_pool_that_fits_ten(policy, count):
    rng = random.Random(1)
    engine = FakeEngine(160, SchedulerConfig(policy=policy))
    stems = [tokens(rng, 6) for _ in range(20)]
    requests = [
        engine.add(
            rng.choice(stems) + tokens(rng, rng.randint(1, 4)), max_tokens=rng.randint(1, 14)
        )
        for _ in range(count)
    ]
    engine.run()
    assert set(engine.finished) == set(requests)
    output = sum(r.max_tokens for r in requests)
    assert engine.scheduler.stats.retractions < count / 20
    # Each sampled token is computed once, but for the last of each request and what retraction
    # and eviction took.
    assert engine.computed < sum(r.prompt_len for r in requests) + 1.1 * output


def test_nothing_is_lost_when_every_estimate_is_wrong():
    rng = random.Random(2)
    engine = FakeEngine(100)
    for _ in range(30):
        engine.add(tokens(rng, rng.randint(1, 10)), max_tokens=rng.randint(40, 80))
    while engine.scheduler.waiting or engine.scheduler.running:
        engine.scheduler._books.growth.share = 0.0  # as if nobody were to say anything
        decision = engine.step()
        assert not {w.request for w in decision.work} & set(decision.retracted)
    assert len(engine.finished) == 30
    assert engine.scheduler.stats.retractions > 50


def test_retraction_does_not_collapse_throughput():
    """Against a run that reserves all of max_tokens, and so never retracts."""

    def steps(share: float | None) -> FakeEngine:
        rng = random.Random(3)
        engine = FakeEngine(500)
        for _ in range(60):
            engine.add(tokens(rng, 10), max_tokens=40)
        while engine.scheduler.waiting or engine.scheduler.running:
            if share is not None:
                engine.scheduler._books.growth.share = share
            engine.step()
        return engine

    careful, learning, reckless = steps(1.0), steps(None), steps(0.0)
    assert careful.scheduler.stats.retractions == 0
    assert learning.steps < 1.1 * careful.steps
    assert learning.scheduler.stats.retractions < 30
    # Even with retraction as the rule, half of the work done is kept.
    assert reckless.computed < 2 * careful.computed


def test_short_answers_under_a_large_bound_do_not_leave_the_pool_idle():
    """max_tokens is what the context allows; the answers are short, and the estimate learns it."""
    rng = random.Random(4)
    engine = FakeEngine(4000)
    for _ in range(400):
        request = engine.add(tokens(rng, 20), max_tokens=3000)
        request.max_tokens = 3000
    done_at: list[int] = []
    while engine.scheduler.waiting or engine.scheduler.running:
        for request, _, end in engine.decide().work:
            if end == request.target:
                engine.sample(request)
                if request.output_len == 25:
                    engine.scheduler.finish(request)
                    done_at.append(engine.steps)
    # All at once would need 18,000 slots: at least 4.5 rounds of 25 steps.
    assert engine.peak_running > 70
    assert done_at[-1] < 15 * 25


def test_a_lone_request_always_gets_on():
    rng = random.Random(5)
    engine = FakeEngine(50)
    engine.add(tokens(rng, 49))
    engine.run()
    engine.add(engine.finished[0].token_ids[:49])  # all cached, and a slot is needed all the same
    engine.add(tokens(rng, 10), max_tokens=41)
    engine.add(tokens(rng, 10), max_tokens=41)
    engine.run()
    assert len(engine.finished) == 4


def test_prompts_that_block_each_other_are_untied():
    rng = random.Random(6)
    engine = FakeEngine(100, SchedulerConfig(max_step_tokens=16))
    first = engine.add(tokens(rng, 80))
    for _ in range(3):
        engine.step()
    # Comes in ahead of the rest of the first one's prompt, on memory that one counted on.
    second = engine.add(tokens(rng, 60), priority=1)
    books = engine.scheduler._books
    match = engine.cache.match(np.array([], np.int32))
    books.waiting.admit(second)
    books.ledger.open(second, match, engine.cache.acquire(match))
    second.status = first.status
    books.running.add(second)
    engine.run()
    assert engine.finished == [second, first]
    assert first.retractions == 1


def test_the_shortest_output_of_the_lowest_priority_goes_back():
    rng = random.Random(7)
    engine = FakeEngine(60)
    kept = engine.add(tokens(rng, 5), max_tokens=50, priority=1)
    for _ in range(3):
        engine.step()
    longer = engine.add(tokens(rng, 5), max_tokens=50)
    for _ in range(2):
        engine.step()
    shorter = engine.add(tokens(rng, 5), max_tokens=50)
    urgent = engine.add(tokens(rng, 5), max_tokens=50, priority=1)
    engine.scheduler._books.growth.share = 0.0
    order = []
    while engine.scheduler.waiting or engine.scheduler.running:
        order += engine.step().retracted
    assert order[:3] == [shorter, longer, urgent]
    assert kept.retractions == 0


def retraction() -> tuple[FakeEngine, Request, Request]:
    """Of two requests, the second has just been retracted."""
    rng = random.Random(8)
    engine = FakeEngine(64)
    engine.scheduler._books.growth.share = 0.0
    first, second = (engine.add(tokens(rng, 8), max_tokens=40) for _ in range(2))
    while not second.retractions:
        engine.step()
    assert second.output_len > 20
    return engine, first, second


def test_the_retracted_come_back_before_anybody_else():
    engine, first, second = retraction()
    engine.cache.flush()  # what it had computed is gone, so the policy would rather have the third
    third = engine.add(first.token_ids)
    back: list[Request] = []
    while len(back) < 2:
        work = engine.step().work
        back += [w.request for w in work if w.request not in (first, *back)]
    assert back == [second, third]
    engine.run()


def test_the_retracted_find_their_work_in_the_cache():
    engine, first, second = retraction()
    computed = engine.computed
    while first.status is RequestStatus.RUNNING:
        engine.step()
    engine.run()
    # The first one's last tokens, and of the second's the ones it had not had, and what the
    # first took of them meanwhile.
    assert engine.computed - computed < 64
    assert second.cached_tokens == 0  # what it computed itself does not count


def test_output_computed_again_is_the_request_s_own():
    engine, _, second = retraction()
    engine.cache.flush()
    while second.status is not RequestStatus.RUNNING or second.remaining > 1:
        engine.step()
    assert second.tree_len == second.prompt_len
    engine.scheduler.truncate(second, second.prompt_len + 2)
    engine.run()


def test_retractions_teach_the_estimate():
    """Until somebody finishes, all there is to learn from is retraction; it is learnt once."""
    rng = random.Random(3)
    engine = FakeEngine(500)
    engine.scheduler._books.growth.share = 0.0
    for _ in range(40):
        engine.add(tokens(rng, 10), max_tokens=100)
    while not engine.finished:
        engine.step()
    lesson = engine.scheduler.stats.retractions
    assert 0 < lesson < 40
    engine.run()
    assert engine.scheduler.stats.retractions == lesson


def test_a_prefix_pinned_meanwhile_starves_one_request_not_all():
    rng = random.Random(9)
    engine = FakeEngine(100)
    text = tokens(rng, 60)
    engine.add(text)
    engine.run()
    doomed = engine.add(tokens(rng, 30), max_tokens=60)
    engine.step()
    pin = engine.cache.pin(np.array(text, np.int32))
    fine = engine.add(tokens(rng, 10), max_tokens=5)
    never = engine.add(tokens(rng, 50), max_tokens=5)
    starved = []
    while engine.scheduler.waiting or engine.scheduler.running:
        starved += engine.step().starved
    assert starved == [doomed, never]
    assert fine in engine.finished
    engine.cache.unpin(pin)


def pinned_engine(free: int):
    """An engine of which a pin leaves `free` slots, and a way to let go of it."""
    engine, text = FakeEngine(100), tokens(random.Random(9), 100 - free)
    engine.add(text)
    engine.run()
    pin = engine.cache.pin(np.array(text, np.int32))
    assert engine.cache.pinned == 100 - free

    def unpin():
        engine.cache.unpin(pin)
        engine.scheduler.unpinned()

    return engine, unpin


def test_who_has_a_deadline_waits_for_an_unpin_and_is_in_nobodys_way():
    engine, unpin = pinned_engine(free=40)
    patient = engine.add([1] * 50, max_tokens=5, deadline=10.0)
    first = engine.add([2] * 10, max_tokens=5)
    while engine.scheduler.running or not engine.finished[1:]:
        assert not engine.step().starved
    assert engine.finished[1:] == [first]
    assert (engine.scheduler.waiting, engine.scheduler.next_step) == (1, 10.0)
    assert not engine.step().work
    unpin()
    engine.run()
    assert patient in engine.finished


def test_waiting_for_an_unpin_ends_at_the_deadline_or_by_an_abort():
    engine, unpin = pinned_engine(free=40)
    late = engine.add([1] * 50, max_tokens=5, deadline=10.0)
    aborted = engine.add([2] * 50, max_tokens=5, deadline=20.0)
    assert not engine.step(9.0).work
    assert engine.step(10.0).expired == (late,)
    engine.scheduler.abort(aborted)
    assert (engine.scheduler.waiting, engine.scheduler.next_step) == (0, None)
    unpin()
    assert not engine.step(11.0).work


def test_who_runs_out_of_room_beside_a_pin_waits_with_what_it_has():
    rng = random.Random(9)
    engine, text = FakeEngine(100), tokens(rng, 60)
    engine.add(text)
    engine.run()
    patient = engine.add(tokens(rng, 30), max_tokens=60, deadline=1000.0)
    engine.step()
    pin = engine.cache.pin(np.array(text, np.int32))
    while engine.scheduler.running:
        assert not engine.step().starved
    assert (engine.scheduler.waiting, patient.retractions) == (1, 1)
    engine.cache.unpin(pin)
    engine.scheduler.unpinned()
    engine.run()
    assert patient in engine.finished


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), max_size=6))
def test_demand_is_the_peak_of_a_timeline(running):
    """Against the timeline itself: who still runs has grown by a slot a step."""
    estimate = GrowthEstimate()
    estimate.share = 1.0
    requests = []
    for left, tail in running:
        request = Request(id=0, token_ids=[1] * 20, params=PARAMS, max_tokens=left)
        request.computed, request.tree_len = 20, 20 - tail
        requests.append(request)
    peak = 0
    for time in range(13):
        grown = sum(time for left, _ in running if left >= time)
        gone = sum(tail for left, tail in running if left < time)
        peak = max(peak, grown - gone)
    assert Demand(estimate, requests).peak() == peak
