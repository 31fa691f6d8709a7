"""Reads what a mask rule of transformers means, instead of trusting what a layer is called."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentrt.runtime.model.hook import MaskRule


class IrregularMask(Exception):
    """The rule is neither causal nor a causal sliding window; the message says where it departs."""


def window_of(rule: MaskRule, context_length: int) -> int | None:
    """The sliding window that a mask rule stands for; None when it is plain causal.

    The rule is evaluated for every key at a handful of queries spread over the context, so chunks,
    blocks, look-ahead and padding show, and a window shows whatever its size. A window that never
    hides a key in the context is no window.
    """
    keys = torch.arange(context_length)
    seen = {query: _visible(rule, query, keys) for query in _queries(context_length)}
    window = seen[context_length - 1]
    for query, count in seen.items():
        if count != min(query + 1, window):
            raise IrregularMask(
                f"the query at position {query} sees {count} keys and the one at position "
                f"{context_length - 1} sees {window}"
            )
    return None if window == context_length else window


def _queries(context_length: int) -> Iterator[int]:
    last = context_length - 1
    for query in (0, 1, 2, 7, last // 3, last // 2, last // 2 + 1, last - 1, last):
        if 0 <= query <= last:
            yield query


def _visible(rule: MaskRule, query: int, keys: torch.Tensor) -> int:
    """How many keys the query sees, which must be the last ones up to its own position."""
    zero = torch.tensor(0)
    try:
        visible = rule(zero, zero, torch.tensor(query), keys).expand(len(keys))
    except (IndexError, RuntimeError) as error:
        raise IrregularMask("it depends on more than the positions") from error
    count = int(visible.sum())
    if count == 0 or not bool(visible[query - count + 1 : query + 1].all()):
        raise IrregularMask(f"the query at position {query} sees keys that are not its nearest")
    return count
