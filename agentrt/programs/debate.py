"""Debate: several agents answer, read each other, and answer again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agentrt.programs.answers import check_answer, texts_of
from agentrt.programs.arguments import check_count, wrong
from agentrt.programs.asking import conclusion, same_text
from agentrt.programs.combine import Vote, vote
from agentrt.programs.program import program

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentrt.programs.state import State


@dataclass(frozen=True, slots=True)
class Speech:
    """What an agent said in a round, and the answer it stood by."""

    agent: str
    text: str
    answer: Any


@dataclass(frozen=True, slots=True)
class Debate:
    """The answer that most stood by in the end, the votes, and what was said, round by round."""

    answer: Any
    votes: Vote[Speech]
    rounds: tuple[tuple[Speech, ...], ...]


@program(temperature=0.7, max_tokens=128)
async def debate(
    s: State,
    question: str,
    agents: Sequence[str] = ("a careful thinker", "a sceptic", "an expert"),
    *,
    rounds: int = 2,
    kind: Any = str,
    regex: str | None = None,
) -> Debate:
    """Has agents answer a question over several rounds, each reading what all said before.

    Du et al. 2023, Improving Factuality and Reasoning through Multiagent Debate, arXiv:2305.14325,
    section 2. `agents` say who speaks. All speeches of the rounds before stand in the prompt that
    the agents share, and who speaks comes last, so that a round computes it once. The answer
    (`kind` or `regex`) is what most stand by after the last round. Raises InvalidRequest for no
    agents, equal ones or no rounds, and what `State.gen` raises.
    """
    check_count("rounds", rounds, 1)
    if len(set(texts_of(agents, "agents"))) < len(agents):
        raise wrong("agents", agents, "agents that all differ")
    await check_answer(s, kind, regex)
    s.user(f"The question under debate: {question}")

    async def speak(branch: State, agent: str) -> Speech:
        branch.user(f"You are {agent}. Say what you think, in two or three sentences.")
        text = (await branch.gen(stop=["\nAnswer:", "\n\n"])).strip()
        branch.assistant("\nAnswer: ")
        return Speech(agent, text, await conclusion(branch, kind=kind, regex=regex))

    said: list[tuple[Speech, ...]] = []
    for _ in range(rounds):
        if said:
            s.user("\n".join(f"{x.agent}: {x.text} Answer: {x.answer}" for x in said[-1]))
        said.append(tuple(await s.each(speak, agents)))
    votes = vote(list(said[-1]), lambda speech: same_text(speech.answer))
    return Debate(votes.winner.answer, votes, tuple(said))
