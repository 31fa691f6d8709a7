"""Text guessed from what was written before: what is guessed, and that the answer stays the same.

Drafts are checked against a search that compares every place; answers against the same runtime
with nothing looked up.
"""

from __future__ import annotations

import hashlib
import random
from array import array
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import anyio
import numpy as np
import pytest
from pydantic import BaseModel

from agentrt import Message
from agentrt.generation import Completion, TokenKind
from agentrt.matching import Allowed
from agentrt.runtime.lookup import RATES, Lookup, _earlier_places, price_of_a_row
from agentrt.runtime.runtime import Runtime
from agentrt.runtime.submission import Submission
from agentrt.schema import compile_schema
from agentrt.testing import VOCAB_SIZE, ByteCodec, ScriptedModel
from tests.runtime.serving import LONG, settled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentrt.runtime.batch import Batch

FREE = 0.0  # a row that costs nothing
LONGEST = len(RATES) - 1


def ids(text: str) -> array[int]:
    return array("i", list(text.encode()))


def draft(text: str, price: float = FREE, most: int = 32) -> str:
    return bytes(Lookup().draft(lambda: ids(text), price, most)).decode()


def test_what_followed_the_last_tokens_before() -> None:
    assert draft("red fox, red") == " fox"
    assert draft("abcdefgh ab") == "cdef"


def test_the_longest_agreement_wins_then_the_latest() -> None:
    assert draft("xabc1 yabc2 yab_ xabc", most=1) == "1"
    assert draft("abc1 abc2 zabc", most=1) == "2"


@pytest.mark.parametrize("text", ["", "a", "ab", "abc", "ab b", "xyz"])
def test_nothing_where_nothing_repeats(text: str) -> None:
    assert draft(text) == ""


def test_a_loop_goes_round_again() -> None:
    assert draft("-ababab") == "abab"
    assert draft("zaaa") == "aaaa"


def test_no_more_than_may_come() -> None:
    assert [len(draft("abcdefgh ab", most=most)) for most in (-1, 0, 1, 3, 9)] == [0, 0, 1, 3, 4]


class Counted(bytes):
    looks = 0

    def rfind(self, *where: Any) -> int:
        self.looks += 1
        return super().rfind(*where)


def test_tokens_whose_bytes_are_alike_are_given_up_soon() -> None:
    text = Counted(array("i", [1] * 8000 + [256, 256]))
    assert list(_earlier_places(text)) == []
    assert 1 < text.looks < 1000


@pytest.mark.parametrize("seed", range(200))
def test_drafts_are_what_a_plain_search_finds(seed: int) -> None:
    rng = random.Random(seed)
    tokens = [rng.randrange(1, 4) for _ in range(rng.randrange(14))]
    most, price = rng.randrange(6), rng.choice([0.0, 0.2, 0.35, 0.5])
    found = Lookup().draft(lambda: array("i", tokens), price, most)
    assert found == searched(tokens, price, min(most, 4))


def searched(tokens: list[int], price: float, most: int) -> list[int]:
    """Token by token: of every earlier place the one that agrees for longest, while worth it."""
    said, worth = list(tokens), 1.0
    place, length = 0, 0
    for end in range(2, len(tokens)):
        agree = 0
        while agree < min(end, LONGEST) and tokens[end - 1 - agree] == tokens[-1 - agree]:
            agree += 1
        if agree >= max(2, length):
            place, length = end, agree
    for _ in range(most if length else 0):
        worth *= RATES[min(length, LONGEST)]
        if worth < price:
            break
        said.append(said[place])
        place, length = place + 1, length + 1
    return said[len(tokens) :]


def test_a_draft_reaches_as_far_as_the_last_ones_came_true() -> None:
    lookup, text = Lookup(), ids("0123456789" * 8)
    reach = [len(lookup.draft(lambda: text, FREE, 100))]
    for _ in range(4):
        lookup.came_true()
        reach.append(len(lookup.draft(lambda: text, FREE, 100)))
    for _ in range(6):
        lookup.went_wrong()
        reach.append(len(lookup.draft(lambda: text, FREE, 100)))
    assert reach == [4, 8, 16, 32, 32, 16, 8, 4, 2, 1, 1]


