"""Choosing among given texts by likelihood: what to score, and how scores become a ranking."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, cast, get_args

from agentrt.errors import InvalidRequest
from agentrt.generation import Choice, Selection, Timings, Usage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentrt.generation import Completion, TokenLogprob
    from agentrt.runtime.source import TextCodec

Normalisation = Literal["token_length", "probability", "greedy_token", "unconditional"]
Logprobs = tuple["TokenLogprob", ...]

# Tokens at the end of a prompt that a choice may retokenise. Longer than any one word piece needs;
# short enough that healing costs nothing.
_TAIL = 16


@dataclass(frozen=True, slots=True)
class Scoring:
    """One request: the tokens to read, and which to score after each from a place on.

    `targets[i]` are scored by the row of token `first` - 1 + i; the last ones by the last row.
    """

    token_ids: list[int]
    first: int
    targets: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class TokenTrie:
    """Token paths to be scored from one index on: their tokens from there are a trie's nodes.

    What may follow a node is scored by the row of that node, so every inner node is read once, and
    a leaf never is. `requests` are chains of inner nodes, each scored by one request; `scored[i]`
    are the nodes that the answers to the i-th come to, in order; `paths` the nodes of every path.
    """

    requests: tuple[Scoring, ...]
    scored: tuple[tuple[int, ...], ...]
    paths: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, paths: Sequence[list[int]], start: int) -> TokenTrie:
        """For paths that are one up to `start`, except perhaps for the very first token."""
        below: list[dict[int, int]] = []  # of every node, the next ones by their token

        def node(siblings: dict[int, int], token: int) -> int:
            if token not in siblings:
                siblings[token] = len(below)
                below.append({})
            return siblings[token]

        stems: dict[int, int] = {}
        entered: list[tuple[int, ...]] = []
        for path in paths:
            at = node(stems, path[start - 1])
            entered.append(tuple((at := node(below[at], token)) for token in path[start:]))
        common = paths[0][: start - 1]
        requests, scored = _chains([([*common, token], at) for token, at in stems.items()], below)
        return cls(requests, scored, tuple(entered))

    def whole(self, answers: Sequence[Logprobs]) -> list[Logprobs]:
        """What each path's tokens from the start on were found to be, given every request's."""
        found: dict[int, TokenLogprob] = {}
        for nodes, own in zip(self.scored, answers, strict=True):
            found.update(zip(nodes, own, strict=True))
        return [tuple(found[node] for node in path) for path in self.paths]


def _chains(
    begun: list[tuple[list[int], int]], below: Sequence[Mapping[int, int]]
) -> tuple[tuple[Scoring, ...], tuple[tuple[int, ...], ...]]:
    """Requests that read every inner node once, and the nodes that each of them scores.

    `begun` are the tokens up to a node, and that node. A request goes down from there by the first
    inner node each time; the others begin requests of their own.
    """
    requests: list[Scoring] = []
    scored: list[tuple[int, ...]] = []
    for tokens, at in begun:  # which grows
        first, targets, nodes = len(tokens), list[tuple[int, ...]](), list[int]()
        while below[at]:
            targets.append(tuple(below[at]))
            nodes += below[at].values()
            inner = [(token, child) for token, child in below[at].items() if below[child]]
            if not inner:
                break
            begun += [([*tokens, token], child) for token, child in inner[1:]]
            tokens.append(inner[0][0])
            at = inner[0][1]
        if targets:
            requests.append(Scoring(tokens, first, tuple(targets)))
            scored.append(tuple(nodes))
    return tuple(requests), tuple(scored)


@dataclass(frozen=True, slots=True)
class SelectionPlan:
    """What scores a selection: the choices after the prompt and, if that is wanted, without it."""

    choices: tuple[str, ...]
    by: Normalisation
    after_prompt: TokenTrie
    spelled: tuple[tuple[int, ...], ...]
    """The token ids of every choice that are scored."""
    alone: TokenTrie | None = None

    @property
    def requests(self) -> tuple[Scoring, ...]:
        """Everything to be computed."""
        return self.after_prompt.requests + (self.alone.requests if self.alone else ())

    def judge(self, done: Sequence[Completion]) -> Selection:
        """Turns the log-probabilities of every request, in order, into a selection."""
        scored = [completion.prompt_logprobs or () for completion in done]
        own = len(self.after_prompt.requests)
        given = self.after_prompt.whole(scored[:own])
        if self.by == "token_length":
            scores = [_mean(logprobs) for logprobs in given]
        elif self.by == "probability":
            scores = [_total(logprobs) for logprobs in given]
        elif self.by == "greedy_token":
            scores = _greedy(given)
        else:
            assert self.alone is not None
            alone = self.alone.whole(scored[own:])
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
    start = max(start, 1)
    after_prompt = TokenTrie.of(whole, start)
    spelled = tuple(tuple(tokens[start:]) for tokens in whole)
    if by != "unconditional":
        return SelectionPlan(choices, by, after_prompt, spelled)
    bare = list(codec.document_start)
    alone = [bare + codec.encode_inside(choice) for choice in choices]
    return SelectionPlan(choices, by, after_prompt, spelled, TokenTrie.of(alone, len(bare)))


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
    if by not in get_args(Normalisation):
        raise InvalidRequest(f"by={by!r}; it is one of {', '.join(get_args(Normalisation))}")
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
