"""What is refused before it costs anything, and how it is said."""

from __future__ import annotations

import math

import pytest

from agentrt.errors import InvalidRequest, PromptTooLong
from agentrt.generation import SamplingParams
from agentrt.runtime.batch import ModelSpec
from agentrt.runtime.checks import check_params, check_prompt, make_config, make_params
from agentrt.runtime.config import RuntimeConfig

SPEC = ModelSpec(
    "tiny", vocab_size=100, context_length=64, eos_token_ids=frozenset({2}), kv_bytes_per_token=8
)


def refusal(check, *args, **kwargs) -> str:
    with pytest.raises(InvalidRequest) as caught:
        check(*args, **kwargs)
    return str(caught.value)


# Making parameters


def test_good_options_make_parameters():
    made = make_params(temperature=0.5, stop=["a", "b"], logit_bias={3: -math.inf})
    assert made == SamplingParams(temperature=0.5, stop=("a", "b"), logit_bias={3: -math.inf})
    assert make_params() == SamplingParams()


def test_one_stop_string_may_stand_alone():
    assert make_params(stop="\n\n").stop == ("\n\n",)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"temperature": -1}, "temperature=-1: it should be greater than or equal to 0"),
        ({"temperature": math.inf}, "temperature=inf: it should be a finite number"),
        ({"top_p": 0}, "top_p=0: it should be greater than 0"),
        ({"top_p": 1.5}, "top_p=1.5: it should be less than or equal to 1"),
        ({"top_k": 0}, "top_k=0: it should be greater than or equal to 1"),
        ({"max_tokens": 2.5}, "max_tokens=2.5: it should be a valid integer"),
        ({"repetition_penalty": 0}, "repetition_penalty=0: it should be greater than 0"),
        ({"seed": 2**63}, "seed=9223372036854775808: it should be less than"),
        ({"stop": ["a", 3]}, "stop.1=3: it should be a valid string"),
        ({"logit_bias": {3: "b"}}, "logit_bias.3='b': it should be a valid number"),
    ],
)
def test_a_bad_option_is_named_with_its_value(options, named):
    assert refusal(make_params, **options).startswith(named)


def test_every_bad_option_is_named():
    message = refusal(make_params, temperature=-1, top_k=0, seed=0)
    assert "temperature=-1" in message
    assert "top_k=0" in message
    assert "seed" not in message


def test_a_misspelt_option_is_put_right():
    message = refusal(make_params, tempature=0.5)
    assert message == "tempature is no sampling option; did you mean temperature?"
    assert "there are max_tokens, min_tokens" in refusal(make_params, zzz=1)


def test_a_huge_value_is_named_in_short():
    assert len(refusal(make_params, temperature="x" * 10_000)) < 200


def test_runtime_options_are_merged_and_checked():
    base = RuntimeConfig(kv_tokens=100, policy="fcfs")
    assert make_config(None, {}) == RuntimeConfig()
    assert make_config(base, {"kv_tokens": 200}) == RuntimeConfig(kv_tokens=200, policy="fcfs")
    assert refusal(make_config, base, {"kv_tokens": 1}).startswith("kv_tokens=1: it should be")
    assert "did you mean device?" in refusal(make_config, None, {"devise": "cpu"})


# Parameters that cannot be meant


@pytest.mark.parametrize(
    "good",
    [
        {},
        {"top_k": 10**9},
        {"temperature": 1e6},
        {"temperature": 1e-6},
        {"max_tokens": 0},
        {"min_tokens": 5, "max_tokens": 5},
        {"stop": (" ", "\x00")},
        {"stop_token_ids": (0, 99)},
        {"logit_bias": {0: -math.inf, 99: 100.0}},
    ],
    ids=str,
)
def test_the_unusual_is_allowed(good):
    check_params(SamplingParams(**good), SPEC)


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ({"stop": ("a", "")}, "stop=('a', '') holds the empty string"),
        ({"min_tokens": 3, "max_tokens": 2}, "min_tokens=3 is more than max_tokens=2"),
        (
            {"stop_token_ids": (5, 100)},
            "stop_token_ids holds token id 100 and tiny has ids 0 to 99",
        ),
        ({"logit_bias": {-1: 1.0}}, "logit_bias holds token id -1"),
        ({"logit_bias": {3: math.nan}}, "logit_bias[3]=nan"),
        ({"logit_bias": {3: math.inf}}, "logit_bias[3]=inf"),
        ({"logit_bias": {3: 1e39}}, "logit_bias[3]=1e+39"),
    ],
    ids=str,
)
def test_what_cannot_be_meant_is_refused(bad, said):
    assert said in refusal(check_params, SamplingParams(**bad), SPEC)


# Prompts


@pytest.mark.parametrize(
    ("prompt", "max_tokens", "slots", "resolved"),
    [
        (4, None, 1000, 60),
        (4, None, 30, 26),
        (4, 60, 1000, 60),
        (4, 26, 30, 26),
        (63, None, 1000, 1),
        (64, 0, 1000, 0),
        (30, 0, 30, 0),
    ],
)
def test_what_fits_is_resolved(prompt, max_tokens, slots, resolved):
    assert check_prompt([1] * prompt, max_tokens, SPEC, slots) == resolved


@pytest.mark.parametrize(
    ("prompt", "max_tokens", "slots", "limit", "advice"),
    [
        (64, None, 1000, "the context window", "shorten it by 1 to leave 1 for the output, or"),
        (70, 5, 1000, "the context window", "shorten it by 11 to leave 5 for the output, or"),
        (65, 0, 1000, "the context window", "shorten it by 1, or"),
        (4, 61, 1000, "the context window", "lower max_tokens to 60, shorten the prompt by 1, or"),
        (4, 30, 30, "the KV pool", "lower max_tokens to 26"),
        (31, None, 30, "the KV pool", "give the runtime more kv_tokens"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_counts(prompt, max_tokens, slots, limit, advice):
    with pytest.raises(PromptTooLong) as caught:
        check_prompt([1] * prompt, max_tokens, SPEC, slots)
    error = caught.value
    assert (error.prompt_tokens, error.limit_tokens) == (prompt, min(64, slots))
    assert error.limit == limit
    assert f"the prompt is {prompt} tokens and {limit} holds {min(64, slots)}" in str(error)
    assert advice in str(error)


def test_an_empty_prompt_is_refused():
    assert "the prompt is empty" in refusal(check_prompt, [], 5, SPEC, 100)


@pytest.mark.parametrize("bad", [-1, 100])
def test_token_ids_out_of_range_are_refused(bad):
    message = refusal(check_prompt, [1, bad, 2], 5, SPEC, 100)
    assert f"the prompt holds token id {bad} and tiny has ids 0 to 99" in message


def test_min_tokens_must_fit_too():
    assert check_prompt([1] * 4, None, SPEC, 100, min_tokens=60) == 60
    message = refusal(check_prompt, [1] * 4, None, SPEC, 100, min_tokens=61)
    assert "min_tokens=61 and 60 output tokens may come" in message