def test_the_more_run_the_surer_a_guess_must_be() -> None:
    prices = [price_of_a_row(sequences, 4) for sequences in (1, 4, 16, 200)]
    assert prices == [0.2, 0.5, 0.8, 200 / 204]
    assert [len(draft("abcdefgh ab", price)) for price in prices] == [2, 0, 0, 0]
    sure = [len(draft("01234567899876 0123456789", price)) for price in prices]
    assert sure == [4, 4, 0, 0]


def test_without_room_in_a_step_every_row_costs_a_token() -> None:
    assert price_of_a_row(1, 0) == price_of_a_row(300, 0) == 1.0


# What comes of it, on a model that repeats itself and changes its mind


def repeating(seed: int, **options: Any) -> ScriptedModel:
    """Goes on as the same two tokens went on before, but in one place of six."""

    def choose(prefix: Sequence[int], _: int) -> int:
        digest = hashlib.blake2b(np.asarray(prefix, np.int32).tobytes(), digest_size=8)
        draw = int.from_bytes(digest.digest(), "little") ^ seed
        earlier = [i for i in range(2, len(prefix)) if prefix[i - 2 : i] == prefix[-2:]]
        if earlier and draw % 6:
            return prefix[earlier[-1]]
        return ord("a") + draw // 6 % 5

    model = ScriptedModel(choose, **options)
    model.spec = replace(model.spec, spare_rows=1_000)
    return model


async def answers(
    model: ScriptedModel, prompts: Sequence[str], sampling: dict[str, Any], **options: Any
) -> list[Completion]:
    """What comes when all are asked in one moment, so that the steps are the same every time."""
    how = dict(sampling)
    constraint = how.pop("constraint", None)
    submission = Submission.make(None, how, constraint=constraint)
    async with Runtime(model, **options) as runtime:
        front = runtime._served
        with anyio.fail_after(LONG):
            done = await front.complete_all([(front.tokens(each), submission) for each in prompts])
        await settled(runtime)
    return done


def told(done: Sequence[Completion]) -> list[Any]:
    """All that a caller may see of an answer but how long it took."""
    return [
        (one.token_ids, one.text, one.token_kinds, one.finish_reason, one.stopped_by, one.logprobs)
        for one in done
    ]


@pytest.mark.anyio
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("max_step_tokens", [1, 3, 512])
@pytest.mark.parametrize(
    "sampling",
    [
        {"max_tokens": 40},
        {"max_tokens": 40, "stop": ("ab", "ce")},
        {"max_tokens": 40, "min_tokens": 30, "stop_token_ids": (ord("a"),)},
        {"max_tokens": 40, "frequency_penalty": 0.5},
    ],
    ids=["plain", "stop", "stop token", "penalty"],
)
async def test_the_answer_is_the_same(
    seed: int, max_step_tokens: int, sampling: dict[str, Any]
) -> None:
    prompts = [f"{i} abc abd" for i in range(4)]
    plain, looked_up = repeating(seed), repeating(seed)
    options = {"kv_tokens": 90, "max_step_tokens": max_step_tokens}  # too few for all
    without = await answers(plain, prompts, sampling, lookup=False, **options)
    with_it = await answers(looked_up, prompts, sampling, **options)
    assert told(with_it) == told(without)
    assert all(one.usage.forced_tokens == 0 for one in with_it)
    if max_step_tokens > 1 and sampling == {"max_tokens": 40}:
        assert len(looked_up.steps) < len(plain.steps)


