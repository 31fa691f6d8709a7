"""Multi-chain reasoning: several chains of thought are read together, and then answered from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agentrt.programs.answers import check_answer
from agentrt.programs.arguments import check_count
from agentrt.programs.asking import conclusion
from agentrt.programs.consistency import REASON, Chain, chains_of
from agentrt.programs.program import program

if TYPE_CHECKING:
    from agentrt.programs.state import State


@dataclass(frozen=True, slots=True)
class Concluded:
    """The answer, the explanation that led to it, and the chains that were read for it."""

    answer: Any
    explanation: str
    chains: tuple[Chain, ...]


@program(temperature=0.7, max_tokens=256)
async def multi_chain(
    s: State,
    question: str,
    *,
    chains: int = 5,
    kind: Any = str,
    regex: str | None = None,
    instructions: str = REASON,
) -> Concluded:
    """Reasons in `chains` sampled chains and answers from all of them, not only by their answers.

    Yoran et al. 2023, Answering Questions by Meta-Reasoning over Multiple Chains of Thought,
    arXiv:2304.13007, section 3. The chains branch off one prompt; the model that reads them goes
    on from the same prompt. `kind` or `regex` is what the answer must be. Raises what `State.gen`
    raises.
    """
    await check_answer(s, kind, regex)
    check_count("chains", chains, 1)
    s.user(f"{question}\n{instructions}")
    found = await chains_of(s, chains, kind=kind, regex=regex)
    s.assistant(f"{listed('Line of thought', found)}\n\nTaking these together: ")
    explanation = await s.gen(temperature=0.0, stop=["\nAnswer:", "\n\n"])
    s.assistant("\nAnswer: ")
    answer = await conclusion(s, kind=kind, regex=regex)
    return Concluded(answer, explanation.strip(), tuple(found))


def listed(title: str, chains: list[Chain]) -> str:
    """Chains with their answers, numbered from 1."""
    return "\n\n".join(
        f"{title} {number}: {chain.reasoning}\nAnswer: {chain.answer}"
        for number, chain in enumerate(chains, 1)
    )
