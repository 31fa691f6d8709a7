"""One engine step as a value: what to compute, where it lives, what to choose. numpy only.

The scheduler's decision becomes one `Batch`; an executor (the decoder, or the scripted model of
`agentrt.testing`) turns it into one `StepResult`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentrt.generation import SamplingParams
    from agentrt.matching import Bitmask

Int32Array = npt.NDArray[np.int32]
Int64Array = npt.NDArray[np.int64]
Float32Array = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class PrefixGroup:
    """Sequences [start, stop) of the batch have the same first `length` KV slots.

    Only slots computed in earlier steps or by the same step's earlier rows are counted; `length` is
    at most every member's first query position, so the whole prefix is visible to all its queries.
    """

    start: int
    stop: int
    length: int


class Layout(NamedTuple):
    """T new tokens of B sequences, flat and ragged, and the KV slots they attend to.

    Sequence b owns rows q_indptr[b]:q_indptr[b+1] of the flat arrays and attends to
    kv_slots[kv_indptr[b]:kv_indptr[b+1]], which lists its slots in position order, the new tokens'
    own slots last: with n new tokens of a kv length L, row i sits at position L - n + i and sees
    the first L - n + i + 1 of them. A slot written by one sequence in this batch may be read by
    another in the same batch: every layer writes all K and V before it attends.
    """

    token_ids: Int64Array  # [T]
    positions: Int64Array  # [T]
    out_slots: Int64Array  # [T], where K and V of each new token go
    q_indptr: Int32Array  # [B + 1]
    kv_indptr: Int32Array  # [B + 1]
    kv_slots: Int32Array  # [kv_indptr[B]]
    groups: tuple[PrefixGroup, ...] = ()  # disjoint, in order, only those worth sharing

    @property
    def num_tokens(self) -> int:
        return len(self.token_ids)

    @property
    def num_seqs(self) -> int:
        return len(self.q_indptr) - 1


class SampleRow(NamedTuple):  # tuples: one of them is made for every token that is chosen
    """Choose one token from the logits of flat row `row`.

    `position` is the position the chosen token will take (the counter of its random stream);
    `history` are the output tokens so far, for penalties; `prompt` the prompt's, which only the
    repetition penalty counts. `banned` are token ids that may not come now (end tokens before
    min_tokens).
    """

    row: int
    params: SamplingParams
    seed: int
    position: int
    mask: Bitmask | None = None
    history: Sequence[int] = ()
    prompt: Sequence[int] = ()
    banned: Sequence[int] = ()


_NO_ROWS = np.zeros(0, np.int64)
_NO_SCORES = np.zeros(0, np.float32)


class Batch(NamedTuple):
    """Everything one step needs.

    Beside the samples, row score_rows[i] is asked for the log-probability of score_targets[i].
    """

    layout: Layout
    samples: tuple[SampleRow, ...] = ()
    score_rows: Int64Array = _NO_ROWS  # [S]
    score_targets: Int64Array = _NO_ROWS  # [S]


class Sampled(NamedTuple):
    """One chosen token. `error` set means the row could not be sampled and why; the others could.

    `logprob` and `top` are of the model's own distribution; `logprob` is NaN when neither
    `logprobs` nor `top_logprobs` was asked for.
    """

    token_id: int
    logprob: float = float("nan")
    top: tuple[tuple[int, float], ...] = ()
    error: str | None = None


class StepResult(NamedTuple):
    """`sampled[i]` answers `batch.samples[i]`; `scores[i]` answers `batch.score_rows[i]`."""

    sampled: tuple[Sampled, ...]
    scores: Float32Array = _NO_SCORES


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """What the engine must know of a model; no tensors."""

    name: str
    vocab_size: int
    context_length: int
    eos_token_ids: frozenset[int]
    kv_bytes_per_token: int
    spare_rows: int = 0
    """How many rows could be computed while a step reads the weights: a step of n rows takes as
    long as n + spare_rows of them. 0 where a row's bits depend on the others beside it, for there
    a guess could change the answer."""


class Executor(Protocol):
    """Runs batches against a KV pool of a fixed number of slots."""

    @property
    def spec(self) -> ModelSpec: ...

    @property
    def num_slots(self) -> int: ...

    def execute(self, batch: Batch) -> StepResult:
        """Computes one step: writes K and V to `out_slots`, attends, chooses. Blocking."""
        ...

    def close(self) -> None:
        """Frees the weights and the pool."""
        ...
