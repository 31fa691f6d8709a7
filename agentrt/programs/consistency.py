"""Self-consistency: several ways of reasoning, and the answer that most of them come to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agentrt.programs.answers import check_answer
from agentrt.programs.arguments import check_count, check_hook
from agentrt.programs.asking import conclusion, same_text
from agentrt.programs.combine import vote
from agentrt.programs.program import program

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from agentrt.programs.state import State

REASON = "Think step by step in a few short sentences."


@dataclass(frozen=True, slots=True)
class Chain:
    """One way of reasoning, and the answer it came to."""

    reasoning: str
    answer: Any


@dataclass(frozen=True, slots=True)
class Consensus:
    """The answer that most chains came to, its share of the votes, and all chains, in order."""

    answer: Any
    agreement: float
    votes: dict[Any, int]
    chains: tuple[Chain, ...]


@program(temperature=0.7, max_tokens=256)
async def self_consistency(
    s: State,
    question: str,
    *,
    samples: int = 8,
    kind: Any = str,
    regex: str | None = None,
    key: Callable[[Any], Hashable] | None = None,
    instructions: str = REASON,
) -> Consensus:
    """Answers by a majority of `samples` independently sampled chains of thought.

    Wang et al. 2022, Self-Consistency Improves Chain of Thought Reasoning, arXiv:2203.11171,
    section 2. The chains branch off one prompt; each then ends in an answer of type `kind`, or one
    that matches `regex`. `key` says which answers are the same (by default their text without case
    and outer space); where it is None the chain abstains. Raises InvalidRequest where all abstain,
    and what `State.gen` raises.
    """
    check_hook("key", key, "an answer")
    await check_answer(s, kind, regex)
    check_count("samples", samples, 1)
    s.user(f"{question}\n{instructions}")
    chains = await chains_of(s, samples, kind=kind, regex=regex)
    found = vote(list(chains), lambda chain: (key or same_text)(chain.answer))
    return Consensus(found.winner.answer, found.agreement, found.counts, tuple(chains))


async def chains_of(
    s: State, count: int, *, kind: Any = str, regex: str | None = None
) -> list[Chain]:
    """`count` chains of thought sampled at once from where the state stands, each with its answer.

    The state stays as it was.
    """

    async def reason(branch: State, _: int) -> Chain:
        reasoning = await branch.gen(stop=["\nAnswer:", "\n\n"])
        branch.assistant("\nAnswer: ")
        return Chain(reasoning.strip(), await conclusion(branch, kind=kind, regex=regex))

    return await s.each(reason, range(count))
