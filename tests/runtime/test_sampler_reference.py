"""Every option against transformers' logits processors, draws against a plain inverse CDF."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import (
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from agentrt.runtime.draw import by_likelihood, weights_of
from agentrt.runtime.logit_edits import edited
from agentrt.runtime.rng import random_uint64
from agentrt.runtime.sampler import sample
from tests.runtime.sampling import mask_of, random_logits, row

if TYPE_CHECKING:
    from agentrt.runtime.batch import SampleRow

VOCAB = 200
PROMPT, OUTPUT = (3, 4, 5, 5), (5, 6, 6, 7)


def changed_logits(logits: torch.Tensor, r: SampleRow) -> torch.Tensor:
    """Steps up to the mask, one after the other, on float32 [1, V]."""
    p = r.params
    logits = logits.clone()
    for token_id, bias in p.logit_bias.items():
        logits[0, token_id] += bias
    penalty = RepetitionPenaltyLogitsProcessor(p.repetition_penalty)
    logits = penalty(torch.tensor([[*r.prompt, *r.history]]), logits)
    for token_id, times in Counter(r.history).items():
        logits[0, token_id] -= times * p.frequency_penalty + p.presence_penalty
    logits[0, list(r.banned)] = -math.inf
    if r.mask is not None:
        bits = [int(r.mask[i // 32]) >> i % 32 & 1 for i in range(logits.shape[1])]
        logits[0, torch.tensor(bits) == 0] = -math.inf
    return logits


def distribution(logits: torch.Tensor, r: SampleRow) -> np.ndarray:
    """Probabilities [V] that the options leave, by transformers' warpers in float64."""
    p, ids = r.params, torch.zeros(1, 1, dtype=torch.long)
    scores = changed_logits(logits, r).double()
    scores = TemperatureLogitsWarper(p.temperature)(ids, scores)
    if p.top_k is not None:
        scores = TopKLogitsWarper(p.top_k)(ids, scores)
    if p.top_p < 1.0:
        scores = TopPLogitsWarper(p.top_p)(ids, scores)
    if p.min_p > 0.0:
        scores = MinPLogitsWarper(p.min_p)(ids, scores)
    return torch.softmax(scores[0], 0).numpy()


CHANGES = {
    "bias": {"logit_bias": {3: 2.0, 100: -5.0, 6: -math.inf}},
    "repetition": {"repetition_penalty": 1.7},
    "reward": {"repetition_penalty": 0.5},
    "frequency": {"frequency_penalty": 0.8},
    "presence": {"presence_penalty": -1.2},
    "banned": {"banned": (5, 9, 9)},
    "mask": {"mask": mask_of(range(0, VOCAB, 2), VOCAB)},
    "all": {
        "logit_bias": {3: 2.0, 5: -1.0, 6: 4.0},
        "repetition_penalty": 1.3,
        "frequency_penalty": 0.4,
        "presence_penalty": 0.3,
        "banned": (5, 100),
        "mask": mask_of(range(3, VOCAB, 2), VOCAB),
    },
}


@pytest.mark.parametrize("name", CHANGES)
def test_changes_are_made_as_transformers_makes_them(name: str):
    logits = random_logits(1, VOCAB)
    r = row(prompt=PROMPT, history=OUTPUT, **CHANGES[name])
    ours = edited(logits, [r])
    torch.testing.assert_close(ours, changed_logits(logits, r), rtol=0, atol=1e-6)
    assert not torch.equal(ours, logits)
    assert sample(logits, [r])[0].token_id == ours.argmax()


def test_every_row_of_a_block_gets_its_own_changes():
    logits = random_logits(len(CHANGES) + 1, VOCAB)
    rows = [row(prompt=PROMPT, history=OUTPUT, **how) for how in CHANGES.values()]
    rows.insert(2, row())
    expected = [changed_logits(logits[i : i + 1], r) for i, r in enumerate(rows)]
    torch.testing.assert_close(edited(logits, rows), torch.cat(expected), rtol=0, atol=1e-6)


