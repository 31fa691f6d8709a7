"""The scheduler: which tokens of which requests to compute next. Plain Python and numpy.

policy -> waiting -> prefixes     who is next, without asking the cache about everybody
running -> groups, prefixes       who runs, in the order of the tree
ledger                            slots and locks changing hands
step                              the rules, applied once
scheduler                         requests in, decisions out
"""

from agentrt.runtime.scheduler.decision import Decision, Work
from agentrt.runtime.scheduler.policy import SchedulePolicy
from agentrt.runtime.scheduler.scheduler import Scheduler, SchedulerConfig, SchedulerStats

__all__ = ["Decision", "SchedulePolicy", "Scheduler", "SchedulerConfig", "SchedulerStats", "Work"]
