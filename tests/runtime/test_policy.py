"""Who goes next, against plain restatements of the rules."""

from __future__ import annotations

import random
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt.runtime.scheduler import SchedulePolicy, SchedulerConfig
from agentrt.runtime.scheduler.groups import best_groups
from agentrt.runtime.scheduler.prefixes import PrefixOrder, encode, prefix, shared
from tests.runtime.fake_engine import FakeEngine

short_tokens = st.lists(st.integers(0, 2), max_size=6)
namespaces = st.sampled_from(["", "a"])


def key_of(tokens: list[int], namespace: str = "") -> bytes:
    return encode(np.array(tokens, np.int32), namespace)


def common(a: list[int], b: list[int]) -> int:
    n = 0
    while n < min(len(a), len(b)) and a[n] == b[n]:
        n += 1
    return n


def distinct_edges(prompts: list[list[int]]) -> int:
    """Tokens in the prefix tree of the prompts: each has to be computed once at least."""
    return len({tuple(p[: i + 1]) for p in prompts for i in range(len(p))})


class TestPrefixOrder:
    @given(st.lists(st.tuples(short_tokens, namespaces, st.booleans()), max_size=30))
    def test_against_a_sorted_list(self, operations):
        order, kept = PrefixOrder(), []
        for ident, (tokens, namespace, is_removal) in enumerate(operations):
            if is_removal and kept:
                gone = kept.pop(ident * 7 % len(kept))
                order.remove(key_of(gone[1], gone[0]), gone[2])
            else:
                kept.append((namespace, tokens, ident))
                order.add(key_of(tokens, namespace), ident)
            named = {k[2]: k for k in kept}
            in_order = [named[i] for i in order.ids.tolist()]
            assert sorted(named) == sorted(order.ids.tolist())
            keys = [key_of(tokens, namespace) for namespace, tokens, _ in in_order]
            assert keys == sorted(keys)
            for i, (a, b) in enumerate(pairwise(in_order), start=1):
                assert order.shares[i] == (common(a[1], b[1]) if a[0] == b[0] else 0)

    @given(st.lists(short_tokens, max_size=20), short_tokens, st.data())
    def test_common_and_span_against_every_key(self, held, asked, data):
        order = PrefixOrder()
        for ident, tokens in enumerate(held):
            order.add(key_of(tokens), ident)
        cut = data.draw(st.integers(0, len(asked)))
        lo, hi = order.span(prefix(key_of(asked), cut))
        inside = [i for i in order.ids.tolist() if held[i][:cut] == asked[:cut]]
        assert order.ids[lo:hi].tolist() == inside
        expected = [common(held[i], asked) for i in inside]
        assert order.common(key_of(asked), lo, hi).tolist() == expected

    def test_namespaces_share_nothing(self):
        assert shared(key_of([1, 2, 3], "a"), key_of([1, 2, 3], "b")) == 0
        assert shared(key_of([1, 2, 300], "a"), key_of([1, 2, 301], "a")) == 2


class TestGroups:
    @given(st.lists(st.sampled_from([0, 1, 2, 3, 5, 8]), max_size=7), st.sampled_from([1, 3]))
    def test_nothing_saves_more(self, shares, min_length):
        groups = best_groups(shares, min_length=min_length)
        last = 0
        for group in groups:
            assert last <= group.start < group.stop - 1 < len(shares)
            assert group.length >= min_length
            assert group.length <= min(shares[group.start + 1 : group.stop])
            last = group.stop
        saved = sum((g.stop - g.start - 1) * g.length for g in groups)
        assert saved == most_saved(shares, min_length)

    def test_one_group_or_its_parts(self):
        #          0   1   2    3    4   5    6
        shares = [0, 90, 70, 200, 200, 70, 200]
        groups = best_groups(shares, min_length=64)
        assert [(g.start, g.stop, g.length) for g in groups] == [
            (0, 2, 90),
            (2, 5, 200),
            (5, 7, 200),
        ]
        groups = best_groups([0, 90, 70, 90, 90, 70, 90], min_length=64)
        assert [(g.start, g.stop, g.length) for g in groups] == [(0, 7, 70)]


def most_saved(shares: list[int], min_length: int) -> int:
    """The best of all ways to cut the sequences into runs."""
    best = [0] * (len(shares) + 1)
    for stop in range(1, len(shares) + 1):
        best[stop] = best[stop - 1]
        for start in range(stop - 1):
            length = min(shares[start + 1 : stop])
            if length >= min_length:
                best[stop] = max(best[stop], best[start] + (stop - start - 1) * length)
    return best[-1]


