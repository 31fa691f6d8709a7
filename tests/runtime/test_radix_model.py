"""The radix cache against the naive model of `radix_twin`: random traffic and state machine."""

from __future__ import annotations

import random

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.runtime.radix_twin import Path, Twin

NAMESPACES = ("", "salt")


class Traffic:
    """Weighted random operations on a twin, most of them on or near what is cached."""

    def __init__(self, seed: int, num_slots: int) -> None:
        self.random = random.Random(seed)
        self.twin = Twin(num_slots)
        self.operations = {
            self.look_up: 8,
            self.take_up: 8,
            self.acquire: 20,
            self.extend: 25,
            self.release: 20,
            self.look_below: 6,
            self.advance: 6,
            self.evict: 10,
            self.free_held: 4,
            self.pin: 2,
            self.unpin: 2,
            self.flush: 0.2,
        }

    def run(self, steps: int) -> None:
        """Does `steps` operations and checks the books after each, everything now and then."""
        chosen = self.random.choices(list(self.operations), list(self.operations.values()), k=steps)
        for step, operation in enumerate(chosen):
            operation()
            self.twin.check()
            if step % 100 == 0:
                self.twin.check_everything()
        self.twin.close()

    def tokens(self, most: int) -> tuple[int, ...]:
        return tuple(self.random.choices((0, 0, 1, 2), k=self.random.randint(0, most)))

    def path(self) -> Path:
        """Part of something cached and something random after it, or something random."""
        if self.twin.naive.slot and self.random.random() < 0.7:
            path = self.random.choice(list(self.twin.naive.slot))
            return (*path[: self.random.randint(1, len(path))], *self.tokens(4))
        return (self.random.choice(NAMESPACES), *self.tokens(8))

    def look_up(self) -> None:
        self.twin.lookups = [*self.twin.lookups[-3:], self.twin.look_up(self.path())]

    def look_below(self) -> None:
        if self.twin.locks:
            lock = self.random.choice(self.twin.locks)
            self.twin.lookups.append(self.twin.look_below(lock, self.tokens(5)))

    def take_up(self) -> None:
        if self.twin.lookups and len(self.twin.locks) < 6:
            lookups = self.twin.lookups
            self.twin.acquire(lookups.pop(self.random.randrange(len(lookups))))

    def acquire(self) -> None:
        if len(self.twin.locks) < 6:
            self.twin.acquire(self.twin.look_up(self.path()))

    def advance(self) -> None:
        if self.twin.locks:
            lock = self.random.choice(self.twin.locks)
            self.twin.acquire(self.twin.look_below(lock, self.tokens(5)))

    def extend(self) -> None:
        if self.twin.locks:
            lock = self.random.choice(self.twin.locks)
            self.twin.extend(lock, self.tokens(6), keep=self.random.random() < 0.2)

    def release(self) -> None:
        if self.twin.locks:
            self.twin.release(self.random.choice(self.twin.locks))

    def evict(self) -> None:
        self.twin.evict(self.random.randint(0, 6))

    def free_held(self) -> None:
        self.twin.free_held()

    def pin(self) -> None:
        if len(self.twin.pins) < 3:
            self.twin.pin(self.path())

    def unpin(self) -> None:
        if self.twin.pins:
            self.twin.unpin(self.random.randrange(len(self.twin.pins)))

    def flush(self) -> None:
        self.twin.flush()


@pytest.mark.slow
def test_a_hundred_thousand_random_operations() -> None:
    Traffic(seed=20240, num_slots=40).run(100_000)


@pytest.mark.parametrize("seed", range(4))
def test_random_operations_in_a_larger_and_a_tiny_pool(seed: int) -> None:
    Traffic(seed=seed, num_slots=(6, 15, 80, 200)[seed]).run(1_000)


TOKENS = st.lists(st.integers(0, 2), max_size=6).map(tuple)
PATHS = st.builds(
    lambda namespace, tokens: (namespace, *tokens), st.sampled_from(NAMESPACES), TOKENS
)


class Machine(RuleBasedStateMachine):
    """The same operations, chosen by hypothesis, which shrinks what fails."""

    def __init__(self) -> None:
        super().__init__()
        self.twin = Twin(24)

    @rule(path=PATHS)
    def look_up(self, path: Path) -> None:
        self.twin.lookups.append(self.twin.look_up(path))

    @precondition(lambda self: self.twin.lookups)
    @rule(data=st.data())
    def take_up(self, data: st.DataObject) -> None:
        lookup = data.draw(st.sampled_from(self.twin.lookups))
        self.twin.lookups.remove(lookup)
        self.twin.acquire(lookup)

    @rule(path=PATHS)
    def acquire(self, path: Path) -> None:
        self.twin.acquire(self.twin.look_up(path))

    @precondition(lambda self: self.twin.locks)
    @rule(data=st.data(), tokens=TOKENS)
    def look_below(self, data: st.DataObject, tokens: tuple[int, ...]) -> None:
        lock = data.draw(st.sampled_from(self.twin.locks))
        self.twin.lookups.append(self.twin.look_below(lock, tokens))

    @precondition(lambda self: self.twin.locks)
    @rule(data=st.data(), tokens=TOKENS, keep=st.booleans())
    def extend(self, data: st.DataObject, tokens: tuple[int, ...], keep: bool) -> None:
        self.twin.extend(data.draw(st.sampled_from(self.twin.locks)), tokens, keep=keep)

    @precondition(lambda self: self.twin.locks)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        self.twin.release(data.draw(st.sampled_from(self.twin.locks)))

    @rule(n=st.integers(0, 8))
    def evict(self, n: int) -> None:
        self.twin.evict(n)

    @rule()
    def flush(self) -> None:
        self.twin.flush()

    @rule()
    def free_held(self) -> None:
        self.twin.free_held()

    @rule(path=PATHS)
    def pin(self, path: Path) -> None:
        self.twin.pin(path)

    @precondition(lambda self: self.twin.pins)
    @rule(data=st.data())
    def unpin(self, data: st.DataObject) -> None:
        self.twin.unpin(data.draw(st.sampled_from(range(len(self.twin.pins)))))

    @invariant()
    def check(self) -> None:
        self.twin.check()

    def teardown(self) -> None:
        self.twin.check_everything()
        self.twin.close()


TestMachine = Machine.TestCase
TestMachine.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
