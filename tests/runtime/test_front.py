"""What a prompt costs before it is a request."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytest

from agentrt.errors import InvalidRequest
from agentrt.runtime.front import Front
from agentrt.testing import ByteCodec

if TYPE_CHECKING:
    from types import FrameType


@pytest.fixture
def front() -> Front:
    nothing = cast("Any", None)
    return Front(cast("Any", SimpleNamespace(codec=ByteCodec())), nothing, nothing)


def test_token_ids_cost_no_call_each(front: Front) -> None:
    calls: list[str] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            calls.append(frame.f_code.co_name)

    prompt = list(range(2_000))
    sys.setprofile(note)
    try:
        tokens = front.tokens(prompt)
    finally:
        sys.setprofile(None)
    assert tokens == prompt
    assert len(calls) < len(prompt) / 10


def test_the_prompt_of_a_request_is_its_own(front: Front) -> None:
    prompt = [1, 2, 3]
    tokens = front.tokens(prompt)
    prompt.append(4)
    assert tokens == [1, 2, 3]


@pytest.mark.parametrize(
    "prompt", [np.arange(3), [np.int32(0), 1, np.uint8(2)], iter((0, 1, 2)), range(3)]
)
def test_whatever_has_an_index_is_a_token_id(front: Front, prompt: object) -> None:
    tokens = front.tokens(prompt)
    assert tokens == [0, 1, 2]
    assert {*map(type, tokens)} == {int}


@pytest.mark.parametrize("prompt", [[1, True], [1, 2.0], [1, None], np.zeros((2, 2), int), ["a"]])
def test_nothing_else_is(front: Front, prompt: object) -> None:
    with pytest.raises(InvalidRequest):
        front.tokens(prompt)
