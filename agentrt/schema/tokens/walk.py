"""Follows texts along the tree of tokens, by as few of its branches as may be."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentrt.schema.machine.digits import NumberText
from agentrt.schema.machine.texts import LiteralText, StringText, TextAutomaton, Within

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from agentrt.schema.tokens.trie import Node

_NUMERIC = frozenset(b"0123456789+-.eE")
_FEW = 3


def onward(node: Node, text: TextAutomaton, within: object) -> Iterator[tuple[Node, object]]:
    """The children of a node that a text can go on to, and where it then stands."""
    for byte, child in reachable(node, text, within):
        following = text.step(within, byte)
        if following is not None:
            yield child, following


def reachable(node: Node, text: TextAutomaton, within: object) -> Iterable[tuple[int, Node]]:
    """The children by bytes that may come next, or by all where asking would cost more."""
    if len(node.children) < _FEW:
        return node.children.items()
    return shared(node, _next_bytes(text, within))


def _next_bytes(text: TextAutomaton, within: object) -> Collection[int] | None:
    """The bytes that may come next, where they are few."""
    if isinstance(text, StringText):
        assert isinstance(within, Within)
        return None if within.pending is not None else text.few(within)
    if isinstance(text, LiteralText):
        assert isinstance(within, int)
        return text.text[within : within + 1]
    return _NUMERIC if isinstance(text, NumberText) else None


def shared(node: Node, few: Collection[int] | None) -> Iterator[tuple[int, Node]]:
    """The children by bytes that may come next."""
    children = node.children
    if few is None:
        yield from children.items()
        return
    if len(children) < len(few):
        yield from [item for item in children.items() if item[0] in few]
        return
    for byte in few:
        child = children.get(byte)
        if child is not None:
            yield byte, child
