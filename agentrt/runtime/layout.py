"""A scheduler's decision as the flat arrays of one batch."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from agentrt.runtime.batch import Layout

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentrt.runtime.batch import Int32Array, Int64Array
    from agentrt.runtime.scheduler import Decision


def layout(decision: Decision) -> Layout:
    """The step's arrays; copies, so they stay right whatever happens to the requests."""
    work = decision.work
    starts = np.array([start for _, start, _ in work], np.int64)
    ends = np.array([end for _, _, end in work], np.int64)
    q_indptr, kv_indptr = _offsets(ends - starts), _offsets(ends)
    kv_slots = _joined([request.slots[:end] for request, _, end in work])
    # Row i of sequence b sits at position starts[b] + i, and at kv_indptr[b] + that in kv_slots.
    rows = np.arange(q_indptr[-1], dtype=np.int64)
    positions = rows + np.repeat(starts - q_indptr[:-1], ends - starts)
    return Layout(
        token_ids=np.fromiter(
            chain.from_iterable([r.token_ids[start:end] for r, start, end in work]), np.int64
        ),
        positions=positions,
        out_slots=kv_slots[positions + np.repeat(kv_indptr[:-1], ends - starts)].astype(np.int64),
        q_indptr=q_indptr.astype(np.int32),
        kv_indptr=kv_indptr.astype(np.int32),
        kv_slots=kv_slots,
        groups=decision.groups,
    )


def _offsets(lengths: Int64Array) -> Int64Array:
    return np.concatenate([[0], np.cumsum(lengths)])


def _joined(parts: Sequence[Int32Array]) -> Int32Array:
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int32)
