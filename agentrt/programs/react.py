"""ReAct: a thought, a tool call, what it gave; again, until there is an answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agentrt.programs.answers import check_answer
from agentrt.programs.arguments import check_count
from agentrt.programs.asking import conclusion
from agentrt.programs.calls import call_tools
from agentrt.programs.others import offers_of
from agentrt.programs.program import program
from agentrt.programs.tools import as_tools, describe_tools

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentrt.messages import ToolCall
    from agentrt.programs.calls import ToolResult
    from agentrt.programs.state import State
    from agentrt.programs.tools import AnyTool


@dataclass(frozen=True, slots=True)
class Turn:
    """What the model thought, the calls it made of that, and what they gave."""

    thought: str
    results: tuple[ToolResult, ...]


@dataclass(frozen=True, slots=True)
class Reacted:
    """The answer and the turns before it.

    `finished` is False where the turns, or the calls that can be made, ran out first.
    """

    answer: Any
    turns: tuple[Turn, ...]
    finished: bool


@program(max_tokens=128)
async def react(
    s: State,
    question: str,
    tools: Sequence[AnyTool],
    *,
    turns: int = 6,
    most: int = 1,
    kind: Any = str,
    regex: str | None = None,
    thoughts: str | None = None,
    again: bool = False,
) -> Reacted:
    """Answers a question by thinking and calling tools in turn.

    Yao et al. 2022, ReAct: Synergizing Reasoning and Acting, arXiv:2210.03629, section 2. After
    each thought the model chooses, by likelihood, to act or to finish; the first time it acts. A
    call is constrained to the tools and their arguments; with `most` above 1 it may be several,
    which run at once. A call that was made is not made again, since the model knows what it gave
    (with `again` it may be, for tools that give something else each time). What a tool raises is
    told to the model, unless the tool passes it up. After `turns` turns, or once every call was
    made, it answers with what it has. `kind` or `regex` is what the answer must be, and the regex
    `thoughts`, if given, what each thought must be (one line): a small model that thinks freely may
    think of anything. Raises InvalidRequest for no tools or turns, ToolFailed, ToolDenied, and what
    `State.gen` raises.
    """
    check_count("turns", turns, 1)
    await check_answer(s, kind, regex)
    known = as_tools(tools)
    s.system(f"You answer questions step by step with the help of tools.\n{describe_tools(known)}")
    s.user(question)
    done: list[Turn] = []
    finished = False
    made: list[ToolCall] = []
    while len(done) < turns and (again or await offers_of(s.runtime, known, made)):
        s.assistant("Thought: ")
        free = s.gen(stop=["\n"]) if thoughts is None else s.gen(regex=thoughts)
        thought = (await free).strip()
        s.assistant("\nNext: ")
        if done and await s.select(["act", "finish"]) == "finish":
            finished = True
            break
        if not done:
            s.assistant("act")
        s.user("Call a tool.")
        results = await call_tools(s, known, most=most, made=None if again else made)
        made += [result.call for result in results]
        done.append(Turn(thought, tuple(results)))
    s.user(f"Now the answer, in a few words, to: {question}")
    return Reacted(await conclusion(s, kind=kind, regex=regex), tuple(done), finished)