def test_only_the_repetition_penalty_counts_the_prompt():
    logits = torch.tensor([[1.0, 0.9]])
    assert sample(logits, [row(prompt=[0], frequency_penalty=1.0)])[0].token_id == 0
    assert sample(logits, [row(prompt=[0], repetition_penalty=2.0)])[0].token_id == 1


TRUNCATIONS = [
    {},
    {"top_k": 5},
    {"top_p": 0.8},
    {"min_p": 0.05},
    {"top_k": 30, "top_p": 0.7},
    {"top_p": 0.9, "min_p": 0.02},
    {"top_k": 20, "top_p": 0.9, "min_p": 0.1},
    {"top_p": 0.9999},
]


@pytest.mark.parametrize("how", TRUNCATIONS, ids=str)
@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test_draws_are_the_inverse_cdf_of_what_transformers_keeps(how: dict, temperature: float):
    logits = random_logits(1, VOCAB, spread=2.0)
    for change in CHANGES.values():
        rows = [
            row(
                temperature=temperature, seed=11, position=i, prompt=PROMPT, history=OUTPUT,
                **change, **how,
            )
            for i in range(20)
        ]  # fmt: skip
        sums = distribution(logits, rows[0]).cumsum()
        answers = sample(logits.expand(20, -1), rows)
        for r, answer in zip(rows, answers, strict=True):
            u = random_uint64(r.seed, r.position) / 2**64
            near = np.abs(sums - u).min() < 1e-6  # float32's exp may decide otherwise there
            assert near or answer.token_id == np.searchsorted(sums, u, side="right")


@pytest.mark.parametrize("how", TRUNCATIONS[1:], ids=str)
def test_just_the_tokens_that_transformers_keeps_are_drawn(how: dict):
    logits = random_logits(1, 60, spread=0.3)
    expected = distribution(logits, row(temperature=1.0, **how))
    rows = [row(temperature=1.0, position=i, **how) for i in range(600)]
    answers = sample(logits.expand(600, -1), rows)
    drawn = np.bincount([answer.token_id for answer in answers], minlength=60) > 0
    assert not drawn[expected == 0].any()
    assert drawn[expected > 0.02].all()  # a miss in 600 draws: 5 in a million
    assert (expected > 0.02).sum() >= 5


# Exactness, where transformers' floating-point sums leave it open

hard_logits = st.one_of(
    st.lists(st.sampled_from([0.0, -0.0, 1.0, 1.0, 2.0, -30.0]), min_size=1, max_size=40),
    st.lists(st.floats(-60, 60, width=32), min_size=1, max_size=40),
    st.integers(1, 60).map(lambda n: [0.0] * n),
)
tops = st.one_of(st.sampled_from([1e-300, 0.25, 0.5, 0.75, 1 - 2**-53]), st.floats(1e-9, 1 - 1e-9))


@settings(max_examples=150, deadline=None)
@given(hard_logits, tops, st.sampled_from([None, 1, 3, 17]), st.sampled_from([0.0, 0.3, 1.0]))
def test_truncation_is_exact_in_whole_numbers(values, top_p, top_k, min_p):
    logits = torch.tensor([values])
    best = logits.amax(1).numpy()
    weights = weights_of(logits, best, [1.0])[0].tolist()
    ranked = sorted(range(len(values)), key=lambda i: (-values[i], i))[:top_k]
    mass, before, kept = sum(weights[i] for i in ranked), 0, []
    for i in ranked:
        if before < Fraction(top_p) * mass and weights[i] >= min_p * 2**40:
            kept.append(i)
        before += weights[i]
    kept = [i for i in sorted(kept) if weights[i]]
    for position in range(4):
        r = row(temperature=1.0, top_p=top_p, top_k=top_k, min_p=min_p, position=position)
        aim = Fraction(random_uint64(0, position), 2**64) * sum(weights[i] for i in kept)
        for i in kept:
            aim -= weights[i]
            if aim < 0:
                break
        assert sample(logits, [r])[0].token_id == i


@given(st.lists(st.floats(width=32, allow_nan=False), max_size=30))
def test_likelihood_sorts_by_value_then_index(values: list[float]):
    expected = sorted(range(len(values)), key=lambda i: (-values[i], i))
    assert by_likelihood(np.asarray(values, np.float32)).tolist() == expected
