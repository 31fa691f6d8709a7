"""The language: programs over states, and what is built of them."""

from agentrt.programs.budget import Budget, current_budget
from agentrt.programs.combine import Vote, gather, race, vote
from agentrt.programs.describe import describe
from agentrt.programs.extract import extract, extract_sync
from agentrt.programs.generating import Result
from agentrt.programs.program import Program, program
from agentrt.programs.state import GenOptions, State
from agentrt.programs.streams import StateStream

__all__ = [
    "Budget",
    "GenOptions",
    "Program",
    "Result",
    "State",
    "StateStream",
    "Vote",
    "current_budget",
    "describe",
    "extract",
    "extract_sync",
    "gather",
    "program",
    "race",
    "vote",
]
