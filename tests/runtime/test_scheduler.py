"""What one step holds: chunks, sharing, order, the life of a request."""

from __future__ import annotations

import pytest

from agentrt.errors import InvalidRequest, QueueFull
from agentrt.runtime.request import Request
from agentrt.runtime.scheduler import SchedulePolicy, SchedulerConfig
from tests.runtime.fake_engine import PARAMS, FakeEngine, expected_output, prompt, spans


class TestChunks:
    def test_a_prompt_is_computed_in_chunks_of_the_budget(self):
        engine = FakeEngine(1000, SchedulerConfig(max_step_tokens=100))
        engine.add(prompt(0, 250), max_tokens=3)
        steps = [spans(engine.step()) for _ in range(5)]
        assert steps == [
            [(0, 0, 100)],
            [(0, 100, 200)],
            [(0, 200, 250)],
            [(0, 250, 251)],
            [(0, 251, 252)],
        ]
        assert engine.scheduler.running == 0

    def test_unchunked_computes_whole_prompts(self):
        engine = FakeEngine(2000, SchedulerConfig(max_step_tokens=None))
        engine.add(prompt(0, 700))
        engine.add(prompt(1, 600))
        assert sorted(spans(engine.step())) == [(0, 0, 700), (1, 0, 600)]

    def test_decode_goes_first_and_prompts_take_the_rest(self):
        engine = FakeEngine(1000, SchedulerConfig(max_step_tokens=64))
        engine.add(prompt(0, 30), max_tokens=9)
        engine.add(prompt(1, 20), max_tokens=9)
        engine.step()
        engine.add(prompt(2, 200), max_tokens=1)
        assert sorted(spans(engine.step())) == [(0, 30, 31), (1, 20, 21), (2, 0, 62)]
        assert sorted(spans(engine.step())) == [(0, 31, 32), (1, 21, 22), (2, 62, 124)]

    def test_several_prompts_share_a_step(self):
        engine = FakeEngine(1000, SchedulerConfig(max_step_tokens=100))
        for seed in range(4):
            engine.add(prompt(seed, 30))
        assert sorted(spans(engine.step())) == [(0, 0, 30), (1, 0, 30), (2, 0, 30), (3, 0, 10)]

    def test_a_small_budget_bounds_the_running_so_that_each_decodes_in_each_step(self):
        engine = FakeEngine(1000, SchedulerConfig(max_step_tokens=4))
        for seed in range(8):
            engine.add(prompt(seed, 1), max_tokens=5)
        engine.run()
        assert engine.peak_running == 4

    def test_not_even_a_higher_priority_makes_more_run_than_can_decode(self):
        engine = FakeEngine(1000, SchedulerConfig(max_step_tokens=4))
        for seed in range(3):
            engine.add(prompt(seed, 1), max_tokens=50)
        engine.add(prompt(3, 10), max_tokens=50)
        engine.step()
        engine.add(prompt(4, 10), max_tokens=50, priority=1)
        engine.run()
        assert engine.peak_running == 4
        assert engine.scheduler.stats.retractions == 0

    def test_jumped_over_tokens_are_one_extend(self):
        engine = FakeEngine(1000)
        request = engine.add(prompt(0, 10), max_tokens=100)
        engine.decide()
        request.token_ids += expected_output(request.token_ids, 7)
        decision = engine.decide()
        assert spans(decision) == [(0, 10, 17)]
        assert request.tail.size == 7  # output stays the request's own

    def test_jumped_over_tokens_leave_everybody_a_token(self):
        engine = FakeEngine(1000, SchedulerConfig(max_step_tokens=8))
        requests = [engine.add(prompt(seed, 2), max_tokens=100) for seed in range(4)]
        engine.decide()
        for request in requests:
            request.token_ids += expected_output(request.token_ids, 20)
        decision = engine.decide()
        assert decision.num_tokens == 8
        assert {w.request for w in decision.work} == set(requests)


