"""What a row is answered with: alone or among others, greedy or drawn, sane or not."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt.runtime import draw, sampler
from agentrt.runtime.sampler import sample
from tests.runtime.sampling import mask_of, random_logits, row

if TYPE_CHECKING:
    from agentrt.runtime.batch import Sampled


def only(logits: list[float] | torch.Tensor, **how) -> Sampled:
    """The answer to one row."""
    tensor = torch.as_tensor(logits, dtype=torch.float32)
    return sample(tensor[None], [row(**how)])[0]


# Greedy


def test_greedy_takes_the_largest():
    assert only([0.0, 3.0, 1.0]) == only([0.0, 3.0, 1.0], seed=9, position=9)
    assert only([0.0, 3.0, 1.0]).token_id == 1


@pytest.mark.parametrize("tied", [[1, 2], [5, 900, 40_000], [0, 49_151]])
def test_greedy_ties_go_to_the_lowest_id(tied: list[int]):
    logits = torch.zeros(49_152)
    logits[tied] = 2.0
    assert only(logits).token_id == min(tied)
    assert only(logits, mask=mask_of(tied[1:], 49_152)).token_id == tied[1]
    assert only(logits, top_k=1, temperature=1.0, seed=3).token_id == min(tied)


def test_greedy_under_a_mask_takes_the_largest_allowed():
    logits = random_logits(1, 1000)[0]
    for allowed in ([7], [3, 998, 999], range(0, 1000, 3)):
        best = max(allowed, key=lambda i: logits[i].item())
        assert only(logits, mask=mask_of(allowed, 1000)).token_id == best


def test_every_bit_of_a_mask_is_that_of_its_token():
    """The likeliest token is forbidden but where it is the one that is allowed."""
    pairs = [(allowed, likeliest) for allowed in range(0, 67, 2) for likeliest in range(67)]
    logits = torch.nn.functional.one_hot(torch.tensor([likeliest for _, likeliest in pairs]))
    answers = sample(logits.float(), [row(mask=mask_of([allowed], 67)) for allowed, _ in pairs])
    assert [answer.token_id for answer in answers] == [allowed for allowed, _ in pairs]


@pytest.mark.parametrize("vocab_size", [1, 31, 32, 33, 100])
def test_mask_bits_beyond_the_vocabulary_do_not_matter(vocab_size: int):
    mask = np.full(-(-vocab_size // 32), 0xFFFFFFFF, np.uint32)
    logits = torch.arange(vocab_size, dtype=torch.float32)
    assert only(logits, mask=mask, banned=[0] if vocab_size > 1 else []).token_id == vocab_size - 1


# Draws


def test_draws_follow_the_distribution():
    logits = torch.tensor([0.0, 1.0, -1.0, 2.0, -torch.inf, 0.5])
    n = 3000
    answers = sample(logits.expand(n, -1), [row(temperature=0.7, position=i) for i in range(n)])
    counts = np.bincount([answer.token_id for answer in answers], minlength=6)
    expected = torch.softmax(logits.double() / 0.7, 0).numpy() * n
    assert counts[4] == 0
    seen = expected > 0
    chi_square = ((counts - expected)[seen] ** 2 / expected[seen]).sum()
    assert chi_square < 18.5  # 4 degrees of freedom, 1 in 1,000


def test_each_seed_and_position_draws_anew():
    logits = torch.zeros(49_152)
    tokens = {only(logits, temperature=1.0, seed=s, position=p).token_id for s, p in PAIRS}
    assert len(tokens) >= len(PAIRS) - 1
    assert only(logits, temperature=1.0, seed=5) == only(logits, temperature=1.0, seed=5)


@pytest.mark.parametrize("how", [{}, {"top_p": 0.99}, {"top_k": 4}], ids=str)
@pytest.mark.parametrize(("share", "token_id"), [(0.0, 1), (0.49, 1), (0.5, 3), (1.0, 3)])
def test_a_token_owns_its_share_up_to_the_next_ones(monkeypatch, how, share, token_id):
    """[0, 1/2) belongs to the first of two, [1/2, 1) to the second; none to what is impossible."""
    monkeypatch.setattr(draw, "random_uint64", lambda *_: min(int(share * 2**64), 2**64 - 1))
    logits = [-math.inf, 0.0, -math.inf, 0.0, -math.inf]
    assert only(logits, temperature=1.0, **how).token_id == token_id


PAIRS = [(seed, position) for seed in (0, 1, 2**62) for position in (0, 1, 50_000)]


@pytest.mark.parametrize("temperature", [1e-45, 1e-30, 1e-6])
def test_tiny_temperatures_are_greedy(temperature: float):
    logits = random_logits(1, 500, spread=50)[0]
    for position in range(20):
        answer = only(logits, temperature=temperature, position=position)
        assert answer.token_id == logits.argmax()


@pytest.mark.parametrize("temperature", [1e6, 1e30, 1e300])
def test_huge_temperatures_are_even_over_what_is_allowed(temperature: float):
    logits = random_logits(1, 64)[0]
    allowed = range(10, 50)
    drawn = {
        only(logits, temperature=temperature, position=i, mask=mask_of(allowed, 64)).token_id
        for i in range(400)
    }
    assert drawn == set(allowed)


def test_truncation_to_one_token_is_greedy():
    logits = random_logits(1, 500)[0]
    for how in ({"top_p": 1e-9}, {"top_p": 5e-324}, {"top_k": 1}, {"min_p": 1.0}):
        assert only(logits, temperature=2.0, **how).token_id == logits.argmax(), how


def test_more_than_the_vocabulary_is_all_of_it():
    logits = random_logits(1, 40)[0]
    for position in range(50):
        alone = only(logits, temperature=3.0, position=position)
        for k in (40, 41, 10**9):
            assert only(logits, temperature=3.0, position=position, top_k=k) == alone


def test_top_k_may_exceed_what_is_allowed():
    logits, allowed = random_logits(1, 64)[0], [3, 60]
    drawn = {
        only(logits, temperature=9.0, position=i, top_k=10, mask=mask_of(allowed, 64)).token_id
        for i in range(40)
    }
    assert drawn == set(allowed)


# The batch does not matter

VOCAB = 333
options = st.fixed_dictionaries(
    {
        "temperature": st.sampled_from([0.0, 1e-6, 0.7, 1.0, 4.0, 1e6]),
        "top_p": st.sampled_from([1.0, 1.0, 0.99, 0.5, 1e-9]),
        "top_k": st.sampled_from([None, None, 1, 7, 1000]),
        "min_p": st.sampled_from([0.0, 0.0, 0.01, 0.5]),
        "frequency_penalty": st.sampled_from([0.0, 0.0, 0.5]),
        "presence_penalty": st.sampled_from([0.0, 0.0, -0.5]),
        "repetition_penalty": st.sampled_from([1.0, 1.0, 1.3]),
        "logit_bias": st.sampled_from([{}, {}, {5: 2.0, 9: -math.inf}]),
        "top_logprobs": st.sampled_from([0, 0, 4]),
        "logprobs": st.booleans(),
    }
)
rows = st.builds(
    lambda options, **how: row(**how, **options),
    options,
    seed=st.integers(0, 2**63 - 1),
    position=st.integers(0, 10_000),
    mask=st.sampled_from([None, None, mask_of(range(0, VOCAB, 3), VOCAB), mask_of([], VOCAB)]),
    history=st.lists(st.integers(0, VOCAB - 1), max_size=5),
    prompt=st.lists(st.integers(0, VOCAB - 1), max_size=5),
    banned=st.sampled_from([(), (), (0, 3)]),
)


def batch_of(count: int, seed: int) -> torch.Tensor:
    """Random logits with ties; the third row of them, if there is one, is broken."""
    logits = (random_logits(count, VOCAB, seed=seed) * 4).round() / 4
    logits[2:3, 100] = torch.nan
    return logits


@settings(max_examples=60, deadline=None)
@given(st.lists(rows, min_size=1, max_size=8), st.integers(0, 9), st.randoms())
def test_a_row_is_answered_alike_in_every_batch(rows, seed, random):
    logits = batch_of(len(rows), seed)
    together = list(map(str, sample(logits, rows)))  # by text: NaN is equal to itself there
    alone = [str(sample(logits[i : i + 1], [r])[0]) for i, r in enumerate(rows)]
    order = random.sample(range(len(rows)), len(rows))
    shuffled = sample(logits[order], [rows[i] for i in order])
    assert together == alone
    assert list(map(str, shuffled)) == [together[i] for i in order]


@settings(max_examples=60, deadline=None)
@given(st.lists(rows, min_size=1, max_size=8), st.integers(0, 9))
def test_rows_computed_at_once_are_answered_as_one_by_one(rows, seed):
    """What an accelerator does, which takes many rows in one launch."""
    logits = batch_of(len(rows), seed)
    one_by_one = list(map(str, sample(logits, rows)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sampler, "_split", lambda indices, _device: [indices] if indices else [])
        assert list(map(str, sample(logits, rows))) == one_by_one


@pytest.mark.parametrize("threads", [1, 2, 3, 5])
def test_the_number_of_threads_does_not_matter(threads: int):
    logits = random_logits(6, 49_157)
    some = [
        row(temperature=0.8, seed=1, top_logprobs=3),
        row(temperature=0.8, seed=2, top_p=0.95, logprobs=True),
        row(temperature=0.8, seed=3, top_k=40, logprobs=True),
        row(temperature=1.5, seed=4, min_p=0.01, logprobs=True),
        row(logprobs=True),
        row(temperature=1e6, seed=5, logprobs=True),
    ]
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        expected = sample(logits, some)
        torch.set_num_threads(threads)
        assert sample(logits, some) == expected
    finally:
        torch.set_num_threads(before)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_cuda_answers_as_the_cpu_does():
    """Up to draws that fall within a rounding of exp of the border between two tokens."""
    logits = random_logits(64, 49_152)
    for how in ({}, {"temperature": 0.8}, {"temperature": 0.8, "top_p": 0.9, "top_k": 50}):
        some = [row(seed=i, top_logprobs=2, **how) for i in range(64)]
        cpu, cuda = sample(logits, some), sample(logits.cuda(), some)
        assert sum(a.token_id != b.token_id for a, b in zip(cpu, cuda, strict=True)) <= 1
        np.testing.assert_allclose(
            [a.top[0][1] for a in cpu], [b.top[0][1] for b in cuda], atol=1e-6
        )


# Rows that cannot be sampled


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("how", [{}, {"temperature": 1.0}, {"mask": mask_of([1], 4)}])
def test_a_broken_row_fails_alone(bad: float, how: dict):
    logits = torch.tensor([[0.0, 1, 2, 3], [0, 1, 2, bad], [3, 2, 1, 0]])
    fine, broken, also_fine = sample(logits, [row(), row(**how), row()])
    assert (fine.token_id, also_fine.token_id) == (3, 0)
    assert broken.token_id == -1
    assert ("NaN" if math.isnan(bad) else "+inf") in str(broken.error)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize(
    ("how", "cause"),
    [
        ({"mask": mask_of([], 4)}, "after the mask"),
        ({"banned": range(4)}, "after banned tokens"),
        ({"mask": mask_of([2], 4), "banned": [2]}, "after the mask and banned tokens"),
        ({"logit_bias": dict.fromkeys(range(4), -math.inf)}, "after logit_bias"),
        ({"logit_bias": {1: 3e38}, "repetition_penalty": 1e-9, "prompt": [1]}, "float32's range"),
    ],
)
def test_a_row_with_nothing_left_says_why(temperature: float, how: dict, cause: str):
    broken, fine = sample(torch.ones(2, 4), [row(temperature=temperature, **how), row()])
    assert cause in str(broken.error)
    assert (broken.token_id, fine.token_id, fine.error) == (-1, 0, None)


def test_a_row_of_minus_infinity_is_broken():
    assert "every logit" in str(only([-math.inf, -math.inf]).error)


def test_a_mask_of_another_vocabulary_is_refused():
    answer = only([0.0] * 40, mask=mask_of([1], 32))
    assert answer.error is not None
    assert "1 words and 40 logits want 2" in answer.error


def test_rows_and_logits_must_match():
    with pytest.raises(ValueError, match="1 rows to sample from 2 rows of logits"):
        sample(torch.zeros(2, 4), [row()])


def test_no_rows():
    assert sample(torch.zeros(0, 4), []) == ()


def test_the_logits_are_left_as_they_were():
    logits = random_logits(2, 64)
    before = logits.clone()
    how = {"logit_bias": {3: 1.0}, "mask": mask_of(range(9), 64), "banned": [2]}
    sample(logits, [row(**how), row(temperature=1.0, top_p=0.5, **how)])
    assert torch.equal(logits, before)
