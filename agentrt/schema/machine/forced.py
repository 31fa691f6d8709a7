"""The bytes that may come next, where they are few: what jump-forward lives on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentrt.schema.machine import states as at
from agentrt.schema.machine.texts import LiteralText, StringText, Within

if TYPE_CHECKING:
    from agentrt.schema.machine.frames import Configuration, Frame
    from agentrt.schema.machine.keys import NameTree
    from agentrt.schema.machine.machine import Machine

_MANY = None
_MOST_FORCED = 256


def only_byte(machine: Machine, configuration: Configuration) -> int | None:
    """The one byte that may come next; None where there are more, or the text may end."""
    if machine.may_end(configuration):
        return None
    found: set[int] = set()
    for frame in configuration.frames:
        some = _next_bytes(machine, frame)
        if some is None:
            return None
        found |= some
        if len(found) > 1:
            return None
    return found.pop() if found else None


def forced_text(machine: Machine, configuration: Configuration) -> tuple[bytes, Configuration]:
    """The text that must come next, as far as a step may take, and where it leads."""
    out = bytearray()
    while len(out) < _MOST_FORCED:
        byte = only_byte(machine, configuration)
        following = None if byte is None else machine.step(configuration, byte)
        if byte is None or following is None:
            break
        out.append(byte)
        configuration = following
    return bytes(out), configuration


def _next_bytes(machine: Machine, frame: Frame) -> set[int] | None:
    """The bytes that a frame can go on with; None for several."""
    state = frame.state
    if machine.options.whitespace == "free" and not isinstance(
        state, at.InText | at.InKnownKey | at.InOtherKey
    ):
        return _MANY
    match state:
        case at.InText():
            return _in_text(state)
        case at.InKnownKey():
            return _in_name(state.node.tree, state)
        case at.InOtherKey():
            return _MANY
        case at.BeforeColon():
            return {0x3A}
        case at.Expect():
            return {state.byte}
        case at.Start():
            openings = machine.openings(state.value)
            return set(openings) if len(openings) == 1 else _MANY
        case _:
            return _structural(machine, frame)


def _structural(machine: Machine, frame: Frame) -> set[int] | None:
    state = frame.state
    if isinstance(state, at.InObject):
        candidates = {"open": b'"}', "next": b'"', "after": b",}"}.get(state.phase, b"")
    elif isinstance(state, at.InArray):
        if state.phase != "after":
            found = {
                b for value, _ in machine.items.next_items(state) for b in machine.openings(value)
            }
            ends = state.phase == "open" and state.node.plan.may_end(state.position, state.counts)
            return found | {0x5D} if ends else found
        candidates = b",]"
    else:
        return _MANY
    return {byte for byte in candidates if machine.after(frame, byte)}


def _in_text(state: at.InText) -> set[int] | None:
    text = state.text
    if isinstance(text, LiteralText):
        assert isinstance(state.at, int)
        return {text.text[state.at]}
    if not isinstance(text, StringText) or text.dfa is None:
        return _MANY
    within = state.at
    assert isinstance(within, Within)
    if within.pending is not None:
        return _MANY
    found = {0x22} if text.codec.json and text.step(within, 0x22) is not None else set[int]()
    if not text.codec.json and text.may_end(within):
        return _MANY
    return _one_character(text, within, found)


def _one_character(text: StringText, within: Within, found: set[int]) -> set[int] | None:
    """Adds the character that must follow, where it is one of printable ASCII."""
    dfa = text.dfa
    assert dfa is not None
    live = [c for c, t in enumerate(dfa.rows[within.dfa]) if t in dfa.live]
    if len(live) > 1 or (live and found):
        return _MANY
    if not live:
        return found
    symbols = dfa.alphabet
    at_class = [i for i, c in enumerate(symbols.classes) if c == live[0]]
    start = symbols.starts[at_class[0]]
    single = len(at_class) == 1 and symbols.starts[at_class[0] + 1 :][:1] == (start + 1,)
    if not single or not 0x20 <= start < 0x7F:
        return _MANY
    if text.codec.json and start in (0x22, 0x5C):
        return {0x5C}
    return {start}


def _in_name(tree: NameTree, state: at.InKnownKey) -> set[int] | None:
    node, allowed, pending = state.at
    if pending is not None:
        return _MANY
    found = set[int]()
    if tree.ends[node] >= 0 and allowed >> tree.ends[node] & 1:
        found.add(0x22)
    for code_point, target in tree.children[node].items():
        if not allowed & tree.below[target]:
            continue
        if not 0x20 <= code_point < 0x7F:
            return _MANY
        found.add(0x5C if code_point in (0x22, 0x5C) else code_point)
        if len(found) > 1:
            return _MANY
    return found