class TestSharing:
    def test_requests_of_one_step_compute_their_prefix_once(self):
        engine = FakeEngine(1000)
        stem = prompt(0, 100)
        for seed in range(1, 6):
            engine.add(stem + prompt(seed, 10))
        decision = engine.step()
        assert decision.num_tokens == 100 + 5 * 10
        assert sum(r.cached_tokens for r in engine.finished) == 4 * 100

    def test_identical_prompts_compute_their_last_token_each_into_their_own_slot(self):
        engine = FakeEngine(1000)
        for _ in range(5):
            engine.add(prompt(0, 100), max_tokens=4)
        decision = engine.step()
        assert sorted(spans(decision)) == [(0, 0, 100)] + [(i, 99, 100) for i in range(1, 5)]
        assert [r.tail.size for r in engine.scheduler._books.running] == [0, 1, 1, 1, 1]
        engine.run()
        assert engine.cache.cached == 100 + 3  # the duplicates were freed

    def test_who_shares_beyond_the_chunk_waits_for_it(self):
        engine = FakeEngine(1000, SchedulerConfig(max_step_tokens=64))
        stem = prompt(0, 150)
        for seed in range(1, 5):
            engine.add(stem + prompt(seed, 5))
        assert [len(engine.step().work) for _ in range(2)] == [1, 1]
        engine.run()
        assert engine.computed == 150 + 4 * 5

    def test_a_later_chunk_takes_over_what_another_computed(self):
        engine = FakeEngine(1000, SchedulerConfig(max_step_tokens=50))
        stem = prompt(0, 200)
        first = engine.add([*stem, 1])
        engine.step()
        # More urgent, so it goes ahead of the first one's second chunk and computes it.
        second = engine.add([*stem, 2], priority=1)
        assert spans(engine.step()) == [(1, 50, 100)]
        engine.run()
        assert engine.computed == 202
        assert (first.cached_tokens, second.cached_tokens) == (150, 50)

    def test_the_cached_counts_of_prompts_over_one_text(self):
        text = prompt(0, 11_000)
        engine = FakeEngine(30_000)
        counts = []
        for n in (100, 10_000, 10_000, 1_000, 11_000):
            counts.append(engine.add(text[:n]))
            engine.run()
        assert [r.cached_tokens for r in counts] == [0, 100, 9_999, 999, 10_000]

    def test_finished_output_is_a_prefix_for_the_next_turn(self):
        engine = FakeEngine(1000)
        first = engine.add(prompt(0, 50), max_tokens=20)
        engine.run()
        second = engine.add(first.token_ids + prompt(1, 10))
        engine.run()
        assert second.cached_tokens == 50 + 19  # the last token was never computed

    def test_cached_tokens_are_of_the_prompt(self):
        engine = FakeEngine(1000)
        first = engine.add(prompt(0, 50), max_tokens=20)
        engine.run()
        second = Request(id=1, token_ids=prompt(0, 50), params=PARAMS, max_tokens=20)
        second.token_ids += first.token_ids[50:60]  # its output is forced to begin like this
        engine.prompts[second] = prompt(0, 50)
        engine.scheduler.add(second)
        assert spans(engine.step()) == [(1, 59, 60)]
        engine.run()
        assert second.cached_tokens == 50

    def test_namespaces_share_nothing(self):
        engine = FakeEngine(1000)
        for namespace in ("", "a", "b"):
            engine.add(prompt(0, 40), namespace=namespace)
        decision = engine.step()
        assert decision.num_tokens == 120


class TestScores:
    def test_rows_to_be_scored_are_computed_even_if_cached(self):
        engine = FakeEngine(1000)
        text = prompt(0, 60)
        engine.add(text)
        engine.run()
        engine.add(text, 0, score_from=50)
        # Row 49 gives the distribution of token 50.
        assert spans(engine.step()) == [(1, 49, 60)]
        assert engine.cache.cached == 60

    def test_choices_after_one_prefix(self):
        engine = FakeEngine(1000)
        stem = prompt(0, 40)
        for seed in range(1, 4):
            engine.add(stem + prompt(seed, 6), 0, score_from=40 if seed == 1 else 41)
        # The first of them scores what all of them begin with by the last shared row.
        assert sorted(spans(engine.step())) == [(0, 0, 46), (1, 40, 46), (2, 40, 46)]

    def test_a_whole_prompt_is_scored_in_chunks_beside_its_cached_copy(self):
        engine = FakeEngine(1000, SchedulerConfig(max_step_tokens=32))
        text = prompt(0, 100)
        engine.add(text)
        engine.run()
        engine.add(text, 0, score_from=1)
        computed = engine.computed
        engine.run()
        assert engine.computed - computed == 100
        assert engine.cache.cached == 100

    def test_scores_and_samples(self):
        engine = FakeEngine(1000)
        text = prompt(0, 60)
        engine.add(text)
        engine.run()
        engine.add(text, 3, score_from=50)
        assert [spans(engine.step()) for _ in range(3)] == [
            [(1, 49, 60)],
            [(1, 60, 61)],
            [(1, 61, 62)],
        ]

    @pytest.mark.parametrize("score_from", [0, 11, -1])
    def test_what_has_no_distribution_cannot_be_scored(self, score_from):
        with pytest.raises(InvalidRequest, match="score_from"):
            Request(
                id=0, token_ids=prompt(0, 10), params=PARAMS, max_tokens=0, score_from=score_from
            )


