"""How a process ends: at once, with the right code, whatever is raised or never returns."""

from __future__ import annotations

import subprocess
import sys

import pytest

RAISED = """
import asyncio, itertools, sys
from pydantic import BaseModel, field_validator
from agentrt import Runtime, State, gather, tool
from agentrt.testing import ScriptedModel

where, errors = sys.argv[1], itertools.cycle([SystemExit(3), *map(eval, sys.argv[2:])])

def stop(*_):
    raise type(error := next(errors))(*error.args)

class Refused(BaseModel):
    fine: bool

    @field_validator("fine")
    @classmethod
    def check(cls, given: bool) -> bool:
        stop()

@tool
def sync_tool() -> None:
    stop()

@tool
async def async_tool() -> None:
    stop()

async def branch(s):
    if where == "validator":
        await s.gen(Refused)
    elif where == "check":
        await s.gen(max_tokens=3, check=stop)
    elif where == "branch":
        await s.gen(max_tokens=3)
        stop()
    else:
        await {"sync tool": sync_tool, "async tool": async_tool}[where].call({})

async def forked(number):
    s = State()
    s.text(str(number))
    await gather(*map(branch, s.fork(4)))

async def main():
    # Tasks of asyncio's own let an exit out of the event loop, one after the other.
    async with Runtime(ScriptedModel.babbling()):
        await asyncio.gather(*map(forked, range(25)))

asyncio.run(main())
"""
HUNG = """
import asyncio, threading
from agentrt import tool

@tool(timeout=0.01)
def never() -> None:
    threading.Event().wait()

async def main():
    try:
        await never.call({})
    except TimeoutError:
        print("left")

asyncio.run(main())
"""


def ended(script: str, *args: str) -> subprocess.CompletedProcess[str]:
    """What became of a process; only a hang takes it anywhere near this long."""
    command = [sys.executable, "-c", script, *args]
    return subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)


@pytest.mark.parametrize("where", ["sync tool", "async tool", "validator", "check", "branch"])
def test_exits_raised_in_many_branches_end_the_process(where: str) -> None:
    assert ended(RAISED, where).returncode == 3


@pytest.mark.parametrize("where", ["sync tool", "validator", "branch"])
def test_an_interrupt_beside_an_exit_ends_the_process(where: str) -> None:
    done = ended(RAISED, where, "KeyboardInterrupt()")
    assert done.returncode in (3, 130, -2), done.stderr


def test_a_tool_that_never_returns_keeps_no_process_alive() -> None:
    done = ended(HUNG)
    assert (done.returncode, done.stdout) == (0, "left\n")
