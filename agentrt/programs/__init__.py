"""The language: programs over states, and what is built of them."""

from agentrt.programs.budget import Budget, current_budget
from agentrt.programs.calls import ToolResult, call_tools
from agentrt.programs.combine import Vote, gather, race, vote
from agentrt.programs.describe import describe
from agentrt.programs.extract import extract, extract_sync
from agentrt.programs.generating import Result
from agentrt.programs.mapping import Failed, Mapped, map, map_as_completed
from agentrt.programs.program import Program, program
from agentrt.programs.state import GenOptions, State
from agentrt.programs.streams import StateStream
from agentrt.programs.tools import Tool, describe_tools, tool

__all__ = [
    "Budget",
    "Failed",
    "GenOptions",
    "Mapped",
    "Program",
    "Result",
    "State",
    "StateStream",
    "Tool",
    "ToolResult",
    "Vote",
    "call_tools",
    "current_budget",
    "describe",
    "describe_tools",
    "extract",
    "extract_sync",
    "gather",
    "map",
    "map_as_completed",
    "program",
    "race",
    "tool",
    "vote",
]
