"""Choosing among given texts by likelihood: what to score, and how scores become a ranking."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, cast

from agentrt.errors import InvalidRequest
from agentrt.generation import Choice, Selection, Timings, Usage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentrt.generation import Completion, TokenLogprob
    from agentrt.runtime.source import TextCodec

Normalisation = Literal["token_length", "greedy_token", "unconditional"]
Logprobs = tuple["TokenLogprob", ...]

# Tokens at the end of a prompt that a choice may retokenise. Longer than any one word piece needs;
# short enough that healing costs nothing.
_TAIL = 16


@dataclass(frozen=True, slots=True)
class Branches:
    """Token paths to be scored from one index on, each token that several begin with only once.

    `requests` are (token ids, index of the first scored token), one for each path, in the order of
    their tokens: a request leaves out what it has in common with the one before. `places[i]` is
    whose request the i-th is.
    """

    requests: tuple[tuple[list[int], int], ...]
    places: tuple[int, ...]
    start: int

    @classmethod
    def of(cls, paths: Sequence[list[int]], start: int) -> Branches:
        """For paths that are one up to `start`, except perhaps for the very first token."""
        tails = [path[start - 1 :] for path in paths]
        places = sorted(range(len(paths)), key=tails.__getitem__)
        requests: list[tuple[list[int], int]] = []
        before: list[int] = []
        for i in places:
            # At least one token is asked for: two texts may have the same tokens.
            common = min(_common(tails[i], before), len(tails[i]) - 1)
            requests.append((paths[i], max(start - 1 + common, start)))
            before = tails[i]
        return cls(tuple(requests), tuple(places), start)

    def whole(self, scored: Sequence[Logprobs]) -> list[Logprobs]:
        """What each path's tokens from `start` on were found to be, given each request's."""
        found: list[Logprobs] = [()] * len(self.places)
        before: Logprobs = ()
        for place, (_, first), own in zip(self.places, self.requests, scored, strict=True):
            before = found[place] = before[: first - self.start] + own
        return found


@dataclass(frozen=True, slots=True)
class SelectionPlan:
    """What scores a selection: the choices after the prompt and, if that is wanted, without it."""

    choices: tuple[str, ...]
    by: Normalisation
    after_prompt: Branches
    alone: Branches | None = None

    @property
    def requests(self) -> tuple[tuple[list[int], int], ...]:
        """Token ids and the index of the first scored token of everything to be computed."""
        return self.after_prompt.requests + (self.alone.requests if self.alone else ())

    def judge(self, done: Sequence[Completion]) -> Selection:
        """Turns the log-probabilities of every request, in order, into a selection."""
        scored = [completion.prompt_logprobs or () for completion in done]
        given = self.after_prompt.whole(scored[: len(self.choices)])
        if self.by == "token_length":
            scores = [_mean(logprobs) for logprobs in given]
        elif self.by == "greedy_token":
            scores = _greedy(given)
        else:
            assert self.alone is not None
            alone = self.alone.whole(scored[len(self.choices) :])
            scores = [_total(g) - _total(a) for g, a in zip(given, alone, strict=True)]
        return Selection(
            tuple(
                Choice(text, score, logprobs)
                for text, score, logprobs in zip(self.choices, scores, given, strict=True)
            ),
            usage=sum((completion.usage for completion in done), Usage()),
            timings=sum((completion.timings for completion in done), Timings()),
        )


def plan_selection(
    codec: TextCodec, prompt: Sequence[int], choices: Sequence[str], by: Normalisation
) -> SelectionPlan:
    """What to score to choose among `choices` after `prompt` (token ids). Raises InvalidRequest."""
    choices = _checked_choices(choices, by)
    if not prompt:
        prompt = codec.document_start
    whole = [heal(codec, prompt, choice) for choice in choices]
    # Every choice is scored from the first token in which any of them leaves the prompt's own
    # tokens, so that a choice which retokenises the prompt's end is compared on equal terms.
    same = max(0, len(prompt) - _TAIL)  # healing leaves these alone
    start = same + min(_common(tokens[same:], prompt[same:]) for tokens in whole)
    after_prompt = Branches.of(whole, max(start, 1))
    if by != "unconditional":
        return SelectionPlan(choices, by, after_prompt)
    bare = list(codec.document_start)
    alone = [bare + codec.encode_inside(choice) for choice in choices]
    return SelectionPlan(choices, by, after_prompt, Branches.of(alone, len(bare)))


def heal(codec: TextCodec, prompt: Sequence[int], text: str) -> list[int]:
    """The tokens of prompt + text, as tokenising the two together gives them.

    Only the prompt's last tokens can change; where they are not what the tokenizer would make of
    their own text (a prompt of hand-picked ids), they are left alone.
    """
    cut = max(0, len(prompt) - _TAIL)
    for i in range(len(prompt) - 1, cut - 1, -1):
        if codec.is_control(prompt[i]):
            cut = i + 1
            break
    tail = list(prompt[cut:])
    tail_text = codec.decode(tail)
    if codec.encode_inside(tail_text) != tail:
        return [*prompt, *codec.encode_inside(text)]
    return [*prompt[:cut], *codec.encode_inside(tail_text + text)]


def _checked_choices(given: object, by: str) -> tuple[str, ...]:
    if isinstance(given, str | bytes | Set | Mapping) or not isinstance(given, Iterable):
        raise InvalidRequest(f"choices={reprlib.repr(given)}; give a list of at least one text")
    choices = tuple(cast("Iterable[str]", given))
    if not choices:
        raise InvalidRequest("no choices were given; give a list of at least one text")
    seen: set[str] = set()
    for i, choice in enumerate(choices):
        if not isinstance(choice, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidRequest(f"choice {i} is {choice!r}; choices are texts")
        if not choice:
            raise InvalidRequest(f"choice {i} is empty; an empty text has no likelihood to compare")
        if choice in seen:
            raise InvalidRequest(f"choice {i} repeats {choice!r}; every choice is given once")
        seen.add(choice)
    if by not in ("token_length", "greedy_token", "unconditional"):
        raise InvalidRequest(f"by={by!r}; it is 'token_length', 'greedy_token' or 'unconditional'")
    return choices


def _common(a: Sequence[int], b: Sequence[int]) -> int:
    n = 0
    for x, y in zip(a, b, strict=False):
        if x != y:
            break
        n += 1
    return n


def _values(logprobs: Logprobs) -> list[float]:
    return [entry.logprob for entry in logprobs if entry.logprob is not None]


def _total(logprobs: Logprobs) -> float:
    return math.fsum(_values(logprobs))


def _mean(logprobs: Logprobs) -> float:
    values = _values(logprobs)
    return math.fsum(values) / len(values) if values else -math.inf


def _greedy(given: Sequence[Logprobs]) -> list[float]:
    """How many tokens each choice survives when the likeliest next token is followed.

    At every position the choices whose token there is the likeliest stay; one that has ended
    competes with its mean, as if it went on that way. The mean probability of a token, below one,
    breaks ties.
    """
    alive = list(range(len(given)))
    scores = [min(math.exp(_mean(logprobs)), 1.0) / 2 for logprobs in given]
    for position in range(max(len(logprobs) for logprobs in given)):
        if len(alive) == 1:
            break
        at = {i: _at(given[i], position) for i in alive}
        best = max(at.values())
        alive = [i for i in alive if at[i] == best]
        for i in alive:
            scores[i] += 1.0
    return scores


def _at(logprobs: Logprobs, position: int) -> float:
    if position < len(logprobs):
        value = logprobs[position].logprob
        return value if value is not None else -math.inf
    return _mean(logprobs)
