"""Answers that were cut by their length."""

from __future__ import annotations

import json

import pytest

from agentrt import GenerationFailed
from agentrt.generation import Completion, FinishReason
from agentrt.programs.answers import answer_of, check_whole
from agentrt.schema import Vocabulary

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(("text", "is_whole"), [("[1, 2", False), ("[1,2]", True)])
async def test_an_answer_that_was_cut_is_told_with_its_facts(text: str, is_whole: bool) -> None:
    vocabulary = Vocabulary([*(bytes([b]) for b in range(256)), None], [256])
    answer = await answer_of(list[int], vocabulary)
    done = Completion(text, tuple(text.encode()), FinishReason.LENGTH)
    if is_whole:
        check_whole(answer, done)
        assert answer.read(text) == json.loads(text)
        return
    with pytest.raises(GenerationFailed, match=r"cut after 5 tokens.*raise max_tokens"):
        check_whole(answer, done)
