"""Typed answers of the provided model: the same tokens, text ahead or not, alone or in a crowd."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import anyio
import pytest
from pydantic import BaseModel

from agentrt import Message, Runtime
from agentrt.schema import compile_schema
from tests.runtime.serving import settled

if TYPE_CHECKING:
    from agentrt import Completion
    from agentrt.schema import Grammar

pytestmark = [pytest.mark.anyio, pytest.mark.model]


class Stay(BaseModel):
    """Ten fields, two of them nested."""

    guest: str
    room: int
    nights: int
    breakfast: bool
    view: Literal["sea", "garden", "street"]
    address: Address
    price_per_night: float
    currency: Literal["EUR", "USD"]


class Address(BaseModel):
    city: str
    country: str


NOTES = [
    "Ada Lovelace, room 12, three nights with breakfast, sea, 120 EUR a night; London, England.",
    "Two nights in 7 for A. Turing of Manchester (UK), street side, no breakfast, USD 80 each.",
    "Grace Hopper from New York, USA: room 101, one night, garden, breakfast please, 99.50 USD.",
]
COMPACT = '{"guest":"K. Gödel","room":3,"nights":1,"breakfast":false,"view":"sea","address":{"city"'


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def prompt(note: str, example: str) -> list[Message]:
    return [Message("user", f"{note}\nWrite it as JSON, on one line. {example}")]


async def answers(
    grammar: Grammar, *, together: bool = True, **options: Any
) -> list[list[Completion]]:
    """Greedy and seeded, with and without an example of compact JSON."""
    asked = [
        (prompt(note, example), temperature, seed)
        for seed, note in enumerate(NOTES)
        for example in ("", f"It begins like this: {COMPACT}")
        for temperature in (0.0, 0.8)
    ]
    found: list[Completion | None] = [None] * len(asked)
    async with Runtime(**{"kv_tokens": 4096, **options}) as runtime:

        async def ask(i: int) -> None:
            messages, temperature, seed = asked[i]
            found[i] = await runtime.generate(
                messages, constraint=grammar, max_tokens=140, temperature=temperature, seed=seed
            )

        async with anyio.create_task_group() as group:
            for i in range(len(asked)):
                if together:
                    group.start_soon(ask, i)
                else:
                    await ask(i)
        await settled(runtime)
    done = [completion for completion in found if completion is not None]
    assert len(done) == len(asked)
    return [done[0::2], done[1::2]]


async def test_the_answer_is_the_same_with_text_told_ahead_and_without() -> None:
    async with Runtime() as runtime:
        grammar = compile_schema(Stay, runtime.vocabulary)
    off = await answers(grammar.without_jumps())
    plain = [[c.token_ids for c in way] for way in off]
    ways = {
        "together": await answers(grammar),
        "alone": await answers(grammar, together=False),
        "in small steps": await answers(grammar, max_step_tokens=16),
        "retracted": await answers(grammar, kv_tokens=700),
    }
    for name, way in ways.items():
        assert [[c.token_ids for c in done] for done in way] == plain, name
    for completion in (c for way in off for c in way):
        assert Stay.model_validate_json(completion.text)
        assert completion.usage.forced_tokens == 0
    # greedy: what can only be one thing is nearly half of what is written, and was taken as guessed
    greedy = ways["alone"][0]
    forced = sum(c.usage.forced_tokens for c in greedy)
    assert forced >= 0.4 * sum(c.usage.output_tokens for c in greedy)
    # which of it was guessed right depends on the request alone
    assert [c.token_kinds for c in ways["together"][0]] == [c.token_kinds for c in greedy]
