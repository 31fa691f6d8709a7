"""The most that something opened, or a name taken, can need to be closed or avoided."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from agentrt.schema.machine import states as at
from agentrt.schema.machine.digits import NumberText
from agentrt.schema.machine.shortest import has_dear_characters

if TYPE_CHECKING:
    from agentrt.schema.machine.frames import Frame
    from agentrt.schema.machine.texts import StringText
    from agentrt.schema.values.strings import Strings


def names_avoided(frame: Frame) -> int:
    """The most tokens that names taken already, or the one begun, can add in one object."""
    state, parents = at.bare(frame.state), frame.parents
    if isinstance(state, at.InOtherKey):
        above = parents.frames if parents else ()
        return max((_longer(parent.state, state.text or "") for parent in above), default=0)
    if not isinstance(state, at.InObject) or not state.others:
        return 0
    return _longer(state, "")


def _longer(state: object, begun: str) -> int:
    """What a key that begins so may have to be longer, and what the names to come may. For each
    length that names taken have, it may have to go on to another name."""
    if not isinstance(state, at.InObject):
        return 0
    plan = state.node.plan
    lengths = {len(name) for name in state.others if name.startswith(begun)}
    free = any(cls.names.dfa is None for cls in plan.usable_classes)
    wanted = max(0, plan.shape.lo - state.members) + (plan.all_some & ~state.met).bit_count()
    longest = _longest_name(state)
    return len(lengths) * (1 if free else longest) + wanted * (4 + longest)


def _longest_name(state: at.InObject) -> int:
    """Bytes that suffice for a name that is not taken."""
    taken = len(state.others) + 1
    return max(
        (
            longest_end(cls.names) + (taken // 20 if cls.names.dfa is None else 6 * taken)
            for cls in state.node.plan.usable_classes
        ),
        default=0,
    )


def written_name(name: str) -> int:
    """The bytes of a key as it is written."""
    return len(json.dumps(name))


def longest_end(strings: Strings) -> int:
    """Bytes that suffice to end a string wherever it stands."""
    if strings.dfa is None:
        return strings.lo
    # with a least length it may have to go round for it
    characters = strings.lo + len(strings.dfa.rows) if strings.lo else strings.dfa.farthest
    return 6 * characters if has_dear_characters(strings.dfa) else 2 * characters


def longest_number(text: StringText | NumberText) -> int:
    """Bytes that suffice to end a number wherever it stands."""
    return text.longest_end if isinstance(text, NumberText) else longest_end(text.strings)
