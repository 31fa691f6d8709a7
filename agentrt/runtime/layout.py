"""A scheduler's decision as the flat arrays of one batch."""

from __future__ import annotations

from itertools import accumulate, chain
from typing import TYPE_CHECKING

import numpy as np

from agentrt.runtime.batch import Layout

if TYPE_CHECKING:
    from agentrt.runtime.batch import Int32Array
    from agentrt.runtime.scheduler import Decision


def layout(decision: Decision) -> Layout:
    """The step's arrays; copies, so they stay right whatever happens to the requests.

    Made with as few calls as may be, whatever the number of sequences: between two steps of a model
    nothing is in the processor's caches, and a call of numpy's takes several times what it does in
    a loop.
    """
    work = decision.work
    tokens = decision.num_tokens
    return Layout(
        token_ids=np.fromiter(
            chain.from_iterable([r.token_ids[start:end] for r, start, end in work]),
            np.int64,
            tokens,
        ),
        positions=np.fromiter(
            chain.from_iterable([range(start, end) for _, start, end in work]), np.int64, tokens
        ),
        out_slots=_joined([r.slots[start:end] for r, start, end in work]).astype(np.int64),
        q_indptr=_offsets([end - start for _, start, end in work]),
        kv_indptr=_offsets([end for _, _, end in work]),
        kv_slots=_joined([r.slots[:end] for r, _, end in work]),
        groups=decision.groups,
    )


def _offsets(lengths: list[int]) -> Int32Array:
    return np.array([0, *accumulate(lengths)], np.int32)


def _joined(parts: list[Int32Array]) -> Int32Array:
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int32)
