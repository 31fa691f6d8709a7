"""Log-probabilities: of the model's own distribution, and the same bits in every batch."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest
import torch

from agentrt.runtime.sampler import sample, score
from tests.runtime.sampling import mask_of, random_logits, row

VOCAB = 49_152
CASES = [0.01, 3.0, 30.0, 300.0]


def reference(logits: torch.Tensor) -> np.ndarray:
    return torch.log_softmax(logits.double(), -1).numpy()


def scored(logits: torch.Tensor, targets: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
    """One target a row."""
    return score(logits, np.arange(len(targets)), targets)


@pytest.mark.parametrize("spread", CASES)
def test_scores_are_those_of_log_softmax(spread: float):
    logits = random_logits(8, VOCAB, spread=spread)
    targets = np.asarray([0, 5, 99, 1000, 20_000, 30_000, 40_000, VOCAB - 1])
    scores = scored(logits, targets)
    assert scores.dtype == np.float32
    expected = reference(logits)[np.arange(8), targets]
    np.testing.assert_allclose(scores, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("spread", CASES)
def test_a_chosen_token_is_scored_as_the_model_sees_it(spread: float):
    logits = random_logits(4, VOCAB, spread=spread)
    changed = [
        row(logprobs=True),
        row(temperature=2.0, top_k=9, seed=4, logprobs=True),
        row(mask=mask_of(range(5), VOCAB), logprobs=True),
        row(logit_bias={7: 1e5}, logprobs=True),
    ]
    answers = sample(logits, changed)
    tokens = [answer.token_id for answer in answers]
    assert tokens[3] == 7
    expected = reference(logits)[np.arange(4), tokens]
    np.testing.assert_allclose([a.logprob for a in answers], expected, rtol=1e-6, atol=1e-6)
    chosen = np.asarray([a.logprob for a in answers], np.float32)
    np.testing.assert_array_equal(chosen, scored(logits, np.asarray(tokens)))


def test_the_likeliest_come_first():
    logits = random_logits(1, VOCAB)
    answer = sample(logits, [row(top_logprobs=20, temperature=5.0, seed=1)])[0]
    expected = torch.log_softmax(logits[0].double(), -1).topk(20)
    assert [token_id for token_id, _ in answer.top] == expected.indices.tolist()
    np.testing.assert_allclose([p for _, p in answer.top], expected.values, atol=1e-6)


def test_equally_likely_come_in_order_of_id():
    logits = torch.zeros(1, 100)
    logits[0, [30, 10, 20]] = 1.0
    top = sample(logits, [row(top_logprobs=5)])[0].top
    assert [token_id for token_id, _ in top] == [10, 20, 30, 0, 1]


def test_zeros_of_either_sign_are_equal():
    top = sample(torch.tensor([[0.0, -0.0, 0.0]]), [row(top_logprobs=3)])[0].top
    assert [token_id for token_id, _ in top] == [0, 1, 2]


def test_impossible_tokens_are_no_alternatives():
    top = sample(torch.tensor([[0.0, -math.inf, 1.0]]), [row(top_logprobs=64)])[0].top
    assert [token_id for token_id, _ in top] == [2, 0]


def test_logprobs_only_where_asked_for():
    plain, with_top = sample(torch.zeros(2, 4), [row(), row(top_logprobs=1)])
    assert math.isnan(plain.logprob)
    assert plain.top == ()
    assert with_top.logprob == pytest.approx(-math.log(4), abs=1e-6)


def test_a_score_has_the_same_bits_in_every_batch():
    logits = random_logits(70, 5_003)
    targets = np.arange(70)
    together = scored(logits, targets)
    alone = [scored(logits[i : i + 1], targets[i : i + 1])[0] for i in range(70)]
    np.testing.assert_array_equal(together, np.asarray(alone))
    np.testing.assert_array_equal(scored(logits.flip(0), targets[::-1].copy()), together[::-1])


def test_scores_of_what_is_no_distribution_are_nan():
    logits = torch.tensor([[0.0, math.nan], [0.0, math.inf], [-math.inf, -math.inf], [0.0, 0.0]])
    scores = scored(logits, np.asarray([0, 0, 0, 1]))
    assert np.isnan(scores[:3]).all()
    assert scores[3] == pytest.approx(-math.log(2), abs=1e-6)


def test_an_impossible_target_scores_minus_infinity():
    assert scored(torch.tensor([[0.0, -math.inf]]), np.asarray([1]))[0] == -math.inf


def test_nothing_to_score():
    assert scored(torch.zeros(0, 4), np.zeros(0, np.int64)).shape == (0,)


def test_several_tokens_of_a_row_score_as_in_rows_of_their_own():
    logits = random_logits(3, 5_003)
    rows, targets = np.asarray([0, 0, 2, 2, 2]), np.asarray([5, 9, 5_002, 0, 5])
    repeated = logits[torch.from_numpy(rows)]
    np.testing.assert_array_equal(score(logits, rows, targets), scored(repeated, targets))
