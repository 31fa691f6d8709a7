"""An automaton over characters as a regex, state by state taken out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentrt.errors import SchemaError
from agentrt.schema.flat.spelling import characters

if TYPE_CHECKING:
    from agentrt.schema.flat.spelling import Interval
    from agentrt.schema.regex.dfa import Dfa

_MOST_STATES = 40
_START, _END = -1, -2

Edges = dict[int, dict[int, str]]


def regex_of(dfa: Dfa, *, json: bool, ascii_only: bool, pointer: str, most: int) -> str:
    """The regex of the texts that the automaton accepts, in at most so many characters.

    Raises SchemaError where it has too many states or the regex grows too long.
    """
    live = sorted(dfa.live)
    if len(live) > _MOST_STATES:
        raise SchemaError(
            pointer,
            f"the automaton of a string has {len(live)} states, and {_MOST_STATES} make a regex "
            "that can be read",
        )
    edges: Edges = {_START: {0: ""}}
    for q in live:
        by_target: dict[int, list[Interval]] = {}
        for lo, hi, target in _intervals(dfa, q):
            by_target.setdefault(target, []).append((lo, hi))
        edges[q] = {
            target: either(characters(found, json=json, ascii_only=ascii_only))
            for target, found in by_target.items()
            if target in dfa.live
        }
        if q in dfa.accepting:
            edges[q][_END] = ""
    for q in sorted(live, key=lambda q: len(edges[q])):
        _take_out(edges, q)
        if sum(len(r) for row in edges.values() for r in row.values()) > most:
            raise SchemaError(pointer, f"the regex of a string passes {most} characters")
    return edges[_START].get(_END, "[]")


def _intervals(dfa: Dfa, state: int) -> list[tuple[int, int, int]]:
    """The code points that lead somewhere, and where; surrogates, which no text holds, left out."""
    symbols = dfa.alphabet
    ends = (*symbols.starts[1:], 0x110000)
    out: list[tuple[int, int, int]] = []
    for lo, end, cls in zip(symbols.starts, ends, symbols.classes, strict=True):
        for a, b in ((lo, min(end - 1, 0xD7FF)), (max(lo, 0xE000), end - 1)):
            if a <= b:
                out.append((a, b, dfa.rows[state][cls]))
    return out


def _take_out(edges: Edges, q: int) -> None:
    """Routes every way through the state past it."""
    out = edges.pop(q)
    loop = starred(out.pop(q, ""))
    for row in edges.values():
        into = row.pop(q, None)
        if into is None:
            continue
        for target, rest in out.items():
            way = into + loop + rest
            row[target] = either([row[target], way]) if target in row else way


def either(ways: list[str]) -> str:
    """One of these; an empty one makes the others optional."""
    ways = list(dict.fromkeys(ways))
    full = [w for w in ways if w]
    if not full:
        return ""
    if len(full) == len(ways):
        return full[0] if len(full) == 1 else f"(?:{'|'.join(full)})"
    return f"(?:{'|'.join(full)})?"


def starred(regex: str) -> str:
    return f"(?:{regex})*" if regex else ""
