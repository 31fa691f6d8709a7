"""Running a recorded program again: answered from its record, or branched off from one answer."""

from __future__ import annotations

from agentrt.errors import ReplayDrift
from agentrt.trace.replay.branching import Branched, branch
from agentrt.trace.replay.runtime import Replay, replaying

__all__ = ["Branched", "Replay", "ReplayDrift", "branch", "replaying"]
