"""The simulation of many replicas: its caches keep to their room, and its figures to arithmetic."""

from __future__ import annotations

import random
from argparse import Namespace
from collections import defaultdict

import pytest

from benchmarks.replicas import OVER, SLACK, WAYS, Fleet, Replica, Run, simulate
from benchmarks.traffic import Call, Traffic, least_computed

ENDLESS = 10**12


def arguments(*, slots: int = ENDLESS, programs: int = 6) -> Namespace:
    return Namespace(seed=3, authors=20, slots=slots, programs=programs)


def replica_of(lengths: list[int], slots: int) -> Replica:
    traffic = Traffic(random.Random(0), 1)
    traffic.lengths += lengths
    return Replica(0, slots, traffic, defaultdict(set))


def test_what_was_asked_or_written_before_is_found() -> None:
    replica = replica_of([100, 10, 20, 7], ENDLESS)
    replica.serve(Call((0, 1), written=2), 110, now=0.0)
    assert replica.matched(Call((0, 1, 2, 3), written=9)) == 130
    assert replica.matched(Call((0, 3), written=9)) == 100
    assert replica.matched(Call((3,), written=9)) == 0


def test_the_least_recently_used_leaf_goes_first() -> None:
    replica = replica_of([100, 40, 40, 40, 1, 1, 1], 200)
    for own, written in ((1, 4), (2, 5), (3, 6)):
        replica.serve(Call((0, own), written), 140, now=0.0)
    # 100 + 3 * 41 do not fit: the first branch went, what the others stand on did not.
    assert [replica.matched(Call((0, own), written=9)) for own in (1, 2, 3)] == [100, 140, 140]


def test_calls_are_served_one_after_the_other() -> None:
    replica = replica_of([100, 10, 10], ENDLESS)
    first, _ = replica.serve(Call((0,), written=1), 100, now=5.0)
    second, cached = replica.serve(Call((0,), written=2), 100, now=6.0)
    assert (first, second, cached) == (145.0, 185.0, 100)
    assert replica.busy == 180.0


@pytest.mark.parametrize("way", WAYS)
def test_one_replica_with_room_for_all_computes_the_least(way: str) -> None:
    figures = simulate(arguments(), 1, way)
    assert figures["hit_rate"] == pytest.approx(figures["best_hit_rate"])
    assert figures["imbalance"] == 1.0
    assert figures["efficiency"] == pytest.approx(1.0)


@pytest.mark.parametrize("way", WAYS)
def test_a_seed_settles_everything(way: str) -> None:
    once, again = (simulate(arguments(slots=8_000), 4, way) for _ in range(2))
    assert once == again
    assert once["hit_rate"] < once["best_hit_rate"]


@pytest.mark.parametrize("way", WAYS)
def test_every_call_is_served_once(way: str) -> None:
    traffic = Traffic(random.Random(1), 5)
    fleet = Fleet.of(3, ENDLESS, traffic, seed=1)
    run = Run(traffic, fleet, getattr(fleet, way))
    run.finish(traffic.programs(20), at_once=4)
    written = [call.written for call in run.calls]
    assert len(written) == len(set(written))
    assert fleet.in_flight == 0
    assert all(replica.in_flight == 0 for replica in fleet.replicas)
    assert run.prompt_tokens - run.cached >= least_computed(traffic, run.calls)


def test_a_replica_that_is_too_busy_is_passed_over() -> None:
    traffic = Traffic(random.Random(1), 1)
    traffic.lengths += [50, 1]
    fleet = Fleet.of(2, ENDLESS, traffic, seed=1)
    holder, other = fleet.replicas
    holder.serve(Call((0,), written=1), 50, now=0.0)
    fleet.in_flight = 1
    assert fleet.match(Call((0,), written=1)) is holder
    holder.in_flight = fleet.in_flight = 100
    assert holder.in_flight > OVER * fleet.in_flight / 2 + SLACK
    # It is not even among those drawn, unless both draws fall on it.
    assert any(fleet.match(Call((0,), written=1)) is other for _ in range(20))


def test_a_hash_sends_equal_beginnings_to_one_replica() -> None:
    fleet = Fleet.of(16, ENDLESS, Traffic(random.Random(1), 1), seed=1)
    assert len({id(fleet.hash(Call((7, own), written=0))) for own in range(50)}) == 1
    assert len({id(fleet.hash(Call((stem,), written=0))) for stem in range(200)}) == 16


def test_a_larger_fleet_keeps_most_of_a_hash() -> None:
    few, more = (Fleet.of(n, 1, Traffic(random.Random(1), 1), seed=1) for n in (20, 21))
    places = [
        [fleet.hash(Call((stem,), written=0)).number for stem in range(400)]
        for fleet in (few, more)
    ]
    moved = sum(one != two for one, two in zip(*places, strict=True))
    assert moved < 60  # a twenty-first in the mean; a plain remainder would move nearly all