class TestMatches:
    """What the queue believes to be cached, against the cache."""

    @pytest.mark.parametrize("policy", SchedulePolicy)
    def test_never_too_low_and_exact_for_who_is_chosen(self, policy):
        rng = random.Random(0)
        engine = FakeEngine(120, SchedulerConfig(policy=policy, max_running=3))
        for _ in range(150):
            for _ in range(rng.randint(0, 4)):
                prompt = [rng.randrange(2) for _ in range(rng.randint(1, 25))]
                engine.add(prompt, rng.randint(1, 5), namespace=rng.choice(["", "a"]))
            engine.step()
            self.check(engine)
        assert engine.cache.stats.evicted > 500
        engine.run()

    @staticmethod
    def check(engine: FakeEngine) -> None:
        queue = engine.scheduler._books.waiting
        for request, row in queue._row.items():
            tokens = request.tokens(0, request.match_limit)
            cached = engine.cache.match(tokens, namespace=request.namespace).length
            assert queue.match[row] >= cached

    def test_what_was_evicted_is_noticed_for_all_who_shared_it(self):
        engine = FakeEngine(200, SchedulerConfig(max_running=1, max_step_tokens=None))
        stem = list(range(100, 150))
        engine.add(stem)
        engine.step()
        waiting = [engine.add([*stem, i, i]) for i in range(40)]
        engine.cache.flush()
        queue = engine.scheduler._books.waiting
        assert [queue.match[queue._row[r]] for r in waiting] == [50] * 40
        lookups = []
        match = engine.cache.match
        engine.cache.match = lambda *a, **k: lookups.append(a) or match(*a, **k)
        engine.scheduler.schedule(0.0)
        # One to notice, one to admit, and one to see that the next has to wait.
        assert len(lookups) <= 3
        assert all(queue.match[queue._row[r]] == 50 for r in waiting[1:])


class TestLongestPrefixFirst:
    def test_the_longest_cached_prefix_and_then_the_earliest(self):
        engine = FakeEngine(1000, SchedulerConfig(max_running=1))
        engine.add([1, 2, 3, 4, 5, 6])
        engine.step()
        for prompt in ([9, 9], [1, 2, 9, 9], [1, 2, 3, 4, 9], [1, 2, 3, 4, 8], [1, 2, 3, 9]):
            engine.add(prompt)
        engine.run()
        assert [r.id for r in engine.admissions] == [0, 3, 4, 5, 2, 1]


class TestDepthFirst:
    def test_the_heaviest_branch_first_and_each_to_its_end(self):
        engine = FakeEngine(1000, SchedulerConfig(policy=SchedulePolicy.DFS_WEIGHT, max_running=1))
        for prompt in ([5, 1], [7, 1, 1], [6, 1], [7, 2, 1], [7, 2, 2], [5, 2], [7, 2, 3]):
            engine.add([*prompt, 0])
        engine.run()
        # Below 7 most wait, below 7 2 most of those; then 5 has two and 6 one.
        assert [r.id for r in engine.admissions] == [3, 4, 6, 1, 0, 5, 2]

    def test_a_branch_begun_is_finished_though_another_now_weighs_more(self):
        engine = FakeEngine(1000, SchedulerConfig(policy=SchedulePolicy.DFS_WEIGHT, max_running=1))
        engine.add([5, 5, 0])
        engine.step()
        engine.add([6, 6, 0])
        engine.step()
        engine.scheduler._books.waiting.last_key = b""
        for prompt in ([5, 1], [6, 1], [5, 2], [6, 2], [5, 3], [6, 3]):
            engine.add([*prompt, 0])
        engine.run()
        assert [r.id for r in engine.admissions[2:]] == [2, 4, 6, 3, 5, 7]

    def test_cached_branches_first(self):
        engine = FakeEngine(1000, SchedulerConfig(policy=SchedulePolicy.DFS_WEIGHT, max_running=1))
        engine.add([6, 1, 0])
        engine.step()
        engine.scheduler._books.waiting.last_key = b""
        for prompt in ([5, 1], [5, 2], [6, 2], [5, 3]):
            engine.add([*prompt, 0])
        engine.run()
        assert [r.id for r in engine.admissions[1:]] == [3, 1, 2, 4]


@pytest.mark.parametrize("policy", [SchedulePolicy.LPM, SchedulePolicy.DFS_WEIGHT])
@pytest.mark.parametrize("seed", range(5))
def test_one_at_a_time_a_batch_is_computed_once(policy, seed):
    """The paper's theorem 3.1: a cache that holds the longest request is enough."""
    rng = random.Random(seed)
    prompts = []
    for _ in range(60):
        prompt = []
        for depth in range(rng.randint(1, 4)):
            prompt += [rng.randrange(3), *([depth] * rng.randint(3, 4))]
        prompts.append(prompt)
    config = SchedulerConfig(policy=policy, max_running=1, max_step_tokens=None)
    engine = FakeEngine(max(map(len, prompts)), config)
    for prompt in prompts:
        engine.add(prompt)
    engine.run()
    # A prompt that is a prefix of another, or another's equal, computes its last token again.
    tips = [tuple(p) for p in prompts]
    prefixes = {p[:i] for p in set(tips) for i in range(1, len(p))}
    again = sum(t in prefixes for t in set(tips)) + len(tips) - len(set(tips))
    best = distinct_edges(prompts)
    assert best <= engine.computed <= best + again
