"""Arrays whose items must all differ: the items so far, read back from the text.

While such an array is open the configuration carries a tape, the text since its bracket. When an
item is complete its value joins those that the next may not be. Without a tape (when a token mask
is worked out for all texts at once) items are not told apart.
"""

from __future__ import annotations

import json
import re
from functools import cache
from typing import TYPE_CHECKING

from agentrt.schema.algebra import consts
from agentrt.schema.machine import states as at

if TYPE_CHECKING:
    from collections.abc import Callable

    from agentrt.schema.algebra.space import Expr
    from agentrt.schema.machine.frames import Configuration, Frame
    from agentrt.schema.machine.machine import Machine


def settled(
    machine: Machine, frames: list[Frame], tape: bytes | None, byte: int
) -> Configuration | None:
    """The configuration of these frames, reached by this byte."""
    if tape is not None:
        tape += bytes([byte])
    if any(_array(f.state) is not None for f in frames):

        @cache
        def item(before_comma: bool) -> Expr:
            """What was read of the tape last, once for all frames."""
            assert tape is not None
            text = tape.rstrip(b" \t\n\r")
            if before_comma:
                text = text[: text.rindex(b",")]
            return consts.one_of(machine.space, [json.loads(text[_last_item(text) :])], "")

        kept = [_settle(machine, f, None if tape is None else item) for f in frames]
        frames = [f for f in kept if f is not None]
        if tape is None and any(_opens(f.state) for f in frames):
            tape = b"["
    if tape is not None and byte == 0x5D and _depth(tape) == 0:
        tape = None
    return machine.store.configuration(frames, tape) if frames else None


def _opens(state: object) -> bool:
    return isinstance(state, at.InArray) and state.phase == "open" and state.node.plan.unique


def _array(state: object) -> at.InArray | None:
    if isinstance(state, at.Spaces | at.Expect):
        state = state.inner
    return state if isinstance(state, at.InArray) and state.node.plan.unique else None


def _settle(machine: Machine, frame: Frame, item: Callable[[bool], Expr] | None) -> Frame | None:
    state = _array(frame.state)
    if state is None or not state.unread:
        return frame
    seen = state.seen
    if item is not None:
        seen = tuple(sorted({*seen, item(state.phase == "next")}))
    read = state._replace(seen=seen, unread=False)
    if read.phase == "next" and not machine.items.more_items(read):
        return None
    outer = frame.state
    inner = outer._replace(inner=read) if isinstance(outer, at.Spaces | at.Expect) else read
    return machine.store.frame(inner, frame.parents)


_STRING_OR_MARK = re.compile(rb'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)|[][{},]', re.DOTALL)


def _scan(text: bytes) -> list[int]:
    """For each bracket still open at the end, where the item after it, or after the last comma
    directly inside it, begins."""
    starts: list[int] = []
    for found in _STRING_OR_MARK.finditer(text):
        c = text[found.start()]
        if c in b"[{":
            starts.append(found.end())
        elif c in b"]}":
            starts.pop()
        elif c == 0x2C:
            starts[-1] = found.end()
    return starts


def _last_item(text: bytes) -> int:
    return _scan(text)[-1]


def _depth(text: bytes) -> int:
    return len(_scan(text))