class TestOrder:
    def test_sharers_are_neighbours_and_grouped_where_it_saves_most(self):
        engine = FakeEngine(5000, SchedulerConfig(max_step_tokens=2000))
        stem = prompt(0, 80)
        left, right = stem + prompt(1, 200), stem + prompt(2, 200)
        for seed in range(10, 14):
            engine.add([*left, seed], max_tokens=9)
            engine.add([*right, seed], max_tokens=9)
            engine.add([seed], max_tokens=9)
        engine.step()
        decision = engine.step()
        # Two groups of four at 280 save 6 * 280, one of eight at 80 only 7 * 80.
        assert sorted((g.stop - g.start, g.length) for g in decision.groups) == [(4, 280), (4, 280)]
        again = engine.step()
        assert again.groups == decision.groups
        assert [w.request for w in again.work] == [w.request for w in decision.work]

    def test_who_computes_a_prefix_comes_before_who_reads_it(self):
        engine = FakeEngine(5000, SchedulerConfig(max_step_tokens=2000))
        stem = prompt(0, 100)
        for last in (5, 3, 9, 1):
            engine.add(stem + [last] * 3, max_tokens=5)
        decision = engine.step()
        assert spans(decision)[0] == (0, 0, 103)
        assert [(g.start, g.stop, g.length) for g in decision.groups] == [(1, 4, 100)]

    def test_short_prefixes_are_not_grouped(self):
        engine = FakeEngine(5000, SchedulerConfig(min_group_tokens=64))
        for last in range(4):
            engine.add([*prompt(0, 63), last, last], max_tokens=5)
        engine.step()
        assert engine.step().groups == ()


class TestQueue:
    def test_it_refuses_past_its_bound(self):
        engine = FakeEngine(100, SchedulerConfig(max_waiting=2))
        engine.add([1])
        engine.add([2])
        with pytest.raises(QueueFull, match="max_waiting is 2"):
            engine.add([3])
        engine.run()
        engine.add([3])
        engine.run()

    def test_what_can_never_fit_is_refused(self):
        engine = FakeEngine(100)
        assert engine.scheduler.fits(60, 41)
        assert not engine.scheduler.fits(60, 42)
        with pytest.raises(InvalidRequest, match="100 slots"):
            engine.add(prompt(0, 60), max_tokens=42)
        engine.add(prompt(0, 60), max_tokens=41)
        engine.run()

    def test_a_request_is_added_once(self):
        engine = FakeEngine(100)
        request = engine.add([1])
        with pytest.raises(InvalidRequest, match="added before"):
            engine.scheduler.add(request)

    def test_higher_priority_goes_first(self):
        engine = FakeEngine(1000, SchedulerConfig(max_running=1))
        for i, priority in enumerate((0, 5, -1, 5, 0)):
            engine.add([i] * 5, max_tokens=2, priority=priority)
        engine.run()
        assert [r.id for r in engine.admissions] == [1, 3, 0, 4, 2]

    def test_a_long_prompt_does_not_hold_up_a_higher_priority(self):
        engine = FakeEngine(1000, SchedulerConfig(max_step_tokens=32))
        engine.add(prompt(0, 500))
        engine.step()
        engine.add(prompt(1, 20), priority=1)
        assert sorted(spans(engine.step())) == [(0, 32, 44), (1, 0, 20)]

    def test_repr(self):
        engine = FakeEngine(100, SchedulerConfig(max_running=1))
        engine.add([1, 2, 3], max_tokens=9)
        engine.add([4], max_tokens=9)
        engine.step()
        assert repr(engine.scheduler) == (
            "<Scheduler waiting 1, running 1 | slots 97 free, 3 cached>"
        )

    @pytest.mark.parametrize(
        "options", [{"max_step_tokens": 0}, {"max_running": 0}, {"policy": "longest"}]
    )
    def test_bad_configurations(self, options):
        with pytest.raises(InvalidRequest, match=next(iter(options))):
            SchedulerConfig(**options)

    def test_a_policy_may_be_named(self):
        assert SchedulerConfig(policy="fcfs").policy is not SchedulePolicy.LPM
        engine = FakeEngine(100, SchedulerConfig(policy="fcfs"))
        engine.add([1])
        engine.run()
