"""Every architecture gives the logits of its own plain transformers forward, however it is cut."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from agentrt.runtime.model import Model
from tests.runtime.decoding import Driver, Sequence
from tests.runtime.model_zoo import ARCHITECTURES, VOCAB, build, config_of, eager_logits, plain

PROMPT = [(7 * i * i + 3 * i + 5) % VOCAB for i in range(23)]
OTHER = [(11 * i * i + i + 40) % VOCAB for i in range(17)]

_models: dict[str, Model] = {}


@pytest.fixture(params=list(ARCHITECTURES))
def name(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def driver(name: str) -> Driver:
    if name not in _models:
        _models[name] = Model.from_module(build(config_of(name)), name=name)
    return Driver(_models[name])


def assert_plain(name: str, sequence: Sequence) -> None:
    wanted = eager_logits(plain(name), sequence.tokens)
    torch.testing.assert_close(sequence.all_logits(), wanted, atol=1e-4, rtol=0)


def test_whole_prompt(name: str, driver: Driver) -> None:
    sequence = Sequence(PROMPT)
    driver.step((sequence, 23))
    assert_plain(name, sequence)


def test_chunked_prompt(name: str, driver: Driver) -> None:
    sequence = Sequence(PROMPT)
    for chunk in (1, 9, 2, 11):
        driver.step((sequence, chunk))
    assert_plain(name, sequence)


def test_cached_prefix_and_two_suffixes(name: str, driver: Driver) -> None:
    first = Sequence(PROMPT)
    driver.step((first, 12))
    second = Sequence(PROMPT[:12] + OTHER[:6], first.slots[:12], first.logits[:12])
    driver.step((first, 11), (second, 6))
    assert_plain(name, first)
    assert_plain(name, second)


def test_decode_after_decode(name: str, driver: Driver) -> None:
    sequence = Sequence(PROMPT)
    driver.step((sequence, 15))
    for _ in range(8):
        driver.step((sequence, 1))
    assert_plain(name, sequence)


def test_mixed_batch(name: str, driver: Driver) -> None:
    a, b, c = Sequence(PROMPT), Sequence(OTHER), Sequence(PROMPT[3:14])
    driver.step((b, 8))
    driver.step((a, 10), (b, 1))
    driver.step((c, 4), (b, 1), (a, 5))
    driver.step((a, 8), (c, 7), (b, 7))
    for sequence in (a, b, c):
        assert_plain(name, sequence)


def test_logits_of_chosen_rows_only(name: str, driver: Driver) -> None:
    layout = driver.layout((Sequence(PROMPT), 15))
    logits = driver.model.forward(layout, np.array([9, 2]))
    wanted = eager_logits(plain(name), PROMPT[:15])[[9, 2]]
    torch.testing.assert_close(logits, wanted, atol=1e-4, rtol=0)
