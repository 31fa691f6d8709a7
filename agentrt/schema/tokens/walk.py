"""Follows texts along the tree of tokens, by as few of its branches as may be."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentrt.schema.machine.digits import NumberText
from agentrt.schema.machine.texts import LiteralText, StringText, TextAutomaton, Within

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from agentrt.schema.tokens.trie import Node

_NUMERIC = frozenset(b"0123456789+-.eE")
_FEW = 3


def onward(node: Node, text: TextAutomaton, within: object) -> list[tuple[Node, object]]:
    """The children of a node that a text can go on to, and where it then stands."""
    step = text.step
    return [
        (child, following)
        for byte, child in reachable(node, text, within)
        if (following := step(within, byte)) is not None
    ]


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


def shared(node: Node, few: Collection[int] | None) -> Iterable[tuple[int, Node]]:
    """The children by bytes that may come next."""
    children = node.children
    if few is None:
        return children.items()
    if len(children) < len(few):
        return [item for item in children.items() if item[0] in few]
    return [(byte, children[byte]) for byte in few if byte in children]