class Letters:
    """A constraint of letters, of which "b" never follows "a"; after "d" there is always "ec"."""

    min_tokens = 0

    def __init__(self) -> None:
        self._accepted: list[int] = []

    def matcher(self) -> Letters:
        return Letters()

    def next(self, tokens_left: int | None = None) -> Allowed:
        text = bytes(self._accepted)
        may = set(b"abcdefghij") - (set(b"b") if text.endswith(b"a") else set())
        certain = b"ec" if text.endswith(b"d") else b"c" if text.endswith(b"de") else b""
        mask = np.zeros(-(-VOCAB_SIZE // 32), np.uint32)
        for letter in {certain[0]} if certain else may:
            mask[letter // 32] |= np.uint32(1 << letter % 32)
        return Allowed(mask, tuple(certain))

    def accept(self, token_id: int) -> None:
        assert self._accepted[-1:] != [ord("a")] or token_id != ord("b")
        self._accepted.append(token_id)

    def rollback(self, tokens: int) -> None:
        assert 0 < tokens <= len(self._accepted)
        del self._accepted[len(self._accepted) - tokens :]

    is_complete = True
    is_finished = False


@pytest.mark.anyio
@pytest.mark.parametrize("seed", range(4))
async def test_typed_text_is_looked_up_under_its_masks(seed: int) -> None:
    prompts = [f"{i} abcab" for i in range(4)]
    sampling = {"max_tokens": 50, "constraint": Letters()}
    plain, looked_up = repeating(seed), repeating(seed)
    without = await answers(plain, prompts, sampling, lookup=False)
    with_it = await answers(looked_up, prompts, sampling)
    assert told(with_it) == told(without)
    assert all("ab" not in one.text for one in with_it)
    for one in with_it:
        certain = {at + n for at in range(50) if one.text[at : at + 1] == "d" for n in (1, 2)}
        kinds = [TokenKind.FORCED if at in certain else TokenKind.SAMPLED for at in range(50)]
        assert list(one.token_kinds)[:-1] == kinds[:-1]  # nothing is guessed for the last
    assert len(looked_up.steps) < len(plain.steps)


class Pair(BaseModel):
    ab: str
    ae: list[str]


@pytest.mark.anyio
@pytest.mark.parametrize("seed", range(4))
async def test_what_json_can_only_be_is_forced_within_a_draft_too(seed: int) -> None:
    prompts = [f'{i} {{"ab":"ab","ae":["ab","ae":["' for i in range(4)]
    constraint = compile_schema(Pair, ByteCodec().vocabulary)
    sampling = {"constraint": constraint, "max_tokens": 60, "logprobs": True}
    plain, looked_up = repeating(seed), repeating(seed)
    without = await answers(plain, prompts, sampling, lookup=False)
    assert told(await answers(looked_up, prompts, sampling)) == told(without)
    assert any(TokenKind.FORCED in one.token_kinds for one in without)
    assert len(looked_up.steps) < len(plain.steps)


@pytest.mark.anyio
async def test_the_pieces_of_a_stream_add_up() -> None:
    async with Runtime(repeating(1)) as runtime:
        async with runtime.stream("abc abd", max_tokens=80) as stream:
            chunks = [chunk async for chunk in stream]
        done = stream.completion
        assert sum((chunk.token_ids for chunk in chunks), ()) == done.token_ids
        assert "".join(chunk.text for chunk in chunks) == done.text
        assert max(len(chunk.token_ids) for chunk in chunks) > 1
        assert not any(chunk.rollback for chunk in chunks)
        await settled(runtime)


@pytest.mark.anyio
async def test_a_request_given_up_with_guesses_behind_it_leaves_the_pool_whole() -> None:
    model = repeating(2)
    async with Runtime(model, kv_tokens=200) as runtime:

        async def give_up(at_step: int) -> None:
            with anyio.CancelScope() as scope:

                def cancel(batch: Batch) -> None:
                    if len(model.steps) >= at_step:
                        anyio.from_thread.run_sync(scope.cancel, token=token)

                token = anyio.lowlevel.current_token()
                model.on_step = cancel
                await runtime.generate("abc abd", max_tokens=150)

        for more in range(1, 6):
            await give_up(len(model.steps) + more)
            model.on_step = None
            await settled(runtime)  # every slot free or cached
        assert (await runtime.generate("abc abd", max_tokens=50)).usage.output_tokens == 50


@pytest.mark.anyio
@pytest.mark.model
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_the_provided_model_gives_the_same_answers(anyio_backend: str) -> None:
    text = "The lighthouse keeper counted the ships: one from the north, two from the south."
    asked = [
        (f"Copy this text three times, word for word.\n\n{text}", 0.0),
        (f"Copy this text three times, word for word.\n\n{text}", 0.7),
        ("List the numbers from one to twenty, then list them again.", 0.0),
        ("Write a short poem about rain, then repeat it.", 0.9),
    ]
    found: list[list[Any]] = []
    steps: list[int] = []
    for lookup in (True, False):
        async with Runtime(kv_tokens=2048, lookup=lookup) as runtime:
            done = [
                await runtime.generate(
                    [Message("user", question)],
                    max_tokens=64,
                    temperature=temperature,
                    seed=3,
                    logprobs=True,
                )
                for question, temperature in asked
            ]
            steps.append(runtime.stats().steps)
            await settled(runtime)
        found.append(told(done))
    assert found[0] == found[1]
    assert steps[0] < 0.9 * steps[1]
