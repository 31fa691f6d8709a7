"""The language: programs over states, and the programs that are built of it.

Reasoning and acting: `react`, `plan_and_execute`, `reflexion`. Reasoning several times:
`self_consistency`, `multi_chain`, `debate`, `best_of`. Search: `tree_of_thoughts`,
`monte_carlo_search`. In parts: `branch_solve_merge`, `skeleton_of_thought`, `extract_long`,
`extract_rows`. Over given text: `answer_from`, `classify`, `route`, `judge_text`. `Chat` remembers
its turns.
"""

from agentrt.programs.branch_solve_merge import Merged, branch_solve_merge
from agentrt.programs.budget import Budget, current_budget
from agentrt.programs.calls import ToolResult, call_tools
from agentrt.programs.chains import Concluded, multi_chain
from agentrt.programs.chat import Chat
from agentrt.programs.combine import Vote, gather, race, vote
from agentrt.programs.consistency import Chain, Consensus, self_consistency
from agentrt.programs.debate import Debate, Speech, debate
from agentrt.programs.describe import describe
from agentrt.programs.extract import extract, extract_sync
from agentrt.programs.generating import Result
from agentrt.programs.judge import (
    Best,
    Candidate,
    Critique,
    Judgement,
    best_of,
    judge_text,
)
from agentrt.programs.long import extract_long
from agentrt.programs.mapping import Failed, Mapped, map, map_as_completed
from agentrt.programs.mcts import Searched, Visits, monte_carlo_search
from agentrt.programs.options import GenOptions
from agentrt.programs.passages import Citation, Grounded, answer_from
from agentrt.programs.plan import Executed, Step, plan_and_execute
from agentrt.programs.program import Program, program
from agentrt.programs.react import Reacted, Turn, react
from agentrt.programs.reflexion import Reflected, Trial, reflexion
from agentrt.programs.route import Classified, Route, classify, route
from agentrt.programs.rows import extract_rows
from agentrt.programs.scoring import Rating, chance, probabilities, rate
from agentrt.programs.skeleton import Written, skeleton_of_thought
from agentrt.programs.state import State
from agentrt.programs.streams import StateStream
from agentrt.programs.thoughts import Ranking, Thought, likely, proposed, sampled, valued, voted
from agentrt.programs.tools import Tool, describe_tools, tool
from agentrt.programs.tree import Tree, tree_of_thoughts

__all__ = [
    "Best",
    "Budget",
    "Candidate",
    "Chain",
    "Chat",
    "Citation",
    "Classified",
    "Concluded",
    "Consensus",
    "Critique",
    "Debate",
    "Executed",
    "Failed",
    "GenOptions",
    "Grounded",
    "Judgement",
    "Mapped",
    "Merged",
    "Program",
    "Ranking",
    "Rating",
    "Reacted",
    "Reflected",
    "Result",
    "Route",
    "Searched",
    "Speech",
    "State",
    "StateStream",
    "Step",
    "Thought",
    "Tool",
    "ToolResult",
    "Tree",
    "Trial",
    "Turn",
    "Visits",
    "Vote",
    "Written",
    "answer_from",
    "best_of",
    "branch_solve_merge",
    "call_tools",
    "chance",
    "classify",
    "current_budget",
    "debate",
    "describe",
    "describe_tools",
    "extract",
    "extract_long",
    "extract_rows",
    "extract_sync",
    "gather",
    "judge_text",
    "likely",
    "map",
    "map_as_completed",
    "monte_carlo_search",
    "multi_chain",
    "plan_and_execute",
    "probabilities",
    "program",
    "proposed",
    "race",
    "rate",
    "react",
    "reflexion",
    "route",
    "sampled",
    "self_consistency",
    "skeleton_of_thought",
    "tool",
    "tree_of_thoughts",
    "valued",
    "vote",
    "voted",
]
