"""Thoughts: what tree searches grow and judge, and the usual ways to do either.

A generator is `(state, count) -> thoughts`: the next steps that may be taken from where a state
stands. An evaluator is `(state, thought) -> score`, of one thought, whose state has all that leads
to it, or a :class:`Ranking` of all of them against each other. Both may be async or not, and yours:
an exact checker beats a model's opinion.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from agentrt.errors import InvalidRequest
from agentrt.programs.arguments import check_count, check_function, check_hook, check_text
from agentrt.programs.asking import awaited, numbered
from agentrt.programs.combine import gather
from agentrt.programs.scoring import chance, chances, check_scale, rate
from agentrt.runtime.checks import make_params

if TYPE_CHECKING:
    from agentrt.programs.state import State

T = TypeVar("T")


@dataclass(eq=False)
class Thought:
    """A step of a solution, and the steps before it; `state` has said them all."""

    text: str
    state: State = field(repr=False)
    parent: Thought | None = field(default=None, repr=False)
    score: float = 0.0
    solved: bool = False
    children: list[Thought] = field(default_factory=lambda: list[Thought](), repr=False)

    @property
    def path(self) -> list[Thought]:
        """The thoughts from the first one to this, without the root, which says nothing."""
        before = self.parent.path if self.parent is not None else []
        return [*before, self] if self.parent is not None else []

    @property
    def steps(self) -> list[str]:
        """The texts of the path."""
        return [thought.text for thought in self.path]

    @property
    def depth(self) -> int:
        """How many steps it took; 0 at the root."""
        return len(self.path)

    def walk(self) -> Iterator[Thought]:
        """This thought and all below it, each before its children."""
        yield self
        for child in self.children:
            yield from child.walk()

    def then(self, text: str) -> Thought:
        """A next step, said in a state of its own. It is not among the children yet."""
        state = self.state.copy()
        state.assistant(f"{text}\n")
        return Thought(text, state, self)


Generator = Callable[["State", int], Sequence[str] | Awaitable[Sequence[str]]]
Evaluator = Callable[["State", Thought], float | Awaitable[float]]
Checker = Callable[[Thought], bool | Awaitable[bool]]


@dataclass(frozen=True)
class Ranking:
    """An evaluator of several thoughts at once: `(state, thoughts) -> scores`, from their root."""

    rank: Callable[[State, Sequence[Thought]], Awaitable[Sequence[float]]]


def sampled(
    instructions: str = "",
    *,
    regex: str = r"[^\n]{1,200}",
    temperature: float = 0.8,
    max_tokens: int = 64,
) -> Generator:
    """Thoughts sampled apart from each other (Yao et al. 2023, section 3, 2a).

    Each matches `regex`: one line unless given. They go on in the assistant's turn, so that a
    thought's tokens are those that were decoded, unless `instructions` ask for them first.
    """

    check_text("regex", regex)
    make_params(temperature=temperature, max_tokens=max_tokens)

    async def one(branch: State, _: int) -> str:
        return await branch.gen(regex=regex, temperature=temperature, max_tokens=max_tokens)

    async def generate(state: State, count: int) -> Sequence[str]:
        if instructions:
            state = state.copy()
            state.user(instructions)
        return await state.each(one, range(count))

    return generate


def proposed(instructions: str, *, max_tokens: int = 64) -> Generator:
    """Thoughts listed in one generation, so that they differ (Yao et al. 2023, section 3, 2b).

    `max_tokens` is for each.
    """
    check_count("max_tokens", max_tokens, 1)

    async def generate(state: State, count: int) -> Sequence[str]:
        state = state.copy()
        state.user(f"{instructions} List {count}, one a line.")
        return await numbered(state, count, max_tokens=max_tokens * count)

    return generate


def valued(question: str = "How promising is this so far?", *, high: int = 9) -> Evaluator:
    """A thought's worth by itself, from 0 to 1: the model's expected mark (section 3, 3a).

    Marks up to 9 are one token each, which is the least to score.
    """
    check_scale(1, high)

    async def evaluate(state: State, _: Thought) -> float:
        found = await rate(state.copy(), question, low=1, high=high)
        return (found.score - 1) / (high - 1)

    return evaluate


def likely(question: str) -> Evaluator:
    """A thought's worth by itself: the probability that the model answers the question with Yes."""

    async def evaluate(state: State, _: Thought) -> float:
        return await chance(state.copy(), question)

    return evaluate


def voted(question: str = "Which of these is the most promising?") -> Ranking:
    """Thoughts against each other: the share of votes that each would get (section 3, 3b).

    The shares are the probabilities of one choice, in place of votes sampled from them.
    """

    async def rank(state: State, thoughts: Sequence[Thought]) -> Sequence[float]:
        letters = [_letter(index) for index in range(len(thoughts))]
        listing = "\n".join(
            f"{letter}: {' / '.join(thought.steps)}"
            for letter, thought in zip(letters, thoughts, strict=True)
        )
        ballot = state.copy()
        ballot.user(f"{listing}\n{question} Answer with its letter.")
        shares = await chances(ballot, letters)
        return [shares[letter] for letter in letters]

    return Ranking(rank)


@dataclass(frozen=True, slots=True)
class Expander:
    """How thoughts are grown and judged in one search."""

    root: Thought
    generate: Generator
    evaluate: Evaluator | Ranking
    solved: Checker | None

    def __post_init__(self) -> None:
        check_function("generate", self.generate, "a function of the state and how many, or None")
        if not isinstance(self.evaluate, Ranking):
            check_function("evaluate", self.evaluate, "a function of state and thought, or None")
        check_hook("solved", self.solved, "a thought")

    async def expand(self, parents: Sequence[Thought], count: int) -> list[Thought]:
        """Up to `count` next thoughts of each parent, all at once; in order, equal texts once.

        They are told whether they solve the problem, and not scored.
        """

        async def of(parent: Thought) -> list[Thought]:
            texts = await awaited(self.generate(parent.state, count))
            return [parent.then(text) for text in dict.fromkeys(texts) if text.strip()]

        grown = await gather(*(of(parent) for parent in parents))
        for parent, children in zip(parents, grown, strict=True):
            parent.children.extend(children)
        thoughts = [thought for children in grown for thought in children]
        await gather(*(self.check(thought) for thought in thoughts))
        return thoughts

    async def step(self, thought: Thought) -> Thought | None:
        """One next thought that stays outside the tree; None where there is none."""
        for text in await awaited(self.generate(thought.state, 1)):
            if text.strip():
                found = thought.then(text)
                await self.check(found)
                return found
        return None

    async def check(self, thought: Thought) -> None:
        """Sets whether a thought solves the problem."""
        if self.solved is not None:
            thought.solved = await awaited(self.solved(thought))

    async def score(self, thoughts: Sequence[Thought]) -> None:
        """Sets the scores; one that solves the problem has the highest, 1, without being asked."""
        open_ones = [thought for thought in thoughts if not thought.solved]
        if not open_ones:
            scores: Sequence[float] = []
        elif isinstance(self.evaluate, Ranking):
            scores = await self.evaluate.rank(self.root.state, open_ones)
        else:
            values = [self.evaluate(thought.state, thought) for thought in open_ones]
            scores = await gather(*(awaited(value) for value in values))
        for thought in thoughts:
            thought.score = 1.0
        for thought, score in zip(open_ones, scores, strict=True):
            thought.score = float(score)


def _letter(index: int) -> str:
    if index >= 26:
        raise InvalidRequest("a vote is among at most 26 thoughts; lower the beam or the branching")
    return chr(ord("A") + index)
