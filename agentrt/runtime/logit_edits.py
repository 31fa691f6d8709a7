"""What a request changes in its logits before a token is chosen, in a fixed order.

    1. logit_bias           logit + bias
    2. repetition_penalty   of tokens in the prompt or the output, once each: a positive logit is
                            divided, a negative one multiplied (Keskar et al. 2019, section 4.1)
    3. frequency_penalty    of tokens in the output: logit - times seen * penalty
       presence_penalty     of tokens in the output: logit - penalty
    4. banned               -inf
    5. mask                 -inf where the bit is not set

The first four touch few tokens: those are gathered, changed on the host and written back, so that
one arithmetic serves every device.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from agentrt.runtime.constraining import allows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentrt.generation import SamplingParams
    from agentrt.runtime.batch import Float32Array, Int64Array, SampleRow


def changes_values(row: SampleRow) -> bool:
    """Whether the row's logits change other than by some of them being forbidden."""
    params = row.params
    return bool(params.logit_bias) or params.repetition_penalty != 1.0 or _penalises_output(row)


def may_come(row: SampleRow, token_id: int) -> bool:
    """Whether neither the mask nor a ban forbids the token."""
    if token_id in row.banned:
        return False
    return row.mask is None or allows(row.mask, token_id)


def mask_words(vocab_size: int) -> int:
    """How many 32-bit words a mask over the vocabulary has."""
    return -(-vocab_size // 32)


def edited(logits: torch.Tensor, rows: Sequence[SampleRow]) -> torch.Tensor:
    """The logits, float32 [R, V], with each row's changes; the same tensor where there are none."""
    logits = _with_changed_values(logits, rows)
    masked = [i for i, row in enumerate(rows) if row.mask is not None]
    if not masked:
        return logits
    masks = np.stack([row.mask for row in rows if row.mask is not None])
    # Adding 0 or -inf: no branches, where filling under a ragged mask is 5 times slower.
    forbidden = _forbidden(masks).to(logits.device)[:, : logits.shape[1]]
    if len(masked) == len(rows):
        return logits + forbidden
    return logits.index_add(0, torch.tensor(masked, device=logits.device), forbidden)


class _Touched(NamedTuple):
    """The tokens that a row's steps 1 to 4 touch, int64; `banned` may repeat itself."""

    biased: Int64Array
    seen: Int64Array  # in the prompt or the output
    used: Int64Array  # in the output
    times_used: Int64Array
    banned: Int64Array

    @classmethod
    def by(cls, row: SampleRow) -> _Touched:
        params = row.params
        penalises_output = _penalises_output(row)
        repeats = params.repetition_penalty != 1.0
        history = _as_ids(row.history if repeats or penalises_output else ())
        seen = np.unique(np.concatenate([_as_ids(row.prompt), history])) if repeats else _NONE
        used = np.unique(history, return_counts=True) if penalises_output else (_NONE, _NONE)
        return cls(_as_ids(params.logit_bias), seen, *used, _as_ids(row.banned))

    def ids(self) -> Int64Array:
        """All of them, ascending, each once."""
        return np.unique(np.concatenate([self.biased, self.seen, self.used, self.banned]))


def _with_changed_values(logits: torch.Tensor, rows: Sequence[SampleRow]) -> torch.Tensor:
    """Steps 1 to 4, with one gather and one scatter for all the rows."""
    changing = [i for i, row in enumerate(rows) if changes_values(row) or row.banned]
    if not changing:
        return logits
    touched = [_Touched.by(rows[i]) for i in changing]
    ids = [its.ids() for its in touched]
    starts = [i * logits.shape[1] for i in changing]
    flat = np.concatenate([some + start for some, start in zip(ids, starts, strict=True)])
    at = torch.from_numpy(flat).to(logits.device)
    values, end = logits.take(at).cpu().numpy(), 0
    for i, its, its_ids in zip(changing, touched, ids, strict=True):
        start, end = end, end + len(its_ids)
        _change(values[start:end], its_ids, its, rows[i].params)
    return logits.put(at, torch.from_numpy(values).to(logits.device))


def _change(
    values: Float32Array, ids: Int64Array, touched: _Touched, params: SamplingParams
) -> None:
    """Changes `values`, the logits of the tokens `ids`, in place."""
    # A value may leave float32 here; the caller looks for that and fails the row.
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        bias = np.fromiter(params.logit_bias.values(), np.float32)
        values[np.searchsorted(ids, touched.biased)] += bias
        seen = np.searchsorted(ids, touched.seen)
        old, penalty = values[seen], np.float32(params.repetition_penalty)
        values[seen] = np.where(old < 0, old * penalty, old / penalty)
        loss = touched.times_used * params.frequency_penalty + params.presence_penalty
        values[np.searchsorted(ids, touched.used)] -= loss.astype(np.float32)
    values[np.searchsorted(ids, touched.banned)] = -np.inf


def _penalises_output(row: SampleRow) -> bool:
    params = row.params
    return params.frequency_penalty != 0.0 or params.presence_penalty != 0.0


def _as_ids(tokens: Sequence[int] | dict[int, float]) -> Int64Array:
    return np.fromiter(tokens, np.int64, len(tokens))


_NONE = _as_ids(())


def _byte_table() -> npt.NDArray[np.float32]:
    """Row b: 0 where bit i of byte b is set, -inf where it is not; [256, 8]."""
    bits = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little")
    return np.where(bits == 1, np.float32(0.0), np.float32(-np.inf))


_TABLE = _byte_table()


def _forbidden(masks: npt.NDArray[np.uint32]) -> torch.Tensor:
    """Packed masks [R, W] as float32 [R, 32 * W]: 0 where allowed, -inf where not."""
    octets = masks.astype("<u4", copy=False).view(np.uint8)
    return torch.from_numpy(_TABLE.take(octets, axis=0).reshape(len(masks), -1))
