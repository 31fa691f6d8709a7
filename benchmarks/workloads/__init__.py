"""The shapes that agent programs take, each described once and run by every engine alike."""

from benchmarks.workloads.branch import Answer, Branch, Call, Engine, TextBranch
from benchmarks.workloads.catalogue import WORKLOADS, Size, Workload
from benchmarks.workloads.measure import Outcome, run, summed_up

__all__ = [
    "WORKLOADS",
    "Answer",
    "Branch",
    "Call",
    "Engine",
    "Outcome",
    "Size",
    "TextBranch",
    "Workload",
    "run",
    "summed_up",
]
