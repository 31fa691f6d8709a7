"""How requests end, and are cut: whatever they held is given back."""

from __future__ import annotations

import numpy as np
import pytest

from agentrt.errors import InvalidRequest
from agentrt.runtime.request import RequestStatus
from agentrt.runtime.scheduler import SchedulerConfig
from tests.runtime.fake_engine import FakeEngine, prompt, spans


class TestEnding:
    @pytest.mark.parametrize("steps", range(6))
    def test_an_abort_at_any_point_gives_everything_back(self, steps):
        engine = FakeEngine(500, SchedulerConfig(max_step_tokens=20))
        other = engine.add(prompt(1, 30), max_tokens=2)
        request = engine.add(prompt(0, 50), max_tokens=50)
        for _ in range(steps):
            engine.step()
        engine.scheduler.abort(request)
        engine.scheduler.check_integrity()
        engine.scheduler.abort(request)
        engine.run()
        assert engine.finished == [other]
        assert engine.cache.locks == 0
        engine.cache.flush()
        assert engine.pool.num_free == 500

    def test_what_an_aborted_request_computed_of_its_prompt_stays(self):
        engine = FakeEngine(500, SchedulerConfig(max_step_tokens=20))
        request = engine.add(prompt(0, 50))
        engine.step()
        engine.step()
        engine.scheduler.abort(request)
        again = engine.add(prompt(0, 50))
        engine.run()
        assert again.cached_tokens == 40

    def test_a_deadline_ends_the_waiting_and_the_running(self):
        engine = FakeEngine(500, SchedulerConfig(max_running=1))
        running = engine.add(prompt(0, 10), max_tokens=50, deadline=5.0)
        waiting = engine.add(prompt(1, 10), deadline=4.0)
        patient = engine.add(prompt(2, 10), deadline=100.0)
        assert engine.step(now=3.0).expired == ()
        assert engine.step(now=4.0).expired == (waiting,)
        decision = engine.step(now=6.0)
        assert decision.expired == (running,)
        assert [w.request for w in decision.work] == [patient]
        assert running.status is RequestStatus.FINISHED
        assert engine.step(now=200.0).expired == ()

    def test_finished_requests_do_not_pile_up_behind_their_deadlines(self):
        engine = FakeEngine(500)
        for _ in range(500):
            engine.add([1, 2, 3], deadline=1e9)
            engine.step()
        assert len(engine.scheduler._deadlines._heap) < 150

    def test_reset_trusts_nothing(self):
        engine = FakeEngine(500, SchedulerConfig(max_step_tokens=60))
        engine.add(prompt(9, 20))
        engine.run()
        requests = [engine.add(prompt(seed, 50), max_tokens=5) for seed in range(4)]
        pin = engine.cache.pin(np.array(prompt(9, 20), np.int32))
        engine.step()
        engine.scheduler.schedule(0.0)  # and then the step fails
        assert engine.scheduler.reset() == tuple(requests)
        engine.scheduler.check_integrity()
        assert (engine.cache.cached, engine.pool.num_free) == (20, 480)
        engine.cache.unpin(pin)
        engine.add(prompt(0, 50), max_tokens=5)
        engine.run()


class TestTruncate:
    def test_cut_output_gives_its_slots_back(self):
        engine = FakeEngine(500)
        request = engine.add(prompt(0, 20), max_tokens=100)
        for _ in range(11):
            engine.step()
        free = engine.pool.num_free
        engine.scheduler.truncate(request, 26)
        engine.scheduler.check_integrity()
        assert engine.pool.num_free == free + 4
        request.token_ids += [7, 8]
        assert spans(engine.decide()) == [(0, 26, 28)]

    def test_a_cut_with_nothing_appended_computes_the_last_token_again(self):
        engine = FakeEngine(500)
        request = engine.add(prompt(0, 20), max_tokens=12)
        for _ in range(6):
            engine.step()
        engine.scheduler.truncate(request, 23)
        assert spans(engine.step()) == [(0, 22, 23)]
        engine.scheduler.truncate(request, 20)
        assert spans(engine.step()) == [(0, 19, 20)]
        engine.run()

    def test_a_cut_into_output_that_is_in_the_tree(self):
        engine = FakeEngine(500)
        request = engine.add(prompt(0, 20), max_tokens=100)
        for _ in range(10):
            engine.step()
        step = engine.scheduler._books
        step.running.remove(request)
        step.ledger.close(request, cache_tail=True)
        step.wait(request, at_front=True)
        engine.step()
        assert request.tree_len == 29
        engine.scheduler.truncate(request, 24)
        engine.scheduler.check_integrity()
        assert (request.tree_len, request.computed) == (24, 24)
        request.token_ids += [7, 8]
        assert spans(engine.decide()) == [(0, 24, 26)]

    def test_a_prompt_is_never_cut(self):
        engine = FakeEngine(500)
        request = engine.add(prompt(0, 20), max_tokens=12)
        engine.step()
        for length in (19, 22):
            with pytest.raises(InvalidRequest, match="cannot cut"):
                engine.scheduler.truncate(request, length)
